"""The role of an instance of a highly available router, as its namespace shows it.  Pure.

keepalived gives the active instance a marker address on the HA network, before all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from netfw.linux.ip.values import Address, Link
from netfw.model.router import HA_MARKERS, HaRole
from netfw_drivers.linux_router.plan.names import HA

ROLE_REASONS: Final[Mapping[HaRole, str]] = MappingProxyType(
    {
        HaRole.ACTIVE: "it was elected, and has the addresses",
        HaRole.STANDBY: "another host is active, or none yet",
        HaRole.FAULT: "keepalived does not run, or its device on the HA network has no carrier",
    }
)
"""Why an instance has a role, as far as its namespace shows it."""


def decide_role(
    links: Mapping[str, Link], addresses: Iterable[Address], *, running: bool
) -> HaRole | None:
    """Return the role of the instance with these devices and addresses.

    None: the namespace has no port on an HA network.

    :param running: whether its keepalived runs: without one, an instance is at fault, unless it has
        the marker.  One that was killed leaves its addresses behind, and is active as long as they
        are there.
    """
    link = next((link for name, link in links.items() if name.startswith(HA)), None)
    if link is None:
        return None
    if any(is_marker(each) for each in addresses if each.device == link.name):
        return HaRole.ACTIVE
    return HaRole.STANDBY if running and link.up and link.carrier else HaRole.FAULT


def is_marker(address: Address) -> bool:
    """Return whether an address marks the active instance."""
    interface = address.interface
    single = interface.network.prefixlen == interface.max_prefixlen
    return interface.version == 4 and single and interface.ip in HA_MARKERS
