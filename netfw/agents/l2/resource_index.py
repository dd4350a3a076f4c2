"""Book: the resources that the L2 agent knows, found the ways it looks for them.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.agents.l2.host_context import L2HostContext, segments_of
from netfw.drivers.switch_values import SwitchDevice
from netfw.model.ids import NetworkId, PortId, SegmentId, SubnetId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.trunk import Trunk


class L2ResourceIndex:
    """Resources by reference, and the devices of this host."""

    def __init__(self, view: L2HostContext) -> None:
        self._view = view
        self.resources: dict[Ref, Resource] = {}
        self.devices: dict[PortId, SwitchDevice] = {}
        self._home: dict[NetworkId, set[PortId]] = {}
        self._segments: dict[NetworkId, dict[SegmentId, Segment]] = {}
        self._subnets: dict[NetworkId, dict[SubnetId, Subnet]] = {}
        self._reachable: dict[NetworkId, tuple[Segment, ...]] = {}
        self._trunks: dict[PortId, set[Ref]] = {}

    def put(self, key: Ref, resource: Resource | None) -> Resource | None:
        """Take over what a resource is now; return what it was."""
        former = self.resources.pop(key, None)
        if former is not None:
            self._unfile(former)
        if resource is not None:
            self.resources[key] = resource
            self._file(resource)
        return former

    def port(self, id: PortId) -> Port | None:
        """The port, wherever it is bound."""
        found = self.resources.get(Ref(Kind.PORT, id))
        return found if isinstance(found, Port) else None

    def home_port(self, id: PortId) -> Port | None:
        """The port, if it is bound to this host."""
        port = self.port(id)
        return port if port is not None and port.binding.host == self._view.host else None

    def home_ports(self, network: NetworkId) -> frozenset[PortId]:
        """The ports of a network that are bound to this host."""
        return frozenset(self._home.get(network, ()))

    def all_home_ports(self) -> Iterator[PortId]:
        """Every port that is bound to this host, plugged or not."""
        for ports in self._home.values():
            yield from ports

    def network(self, id: NetworkId) -> Network | None:
        found = self.resources.get(Ref(Kind.NETWORK, id))
        return found if isinstance(found, Network) else None

    def subnets(self, network: NetworkId) -> dict[SubnetId, Subnet]:
        return self._subnets.get(network, {})

    def reachable(self, id: NetworkId) -> tuple[Segment, ...]:
        """The segments of a network that this host can take part in."""
        network = self.network(id)
        if network is None:
            return ()
        if id not in self._reachable:
            every = self.segments(network)
            self._reachable[id] = tuple(each for each in every if self._view.reaches(each))
        return self._reachable[id]

    def segments(self, network: Network) -> tuple[Segment, ...]:
        """All segments of a network."""
        return segments_of(network, self._segments.get(network.id, {}).values())

    def related(self, port: Port) -> tuple[Resource, ...]:
        """What a port or its network refers to, as far as it is known; always in this order."""
        refs = sorted(self.related_refs(port), key=lambda each: (each.kind, each.id))
        return tuple(self.resources[each] for each in refs if each in self.resources)

    def related_refs(self, port: Port) -> frozenset[Ref]:
        network = self.network(port.network_id)
        policies = {port.qos_policy_id, port.qos_network_policy_id}
        if network is not None:
            policies.add(network.qos_policy_id)
        return frozenset(
            {
                *(Ref(Kind.QOS_POLICY, id) for id in policies if id is not None),
                *(Ref(Kind.SECURITY_GROUP, id) for id in port.security_groups),
                *(Ref(Kind.SUBNET, id) for id in self.subnets(port.network_id)),
                *self._trunks.get(port.id, ()),
            }
        )

    def _file(self, resource: Resource) -> None:
        match resource:
            case Port() if resource.binding.host == self._view.host:
                self._home.setdefault(resource.network_id, set()).add(resource.id)
            case Segment():
                self._segments.setdefault(resource.network_id, {})[resource.id] = resource
                self._reachable.pop(resource.network_id, None)
            case Subnet():
                self._subnets.setdefault(resource.network_id, {})[resource.id] = resource
            case Trunk():
                for port in ports_of(resource):
                    self._trunks.setdefault(port, set()).add(ref(resource))
            case Network():
                self._reachable.pop(resource.id, None)

    def _unfile(self, resource: Resource) -> None:
        match resource:
            case Port() if resource.binding.host == self._view.host:
                home = self._home[resource.network_id]
                home.discard(resource.id)
                if not home:
                    del self._home[resource.network_id]
            case Segment():
                del self._segments[resource.network_id][resource.id]
                self._reachable.pop(resource.network_id, None)
            case Subnet():
                del self._subnets[resource.network_id][resource.id]
            case Trunk():
                for port in ports_of(resource):
                    self._trunks[port].discard(ref(resource))
            case Network():
                self._reachable.pop(resource.id, None)


def ports_of(trunk: Trunk) -> tuple[PortId, ...]:
    """The parent and the sub-ports of a trunk."""
    return (trunk.port_id, *(sub.port_id for sub in trunk.sub_ports))
