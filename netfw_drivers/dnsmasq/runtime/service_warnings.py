"""What instances of a network are not given, though somebody asked for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from netfw.drivers.dhcp import DhcpNetwork
from netfw.drivers.support.classless_routes import ROOM, omitted_routes
from netfw.model.ids import NetworkId
from netfw.model.subnet import Subnet
from netfw_drivers.dnsmasq.config.subnet_modes import unserved_reason

LOG = logging.getLogger(__name__)
_SHOWN = 3


def shortcomings(network: DhcpNetwork) -> Iterator[str]:
    """Why its subnets are not served as they are asked to be; nothing when they are."""
    for subnet in network.subnets:
        for why in (unserved_reason(subnet), _why_fewer_routes(network, subnet)):
            if why is not None:
                yield why


class WarningLog:
    """Logs the shortcomings of networks, each once until it is no more."""

    def __init__(self) -> None:
        self._logged: dict[NetworkId, frozenset[str]] = {}

    def about(self, id: NetworkId, network: DhcpNetwork | None) -> None:
        """A network is served so, or (``None``) no longer."""
        former = self._logged.pop(id, frozenset())
        found = frozenset(shortcomings(network)) if network is not None else frozenset()
        for why in sorted(found - former):
            LOG.warning("network %s: %s", id, why)
        if found:
            self._logged[id] = found


def _why_fewer_routes(network: DhcpNetwork, subnet: Subnet) -> str | None:
    if subnet.ip_version != 4 or not subnet.enable_dhcp:
        return None
    untold = omitted_routes(network, subnet)
    if not untold:
        return None
    named = ", ".join(str(route.destination) for route in untold[:_SHOWN])
    more = ", ..." if len(untold) > _SHOWN else ""
    return (
        f"subnet {subnet.id}: {len(untold)} of its {len(subnet.host_routes)} routes are not told "
        f"({named}{more}), since an answer has room for {ROOM} octets of them; join some, or let "
        "the gateway know them"
    )
