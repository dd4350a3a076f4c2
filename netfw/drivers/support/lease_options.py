"""Options of DHCP drivers for leases and domains, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from oslo_config import cfg

from netfw.drivers.support.dhcp_option_text import check_domain
from netfw.errors import ConfigError

INFINITE: Final = -1
SHORTEST_LEASE: Final = 120
"""Seconds; dnsmasq raises shorter leases to it."""
_LONGEST_TIME: Final = (1 << 31) - 1
"""Seconds; a longer time has no room in an answer, or dnsmasq misreads it."""

LEASE_OPTIONS: Final[tuple[cfg.Opt, ...]] = (
    cfg.IntOpt(
        "dhcp_lease_duration",
        default=86400,
        min=INFINITE,
        help=f"Seconds that a lease lasts, {SHORTEST_LEASE} at least.  -1: for ever.",
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
)


def check_lease_times(options: Mapping[str, Any]) -> None:
    """Check that renewal comes before rebinding, and rebinding before the end of the lease.

    Times that are not set count with their defaults.

    :raises ConfigError: they do not, or the lease is too short, or a time is too long.
    """
    lease = options["dhcp_lease_duration"]
    if lease != INFINITE and lease < SHORTEST_LEASE:
        raise ConfigError(
            f"dhcp_lease_duration: less than {SHORTEST_LEASE} seconds; -1 is for ever"
        )
    finite = lease != INFINITE
    times = {
        "dhcp_renewal_time": options["dhcp_renewal_time"] or (finite and lease // 2),
        "dhcp_rebinding_time": options["dhcp_rebinding_time"] or (finite and lease * 7 // 8),
        "dhcp_lease_duration": finite and lease,
    }
    for name, seconds in reversed(times.items()):  # others may follow from the duration
        if seconds > _LONGEST_TIME:
            text = f"{name}: more than {_LONGEST_TIME} seconds; a lease of -1 is for ever"
            raise ConfigError(text)
    given = [(name, seconds) for name, seconds in times.items() if seconds]
    for (first, before), (second, after) in pairwise(given):
        if before >= after:
            raise ConfigError(f"{first}: {before} seconds are not less than {second}, {after}")


def parse_domain(options: Mapping[str, Any]) -> str:
    """Return the domain of instances, without a trailing dot; empty: none.

    :raises ConfigError: it is not a domain.
    """
    text: str = options["dhcp_domain"]
    try:
        if text:
            check_domain(text)
    except ValueError as exc:
        raise ConfigError(f"dhcp_domain: {exc}") from exc
    return text.removesuffix(".")
