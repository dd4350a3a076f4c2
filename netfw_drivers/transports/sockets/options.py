"""Options of the transport, and settings parsed from them.  Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from oslo_config import cfg

from netfw.conf.paths import in_state_path
from netfw.errors import ConfigError
from netfw_drivers.transports.sockets.address import (
    FORMS,
    Address,
    OpenSocket,
    TcpAddress,
    parse_address,
)

_DEFAULT = "unix:$state_path/messages.sock"

OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.ListOpt(
        "listen",
        default=[_DEFAULT],
        help=f"Where a server listens: {FORMS}, several with commas between.  fd:NUMBER is a "
        "socket that listens already, inherited from the process that started this one.",
    ),
    cfg.ListOpt(
        "connect",
        default=[_DEFAULT],
        help=f"Where agents find servers: {FORMS}; the next one is tried when one fails.",
    ),
    cfg.StrOpt(
        "socket_mode",
        default="0660",
        help="Permissions of unix sockets.  Connecting needs write permission.",
    ),
    cfg.ListOpt(
        "allowed_users",
        default=[],
        help="Users, by name or number, who may connect to unix sockets.  When neither these nor "
        "allowed_groups are given: root and the user that the server runs as.",
    ),
    cfg.ListOpt(
        "allowed_groups",
        default=[],
        help="Groups, by name or number, whose members may connect to unix sockets.",
    ),
    cfg.StrOpt(
        "token_file",
        help="File with a token per line: HOST TOKEN SERVICES, with services such as l2 or "
        "dhcp,l3,metadata; HOST TOKEN for all services; TOKEN for all hosts.  Clients on TCP prove "
        "that they know one, and servers that they know the same.  A client uses the first.",
    ),
    cfg.StrOpt("tls_certificate", help="This side's certificate, with its chain (PEM)."),
    cfg.StrOpt("tls_key", help="The file with the key of that certificate (PEM)."),
    cfg.StrOpt(
        "tls_ca",
        help="Authorities that sign the other side's certificate (PEM).  A server that has them "
        "admits only clients with a certificate; clients that have none trust the system's.",
    ),
    cfg.BoolOpt(
        "certificate_is_host",
        default=True,
        help="A client speaks for no other host than the one that its certificate names: the first "
        "DNS name, else the common name, which is the host option of its agents.  If false, any "
        "certificate of tls_ca is valid for every host.",
    ),
    cfg.BoolOpt(
        "allow_plaintext_tcp",
        default=False,
        help="Allow tcp: on other addresses than loopback.  Every host on the path can read and "
        "change all messages.",
    ),
    cfg.IntOpt("max_message_size", default=16 << 20, min=4096, max=1 << 30,
               help="Bytes that a message has at most."),
    cfg.IntOpt("max_connections", default=4000, min=1,
               help="Clients that one server process serves at most."),
    cfg.IntOpt("threads", default=8, min=1, help="Requests that are answered at the same time."),
    cfg.IntOpt("max_queued_requests", default=1000, min=0,
               help="Requests that wait for a worker at most; more are refused."),
    cfg.FloatOpt("handshake_timeout", default=10.0,
                 help="Seconds in which a connection must be made and authenticated."),
    cfg.FloatOpt("transfer_timeout", default=30.0,
                 help="Seconds in which a message must be transferred."),
    cfg.FloatOpt("idle_timeout", default=15.0,
                 help="Seconds without a message after which a client probes its server; after as "
                 "many more without an answer it connects again."),
    cfg.FloatOpt("reconnect_interval", default=0.2,
                 help="Seconds until a lost connection is made again; each further pause is twice "
                 "as long."),
    cfg.FloatOpt("reconnect_interval_max", default=2.0,
                 help="Seconds that such a pause takes at most; up to half is added at random."),
)  # fmt: skip


@frozen(kw_only=True)
class Tls:
    """Files for TLS."""

    certificate: str | None = None
    key: str | None = None
    authorities: str | None = None
    names_host: bool = True


@frozen(kw_only=True)
class Settings:
    """Validated options."""

    listen: tuple[Address, ...] = ()
    connect: tuple[Address, ...] = ()
    socket_mode: int = 0o660
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    token_file: str | None = None
    tls: Tls = field(factory=Tls)
    insecure: bool = False
    max_message_size: int = 16 << 20
    max_connections: int = 4000
    threads: int = 8
    max_queued_requests: int = 1000
    handshake: float = 10.0
    transfer: float = 30.0
    idle: float = 15.0
    pause: float = 0.2
    pause_max: float = 2.0


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Parse *options*.

    :raises ConfigError: they contradict each other; the text says what to change.
    """
    settings = Settings(
        listen=_addresses(options["listen"]),
        connect=_addresses(options["connect"]),
        socket_mode=_mode(options["socket_mode"]),
        users=tuple(options["allowed_users"]),
        groups=tuple(options["allowed_groups"]),
        token_file=options["token_file"],
        tls=Tls(
            certificate=options["tls_certificate"],
            key=options["tls_key"],
            authorities=options["tls_ca"],
            names_host=options["certificate_is_host"],
        ),
        insecure=options["allow_plaintext_tcp"],
        max_message_size=options["max_message_size"],
        max_connections=options["max_connections"],
        threads=options["threads"],
        max_queued_requests=options["max_queued_requests"],
        handshake=_seconds(options, "handshake_timeout"),
        transfer=_seconds(options, "transfer_timeout"),
        idle=_seconds(options, "idle_timeout"),
        pause=_seconds(options, "reconnect_interval"),
        pause_max=_seconds(options, "reconnect_interval_max"),
    )
    for address in settings.listen:
        check_listening(address, settings)
    for address in settings.connect:
        _check_connecting(address, settings)
    return settings


