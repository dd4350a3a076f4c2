"""Distributed routers on this host.  Pure.

A distributed router is on every host with a port on one of its subnets, bound or prepared there.
Such a host needs all networks of the router, and receives what they flood: so the announcement of
an address that moves reaches every interface of the router.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from netfw.agents.l2.tunnel_peers import discard_from
from netfw.drivers.values.switch_values import RouterInterface
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.model.values.address import as_interface
from netfw.model.values.device_owner import is_distributed, is_l3_agent_port
from netfw.model.values.ids import NetworkId, PortId, SubnetId


def is_interface(port: Port) -> bool:
    """Return whether *port* is an interface of a distributed router."""
    return is_distributed(port.device_owner) and bool(port.device_id)


def make_router_interfaces(
    ports: Iterable[Port], subnets: Mapping[SubnetId, Subnet]
) -> frozenset[RouterInterface]:
    """Return the interfaces among *ports*, without those whose *subnets* are not known."""
    made = set()
    for port in ports:
        addresses = frozenset(
            as_interface(f"{fixed.address}/{subnets[fixed.subnet_id].cidr.prefixlen}")
            for fixed in port.fixed_ips
            if fixed.subnet_id in subnets
        )
        if addresses:
            made.add(RouterInterface(port.id, port.mac, addresses))
    return frozenset(made)


class DistributedRouters:
    """The interfaces of distributed routers that this host reads, and which routers are here.

    A port costs its subnets.  An interface, and the first and the last port on a subnet of a
    router, cost the networks of the router.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._interfaces: dict[PortId, Port] = {}
        self._by_network: dict[NetworkId, set[PortId]] = {}
        self._by_router: dict[str, set[PortId]] = {}
        self._by_subnet: dict[SubnetId, set[PortId]] = {}
        self._users: dict[SubnetId, set[PortId]] = {}
        """Ports on this host that routers serve, by subnet."""
        self._uses: dict[PortId, frozenset[SubnetId]] = {}
        self._here: set[str] = set()

    def update(self, id: PortId, port: Port | None) -> frozenset[NetworkId]:
        """Update a port, ``None``: it is gone; return the networks that may differ from before."""
        return self._update_interface(id, port) | self._update_user(id, port)

    def networks(self) -> frozenset[NetworkId]:
        """Return all networks with interfaces of distributed routers."""
        return frozenset(self._by_network)

    def interfaces(self, network: NetworkId) -> tuple[Port, ...]:
        """Return the interfaces on a network, of routers that are here and of others."""
        return tuple(self._interfaces[id] for id in self._by_network.get(network, ()))

    def needs(self, network: NetworkId) -> bool:
        """Return whether a router that is here has an interface on *network*."""
        return any(port.device_id in self._here for port in self.interfaces(network))

    def joined(self, network: NetworkId) -> Iterator[NetworkId]:
        """Yield *network*, then the networks that routers connect it to; some come twice."""
        yield network
        for id in self._by_network.get(network, ()):
            yield from self._networks(self._interfaces[id].device_id)

    def _networks(self, router: str) -> Iterator[NetworkId]:
        return (self._interfaces[id].network_id for id in self._by_router.get(router, ()))

    def _update_interface(self, id: PortId, port: Port | None) -> frozenset[NetworkId]:
        interface = port if port is not None and is_interface(port) else None
        former = self._interfaces.get(id)
        if former is None and interface is None:
            return frozenset()
        known = [each for each in (former, interface) if each is not None]
        if len({(each.network_id, each.device_id, _subnets(each)) for each in known}) < len(known):
            self._interfaces[id] = known[-1]
            return frozenset({known[-1].network_id})
        changed = {each.network_id for each in known}
        routers = {each.device_id for each in known}
        changed.update(network for router in routers for network in self._networks(router))
        if former is not None:
            self._unlink(former)
        if interface is not None:
            self._link(interface)
        for router in routers:
            self._place(router)
        return frozenset(changed)

    def _link(self, port: Port) -> None:
        self._interfaces[port.id] = port
        self._by_network.setdefault(port.network_id, set()).add(port.id)
        self._by_router.setdefault(port.device_id, set()).add(port.id)
        for subnet in _subnets(port):
            self._by_subnet.setdefault(subnet, set()).add(port.id)

    def _unlink(self, port: Port) -> None:
        del self._interfaces[port.id]
        discard_from(self._by_network, port.network_id, port.id)
        discard_from(self._by_router, port.device_id, port.id)
        for subnet in _subnets(port):
            discard_from(self._by_subnet, subnet, port.id)

    def _update_user(self, id: PortId, port: Port | None) -> frozenset[NetworkId]:
        uses = frozenset[SubnetId]()
        if port is not None and self._is_user(port):
            uses = _subnets(port)
        former = self._uses.pop(id, frozenset())
        if uses:
            self._uses[id] = uses
        used = {subnet for subnet in former ^ uses if subnet in self._users}
        for subnet in former - uses:
            discard_from(self._users, subnet, id)
        for subnet in uses - former:
            self._users.setdefault(subnet, set()).add(id)
        changed: set[NetworkId] = set()
        for subnet in former ^ uses:
            if (subnet in used) is not (subnet in self._users):
                changed.update(self._update_subnet(subnet))
        return frozenset(changed)

    def _is_user(self, port: Port) -> bool:
        """Return whether *port* brings routers to this host; ports of routers do not."""
        binding = port.binding
        is_here = binding.is_on(self._host) or self._host in binding.prepared_hosts
        return is_here and not is_l3_agent_port(port.device_owner)

    def _update_subnet(self, subnet: SubnetId) -> Iterator[NetworkId]:
        """Update the routers of a subnet; yield the networks of those that came or went."""
        routers = {self._interfaces[id].device_id for id in self._by_subnet.get(subnet, ())}
        for router in routers:
            if self._place(router):
                yield from self._networks(router)

    def _place(self, router: str) -> bool:
        """Decide whether a router is here; return whether that is new."""
        interfaces = (self._interfaces[id] for id in self._by_router.get(router, ()))
        is_here = any(subnet in self._users for port in interfaces for subnet in _subnets(port))
        if is_here is (router in self._here):
            return False
        (self._here.add if is_here else self._here.discard)(router)
        return True


def _subnets(port: Port) -> frozenset[SubnetId]:
    return frozenset(fixed.subnet_id for fixed in port.fixed_ips)
