"""What an operator should know of a host although nothing failed.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability
from netfw.model.address import IpAddress

_SHOWN = 20


def collect_warnings(
    desired: DesiredSwitch, firewall: DriverInfo[Capability] | None
) -> dict[str, str]:
    """By name, in the order of weight."""
    found: dict[str, str] = {}
    if desired.distrusted and (
        firewall is None or FirewallCapability.FILTERING not in firewall.capabilities
    ):
        name = "no firewall_driver" if firewall is None else f"firewall_driver {firewall.name}"
        found[name] = (
            f"security groups of {_ports(len(desired.distrusted))} are not enforced; "
            f"set {'' if firewall is None else 'another '}firewall_driver of [agent]"
        )
    own = {endpoint.address for endpoint in desired.view.facts.endpoints}
    if own and (told := desired.told_addresses - own):
        found["local_ip"] = (
            f"tunnels of this host begin at {_texts(own)}, but the source tells other hosts to "
            f"reach it at {_texts(told)}: change local_ip, or what the source says of this host"
        )
    if desired.strays:
        names = (device.name for port in desired.strays if (device := desired.device(port)))
        more = len(desired.strays) - _SHOWN
        found["strays"] = (
            "plugged here, not bound to this host, and so kept dead: "
            f"{', '.join(nsmallest(_SHOWN, names))}{f' and {more} more' if more > 0 else ''}"
        )
    return found


def _texts(addresses: Iterable[IpAddress]) -> str:
    return ", ".join(sorted(map(str, addresses)))


def _ports(number: int) -> str:
    return "1 port" if number == 1 else f"{number} ports"