def check_listening(address: Address, settings: Settings) -> None:
    """Validate a listen address: clients on TCP must be authenticated.

    :raises ConfigError: says what is missing.
    """
    if not isinstance(address, TcpAddress):
        return
    _check_clear(address, settings)
    tls = settings.tls
    if address.tls and not (tls.certificate and tls.key):
        raise ConfigError(f"{address} needs tls_certificate and tls_key")
    if not settings.token_file and not (address.tls and tls.authorities):
        raise ConfigError(
            f"{address} would admit every client: set token_file"
            + (", or tls_ca to ask for certificates" if address.tls else "")
        )


def _check_connecting(address: Address, settings: Settings) -> None:
    if isinstance(address, OpenSocket):
        raise ConfigError(f"connect: {address} is only for listening: write {FORMS}")
    if isinstance(address, TcpAddress):
        _check_clear(address, settings)
        if not address.tls and not settings.token_file:
            raise ConfigError(
                f"{address} needs token_file: otherwise any program could act as the server"
            )


def _check_clear(address: TcpAddress, settings: Settings) -> None:
    if not (address.tls or address.is_loopback or settings.insecure):
        raise ConfigError(
            f"{address} is not loopback, and hosts on the path could read and change messages: "
            f"write tls:{address.host}:{address.port}, or set allow_plaintext_tcp"
        )


def _addresses(texts: list[str]) -> tuple[Address, ...]:
    return tuple(parse_address(in_state_path(text)) for text in texts if text)


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError as exc:
        raise ConfigError(f"socket_mode: {text!r} is not octal, such as 0660") from exc
    if not 0 <= mode <= 0o777:
        raise ConfigError(f"socket_mode: {text} is not between 0 and 0777")
    return mode


def _seconds(options: Mapping[str, Any], name: str) -> float:
    seconds = float(options[name])
    if not 0.01 <= seconds <= 3600:
        raise ConfigError(f"{name}: {seconds} is not between 0.01 and 3600 seconds")
    return seconds
