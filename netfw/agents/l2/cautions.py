"""What an operator should know of a host although nothing failed.  Pure."""

from __future__ import annotations

from heapq import nsmallest

from netfw.agents.l2.desired import Desired

_SHOWN = 20


def caution(desired: Desired, *, filters: bool) -> dict[str, str]:
    """By name, in the order of weight; *filters*: there is a firewall driver."""
    found: dict[str, str] = {}
    if desired.distrusted and not filters:
        found["no firewall_driver"] = (
            f"security groups of {_ports(len(desired.distrusted))} are not enforced; "
            "set firewall_driver of [agent]"
        )
    if desired.strays:
        names = (device.name for port in desired.strays if (device := desired.device(port)))
        more = len(desired.strays) - _SHOWN
        found["strays"] = (
            "plugged here, not bound to this host, and so kept dead: "
            f"{', '.join(nsmallest(_SHOWN, names))}{f' and {more} more' if more > 0 else ''}"
        )
    return found


def _ports(number: int) -> str:
    return "1 port" if number == 1 else f"{number} ports"
