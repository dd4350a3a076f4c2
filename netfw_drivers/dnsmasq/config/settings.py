"""Options of the driver, and settings parsed from them.  Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from oslo_config import cfg

from netfw.conf.paths import STATE_PATH, absolute_path
from netfw.drivers.support.lease_options import LEASE_OPTIONS, check_lease_times, parse_domain
from netfw.errors import ConfigError
from netfw.model.values.address import IpAddress, as_address
from netfw.model.values.text_validation import check_text

COMMAND = "dnsmasq_command"
"""Option with the path of the program."""
LEASE_LIMIT = 1 << 24

OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.StrOpt(
        "dhcp_confs",
        default="$state_path/dhcp",
        help="Directory with one directory per network that is served.",
    ),
    *LEASE_OPTIONS,
    cfg.ListOpt(
        "dnsmasq_dns_servers",
        default=[],
        help="Name servers that dnsmasq asks for names it does not know, by address, with "
        "#PORT behind it where it is not 53.",
    ),
    cfg.BoolOpt(
        "dnsmasq_local_resolv",
        default=False,
        help="Also ask the name servers in this host's resolv.conf.  Instances then reach them "
        "through this host.",
    ),
    cfg.StrOpt("dnsmasq_config_file", help="A file with further options of dnsmasq."),
    cfg.IntOpt(
        "dnsmasq_lease_max",
        default=LEASE_LIMIT,
        min=1,
        max=LEASE_LIMIT,
        help="Leases that one network has at most.",
    ),
    cfg.BoolOpt(
        "dhcp_broadcast_reply",
        default=False,
        help="Answer by broadcast, for fabrics that cannot deliver to an address before the "
        "client uses it.",
    ),
    cfg.StrOpt(
        "dnsmasq_base_log_dir",
        help="Directory in which queries and leases are logged, in a directory per network.  "
        "Not set: they are not logged.",
    ),
    cfg.StrOpt(COMMAND, default="dnsmasq", help="The program, by name or path."),
    cfg.StrOpt(
        "dnsmasq_user",
        help="User that dnsmasq runs as.  Not set: the one it was built for.",
    ),
)


@frozen(kw_only=True)
class Settings:
    """Validated options."""

    confs: Path = Path(STATE_PATH, "dhcp")
    lease: int = 86400
    """Seconds, or :data:`~netfw.drivers.support.lease_options.INFINITE`."""
    renewal: int = 0
    rebinding: int = 0
    domain: str = "openstacklocal"
    dns_servers: tuple[str, ...] = ()
    """Addresses, with ``#port`` unless it is 53."""
    local_resolv: bool = False
    config_file: Path | None = None
    lease_max: int = LEASE_LIMIT
    broadcast_reply: bool = False
    log_directory: Path | None = None
    command: str = "dnsmasq"
    user: str | None = None
    bridged: bool = True
    """The instances are behind the server's device; no: each behind a ``tap`` beside it, in a
    fabric that routes (``InterfaceCapability.GATEWAY_ADDRESSES``)."""


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Parse *options*.

    :raises ConfigError: they contradict each other; the text says what to change.
    """
    check_lease_times(options)
    return Settings(
        confs=_path(options, "dhcp_confs") or Path(STATE_PATH, "dhcp"),
        lease=options["dhcp_lease_duration"],
        renewal=options["dhcp_renewal_time"],
        rebinding=options["dhcp_rebinding_time"],
        domain=parse_domain(options),
        dns_servers=tuple(map(_server, options["dnsmasq_dns_servers"])),
        local_resolv=options["dnsmasq_local_resolv"],
        config_file=_path(options, "dnsmasq_config_file"),
        lease_max=options["dnsmasq_lease_max"],
        broadcast_reply=options["dhcp_broadcast_reply"],
        log_directory=_path(options, "dnsmasq_base_log_dir"),
        command=options[COMMAND],
        user=options["dnsmasq_user"],
    )


def _path(options: Mapping[str, Any], name: str) -> Path | None:
    text = options[name]
    if not text:
        return None
    path = absolute_path(name, text)
    try:
        check_text(text)
    except ValueError as exc:
        raise ConfigError(f"{name}: {exc}") from exc
    return path


def _server(text: str) -> str:
    address, hash_, port = text.partition("#")
    try:
        server: IpAddress = as_address(address)
    except ValueError as exc:
        raise ConfigError(f"dnsmasq_dns_servers: {exc}") from exc
    if hash_ and not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"dnsmasq_dns_servers: not a port: {port!r} in {text!r}")
    return f"{server}{hash_}{port}"
