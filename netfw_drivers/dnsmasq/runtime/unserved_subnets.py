"""Warnings about parts of a network that its instances are not given."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from netfw.drivers.dhcp import DhcpNetwork
from netfw.drivers.support.classless_routes import MAX_OCTETS, omitted_routes
from netfw.model.subnet import Subnet
from netfw.model.values.ids import NetworkId
from netfw_drivers.dnsmasq.config.subnet_modes import unserved_reason

LOG = logging.getLogger(__name__)
_SHOWN = 3


def service_problems(network: DhcpNetwork) -> Iterator[str]:
    """Yield why subnets are not served as requested."""
    for subnet in network.subnets:
        for why in (unserved_reason(subnet), _why_fewer_routes(network, subnet)):
            if why is not None:
                yield why


class WarningLog:
    """Logs the problems of networks, each once while it lasts."""

    def __init__(self) -> None:
        self._logged: dict[NetworkId, frozenset[str]] = {}

    def update(self, id: NetworkId, network: DhcpNetwork | None) -> None:
        """Log new problems of a network; ``None``: it is no longer served."""
        former = self._logged.pop(id, frozenset())
        found = frozenset(service_problems(network)) if network is not None else frozenset()
        for why in sorted(found - former):
            LOG.warning("network %s: %s", id, why)
        if found:
            self._logged[id] = found


def _why_fewer_routes(network: DhcpNetwork, subnet: Subnet) -> str | None:
    if subnet.ip_version != 4 or not subnet.enable_dhcp:
        return None
    omitted = omitted_routes(network, subnet)
    if not omitted:
        return None
    named = ", ".join(str(route.destination) for route in omitted[:_SHOWN])
    more = ", ..." if len(omitted) > _SHOWN else ""
    return (
        f"subnet {subnet.id}: {len(omitted)} of its {len(subnet.host_routes)} routes are left out "
        f"({named}{more}), since an answer holds {MAX_OCTETS} octets of them; join some, or let "
        "the gateway know them"
    )
