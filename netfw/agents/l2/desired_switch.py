"""Desired: what the switch of this host should hold.  Pure: values in, values out.

It is kept current change by change, and each change costs what it concerns: a port costs that
port, a network its ports on this host, an agent the networks that its host shares with this one.
Whatever the order of changes, the result is that of learning everything at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import cast

from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.overlay import OverlayPeers, reachable_port
from netfw.agents.l2.port_wiring import WiringDecision, decide_wiring, is_unfiltered
from netfw.agents.l2.resource_index import L2ResourceIndex, ports_of
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.switch_values import (
    Admission,
    LocalNetwork,
    SwitchDevice,
    SwitchEntry,
    SwitchKey,
    SwitchValue,
)
from netfw.model.address import IpAddress
from netfw.model.agent import Agent
from netfw.model.ids import AgentId, NetworkId, PortId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.trunk import Trunk


class DesiredSwitch:
    """The wanted state of one switch.

    A port that the source does not bind to this host, or does not know, is not in it: nobody
    wires it, and the switch keeps it dead.
    """

    def __init__(self, view: L2HostContext) -> None:
        self.view = view
        self._book = L2ResourceIndex(view)
        self._values: dict[SwitchKey, SwitchValue] = {}
        self._verdicts: dict[PortId, WiringDecision] = {}
        self._wired: dict[NetworkId, set[PortId]] = {}
        self._users: dict[Ref, set[PortId]] = {}
        self._uses: dict[PortId, frozenset[Ref]] = {}
        self._changed: set[SwitchKey] = set()
        self._touched: set[PortId] = set()
        self._strays: set[PortId] = set()
        self._distrusted: set[PortId] = set()
        self._peers = OverlayPeers(view, self._put, self._drop)

    @property
    def values(self) -> Mapping[SwitchKey, SwitchValue]:
        """Everything the switch should hold."""
        return self._values

    def verdict(self, port: PortId) -> WiringDecision | None:
        """How a port is to be wired, and why not; ``None``: it is not plugged, or not ours."""
        return self._verdicts.get(port)

    def port(self, port: PortId) -> Port | None:
        """The port, if it is bound to this host."""
        return self._book.home_port(port)

    def ports(self) -> frozenset[PortId]:
        """Every port that is bound to this host, plugged or not."""
        return frozenset(self._book.all_home_ports())

    def device(self, port: PortId) -> SwitchDevice | None:
        """The device of a port, if it is plugged."""
        return self._book.devices.get(port)

    @property
    def devices(self) -> Mapping[PortId, SwitchDevice]:
        """All that is plugged, known or not."""
        return self._book.devices

    @property
    def strays(self) -> Set[PortId]:
        """The ports that are plugged here, and that the source does not bind to this host."""
        return self._strays

    @property
    def distrusted(self) -> Set[PortId]:
        """The ports that are plugged here and are to be filtered."""
        return self._distrusted

    @property
    def told_addresses(self) -> frozenset[IpAddress]:
        """Where other hosts are told to reach this one by tunnels."""
        return self._peers.own_addresses()

    def wired(self, network: NetworkId) -> frozenset[PortId]:
        """The ports of this host for which the network is here."""
        return frozenset(self._wired.get(network, ()))

    def extended(self, id: PortId) -> ExtendedPort | None:
        """What extensions are shown of a port; ``None``: it is dead, gone, or not ours."""
        verdict, port, device = self._verdicts.get(id), self.port(id), self.device(id)
        if verdict is None or port is None or device is None:
            return None
        network = self._book.network(port.network_id)
        if network is None or verdict.wiring.admission is Admission.DEAD:
            return None
        return ExtendedPort(
            port=port, network=network, device=device, related=self._book.related(port)
        )

    def take_changed(self) -> frozenset[SwitchKey]:
        """The keys whose values changed since this was last asked."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def take_touched(self) -> frozenset[PortId]:
        """The ports of which anything changed since this was last asked, their wiring or not."""
        touched, self._touched = frozenset(self._touched), set()
        return touched

    def learn(self, put: Iterable[Resource] = (), drop: Iterable[Ref] = ()) -> None:
        """Take over what the source says."""
        ports: set[PortId] = set()
        networks: set[NetworkId] = set()
        for key, resource in [*((key, None) for key in drop), *((ref(r), r) for r in put)]:
            former = self._book.put(key, resource)
            ports |= self._users.get(key, set())
            for each in (former, resource):
                if each is not None:
                    self._concerned(each, ports, networks)
            self._tell_peers(key, resource)
        for network in networks:
            ports |= self._book.home_ports(network)
        for port in ports:
            self._redo_port(port)
        for network in networks:
            self._redo_network(network)

    def plug(self, id: PortId, device: SwitchDevice | None) -> None:
        """Take over what is plugged for a port; ``None``: nothing."""
        if self._book.devices.get(id) == device:
            return
        if device is None:
            del self._book.devices[id]
        else:
            self._book.devices[id] = device
        self._redo_port(id)

    def _concerned(self, resource: Resource, ports: set[PortId], networks: set[NetworkId]) -> None:
        match resource:
            case Port():
                ports.add(resource.id)
            case Network():
                networks.add(resource.id)
            case Segment() | Subnet():
                networks.add(resource.network_id)
            case Trunk():
                ports.update(ports_of(resource))

    def _tell_peers(self, key: Ref, resource: Resource | None) -> None:
        if key.kind is Kind.AGENT:
            self._peers.agent(AgentId(key.id), cast(Agent | None, resource))
        elif key.kind is Kind.PORT:
            port = cast(Port | None, resource)
            remote = None if port is None else reachable_port(port, self.view)
            self._peers.port(PortId(key.id), remote)

    def _redo_port(self, id: PortId) -> None:
        self._touched.add(id)
        former, verdict = self._verdicts.pop(id, None), self._decide(id)
        if verdict is None:
            self._drop(PortKey(id))
        else:
            self._verdicts[id] = verdict
            self._put((PortKey(id), verdict.wiring))
        device = self.device(id)
        stray = verdict is None and device is not None and not device.ancillary
        (self._strays.add if stray else self._strays.discard)(id)
        port = None if verdict is None else self.port(id)
        distrusted = port is not None and not is_unfiltered(port)
        (self._distrusted.add if distrusted else self._distrusted.discard)(id)
        self._redo_uses(id)
        before, after = _network(former), _network(verdict)
        if before == after:
            return
        if after is not None:
            self._wired.setdefault(after, set()).add(id)
            self._redo_network(after)
        if before is not None:
            self._wired[before].discard(id)
            if not self._wired[before]:
                del self._wired[before]
            self._redo_network(before)

    def _decide(self, id: PortId) -> WiringDecision | None:
        port, device = self.port(id), self.device(id)
        if port is None or device is None or device.ancillary:
            return None
        network = self._book.network(port.network_id)
        segments = self._book.reachable(port.network_id)
        if network is not None and not segments:
            segments = self._book.segments(network)  # to say why
        return decide_wiring(
            port, network, segments, self._book.subnets(port.network_id), self.view
        )

    def _redo_uses(self, id: PortId) -> None:
        port = self.port(id) if id in self._verdicts else None
        refs = frozenset[Ref]() if port is None else self._book.related_refs(port)
        former = self._uses.pop(id, frozenset())
        for key in former - refs:
            self._users[key].discard(id)
            if not self._users[key]:
                del self._users[key]
        for key in refs - former:
            self._users.setdefault(key, set()).add(id)
        if refs:
            self._uses[id] = refs

    def _redo_network(self, id: NetworkId) -> None:
        network = self._book.network(id)
        if network is None or id not in self._wired:
            self._drop(NetworkKey(id))
            self._peers.network(id, None)
            return
        segments = self._book.reachable(id)
        self._put((NetworkKey(id), LocalNetwork(segments=segments, mtu=network.mtu)))
        types = (segment.provider.network_type for segment in segments)
        self._peers.network(id, next((type for type in types if type.is_tunnel), None))

    def _put(self, entry: SwitchEntry) -> None:
        key, value = entry
        if self._values.get(key) != value:
            self._values[key] = value
            self._changed.add(key)

    def _drop(self, key: SwitchKey) -> None:
        if self._values.pop(key, None) is not None:
            self._changed.add(key)


def _network(verdict: WiringDecision | None) -> NetworkId | None:
    """The network that a port needs here: none while it is dead."""
    if verdict is None or verdict.wiring.admission is Admission.DEAD:
        return None
    return verdict.wiring.network
