"""Options of the driver, and settings parsed from them.  Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import frozen
from oslo_config import cfg

from netfw.conf.paths import STATE_PATH, absolute_path
from netfw.drivers.support.dhcp_option_text import check_domain
from netfw.errors import ConfigError
from netfw.model.values.address import IpAddress, as_address
from netfw.model.values.text_validation import check_text

COMMAND = "dnsmasq_command"
"""Option with the path of the program."""
INFINITE = -1
LEASE_LIMIT = 1 << 24
_SHORTEST_LEASE = 120
"""Minimum to which dnsmasq raises shorter leases."""

OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.StrOpt(
        "dhcp_confs",
        default="$state_path/dhcp",
        help="Directory with one directory per network that is served.",
    ),
    cfg.IntOpt(
        "dhcp_lease_duration",
        default=86400,
        min=INFINITE,
        help="Seconds that a lease lasts, 120 at least.  -1: for ever.",
    ),
    cfg.IntOpt(
        "dhcp_renewal_time",
        default=0,
        min=0,
        help="Seconds after which clients renew their lease (T1).  0: half of its duration.",
    ),
    cfg.IntOpt(
        "dhcp_rebinding_time",
        default=0,
        min=0,
        help="Seconds after which clients ask any server (T2).  0: 7/8 of the lease's duration.",
    ),
    cfg.StrOpt(
        "dhcp_domain",
        default="openstacklocal",
        help="Domain of instances on networks that have none of their own.  Empty: none.",
    ),
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
    """Seconds, or :data:`INFINITE`."""
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
    lease = options["dhcp_lease_duration"]
    if lease != INFINITE and lease < _SHORTEST_LEASE:
        raise ConfigError(
            f"dhcp_lease_duration: less than {_SHORTEST_LEASE} seconds; -1 is for ever"
        )
    _check_times(options["dhcp_renewal_time"], options["dhcp_rebinding_time"], lease)
    return Settings(
        confs=_path(options, "dhcp_confs") or Path(STATE_PATH, "dhcp"),
        lease=lease,
        renewal=options["dhcp_renewal_time"],
        rebinding=options["dhcp_rebinding_time"],
        domain=_domain(options["dhcp_domain"]),
        dns_servers=tuple(map(_server, options["dnsmasq_dns_servers"])),
        local_resolv=options["dnsmasq_local_resolv"],
        config_file=_path(options, "dnsmasq_config_file"),
        lease_max=options["dnsmasq_lease_max"],
        broadcast_reply=options["dhcp_broadcast_reply"],
        log_directory=_path(options, "dnsmasq_base_log_dir"),
        command=options[COMMAND],
        user=options["dnsmasq_user"],
    )


def _check_times(renewal: int, rebinding: int, lease: int) -> None:
    """Validate that renewal comes before rebinding, and both before the end of the lease."""
    named = {"dhcp_renewal_time": renewal, "dhcp_rebinding_time": rebinding}
    given = [(name, seconds) for name, seconds in named.items() if seconds]
    if lease != INFINITE:
        given.append(("dhcp_lease_duration", lease))
    for (first, before), (second, after) in pairwise(given):
        if before >= after:
            raise ConfigError(f"{first}: {before} seconds are not less than {second}, {after}")


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


def _domain(text: str) -> str:
    try:
        if text:
            check_domain(text)
    except ValueError as exc:
        raise ConfigError(f"dhcp_domain: {exc}") from exc
    return text.removesuffix(".")


def _server(text: str) -> str:
    address, hash_, port = text.partition("#")
    try:
        server: IpAddress = as_address(address)
    except ValueError as exc:
        raise ConfigError(f"dnsmasq_dns_servers: {exc}") from exc
    if hash_ and not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"dnsmasq_dns_servers: not a port: {port!r} in {text!r}")
    return f"{server}{hash_}{port}"
