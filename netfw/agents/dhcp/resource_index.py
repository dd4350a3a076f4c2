"""Book: the networks that this host is assigned, with what is on them.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import TypeVar, cast

from netfw.model.device_owner import is_dhcp, is_router_port
from netfw.model.ids import NetworkId, PortId, SubnetId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.subnet import Subnet

I = TypeVar("I")  # noqa: E741 - an id
R = TypeVar("R")


def is_special(port: Port) -> bool:
    """Whether the service of its network depends on a port: DHCP servers and routers."""
    return is_dhcp(port.device_owner) or is_router_port(port.device_owner)


class DhcpResourceIndex:
    """Networks by id, and the way to them from the ids of their subnets and ports.

    No look-up depends on how many ports a network has.
    """

    def __init__(self) -> None:
        self._resources: dict[Ref, Resource] = {}
        self._subnets: dict[NetworkId, dict[SubnetId, Subnet]] = {}
        self._ports: dict[NetworkId, set[PortId]] = {}
        self._special: dict[NetworkId, dict[PortId, Port]] = {}

    def put(self, key: Ref, resource: Resource | None) -> Resource | None:
        """Take over what a resource is now; return what it was."""
        former = self._resources.pop(key, None)
        if former is not None:
            self._unfile(former)
        if resource is not None:
            self._resources[key] = resource
            self._file(resource)
        return former

    def network(self, id: NetworkId) -> Network | None:
        return cast(Network | None, self._resources.get(Ref(Kind.NETWORK, id)))

    def port(self, id: PortId) -> Port | None:
        return cast(Port | None, self._resources.get(Ref(Kind.PORT, id)))

    def network_of(self, key: Ref) -> NetworkId | None:
        """The network that a network, subnet or port is, or is on."""
        match self._resources.get(key):
            case Network(id=id):
                return id
            case Subnet(network_id=id) | Port(network_id=id):
                return id
            case _:
                return None

    def subnets(self, network: NetworkId) -> tuple[Subnet, ...]:
        """Those of a network, always in the same order."""
        found = self._subnets.get(network, {})
        return tuple(found[id] for id in sorted(found))

    def ports(self, network: NetworkId) -> Set[PortId]:
        """All that are on a network."""
        return self._ports.get(network, set())

    def special_ports(self, network: NetworkId) -> Collection[Port]:
        """Those of DHCP servers and routers, always in the same order."""
        found = self._special.get(network, {})
        return tuple(found[id] for id in sorted(found))

    def _file(self, resource: Resource) -> None:
        match resource:
            case Subnet():
                self._subnets.setdefault(resource.network_id, {})[resource.id] = resource
            case Port():
                self._ports.setdefault(resource.network_id, set()).add(resource.id)
                if is_special(resource):
                    self._special.setdefault(resource.network_id, {})[resource.id] = resource

    def _unfile(self, resource: Resource) -> None:
        match resource:
            case Subnet():
                _take_out(self._subnets, resource.network_id, resource.id)
            case Port():
                _take_out(self._special, resource.network_id, resource.id)
                ports = self._ports[resource.network_id]
                ports.discard(resource.id)
                if not ports:
                    del self._ports[resource.network_id]


def _take_out(shelf: dict[NetworkId, dict[I, R]], network: NetworkId, id: I) -> None:
    found = shelf.get(network, {})
    found.pop(id, None)
    if not found:
        shelf.pop(network, None)
