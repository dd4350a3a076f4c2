"""The resources of the DHCP agent, indexed by network.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from netfw.agents.common.resource_index import ResourceIndex
from netfw.agents.dhcp.port_names import HostnameKey, hostname_keys
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import is_dhcp, is_router_port
from netfw.model.values.ids import NetworkId, PortId


def is_service_port(port: Port) -> bool:
    """Return whether a port is a DHCP server's or a router's: the service depends on it."""
    return is_dhcp(port.device_owner) or is_router_port(port.device_owner)


class DhcpResourceIndex(ResourceIndex):
    """Resources as a DHCP agent looks them up.

    No look-up depends on how many ports a network has.
    """

    def __init__(self) -> None:
        super().__init__()
        self._subnets = self.declare(Subnet, lambda subnet: (subnet.network_id,))
        self._ports = self.declare(Port, lambda port: (port.network_id,))
        self._service_ports = self.declare(
            Port, lambda port: (port.network_id,) if is_service_port(port) else ()
        )

        self._names = self.declare(Port, hostname_keys)

    def subnets(self, network: NetworkId) -> tuple[Subnet, ...]:
        """Return the subnets of a network, in order of id."""
        keys = sorted(self._subnets.refs(network), key=lambda key: key.id)
        return tuple(cast(Subnet, self[key]) for key in keys)

    def ports(self, network: NetworkId) -> Iterator[PortId]:
        """Yield the ids of all ports of a network."""
        return (PortId(key.id) for key in self._ports.refs(network))

    def named(self, name: HostnameKey) -> Iterator[Port]:
        """Yield the ports with that host name on that network."""
        return (cast(Port, self[key]) for key in self._names.refs(name))

    def service_ports(self, network: NetworkId) -> Collection[Port]:
        """Return the ports of DHCP servers and routers on a network, in order of id."""
        keys = sorted(self._service_ports.refs(network), key=lambda key: key.id)
        return tuple(cast(Port, self[key]) for key in keys)
