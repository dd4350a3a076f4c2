"""What the fake switches do with the frames of distributed routers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping

from netfw.drivers.values.keys import NetworkKey
from netfw.drivers.values.switch_values import HostMac, RouterInterface
from netfw.model.values.address import IpAddress, Mac
from netfw.testing.conformance.switch.environment import (
    NeighbourRequest,
    RoutedPacket,
    SwitchTestPort,
)
from tests.conformance.switch.fake_switch import FakeSwitchBackend


class FakeRouting(ABC):
    """Frames between ports of the fake environment, with what distributed routers change.

    The faults of a backend are what a mutation switches on.
    """

    backends: tuple[FakeSwitchBackend, ...]

    @abstractmethod
    def hears(self, sender: SwitchTestPort, listener: SwitchTestPort) -> bool: ...

    def interfaces(self, port: SwitchTestPort) -> Collection[RouterInterface]:
        """Return the router interfaces on the network of a port, as its host knows them."""
        network = self.backends[port.host].values.get(NetworkKey(port.net.id))
        return () if network is None else network.router_interfaces

    def is_router(self, port: SwitchTestPort) -> bool:
        return any(each.port == port.id for each in self.interfaces(port))

    def gateway_macs(self, port: SwitchTestPort) -> frozenset[Mac]:
        return frozenset(each.mac for each in self.interfaces(port))

    def host_macs(self, host: int) -> Iterator[HostMac]:
        values = self.backends[host].values.values()
        return (value for value in values if isinstance(value, HostMac))

    def wire_mac(self, sender: SwitchTestPort, source: Mac) -> Mac:
        """Return the source of a frame of *sender* between hosts."""
        own = [each.mac for each in self.host_macs(sender.host) if each.own]
        exposed = "exposed" in self.backends[sender.host].faults
        return own[0] if self.is_router(sender) and own and not exposed else source

    def is_confined(self, sender: SwitchTestPort, receiver: SwitchTestPort) -> bool:
        """Return whether announcements of *sender* do not reach *receiver* on another host."""
        faults = self.backends[sender.host].faults
        router = self.is_router(sender) and "announcing" not in faults
        return router and sender.host != receiver.host

    def is_forged(self, sender: SwitchTestPort, receiver: SwitchTestPort, source: Mac) -> bool:
        faults = self.backends[sender.host].faults
        if self.is_router(sender) or "forged" in faults:
            return False
        away = sender.host != receiver.host
        if source in self.gateway_macs(sender) and away and "forged gateway" not in faults:
            return True
        return source in {each.mac for each in self.host_macs(sender.host)}

    def stays(self, sender: SwitchTestPort, receiver: SwitchTestPort, to: Mac) -> bool:
        """Return whether a frame for a router interface does not pass between hosts."""
        if sender.host == receiver.host:
            return False
        leaves = "leaving" in self.backends[sender.host].faults
        enters = "entering" in self.backends[receiver.host].faults
        here = to in self.gateway_macs(sender) and not leaves
        return here or (to in self.gateway_macs(receiver) and not enters)

    def seen_source(
        self, sender: SwitchTestPort, receiver: SwitchTestPort, source: Mac
    ) -> Mac | None:
        """Return from which MAC *receiver* gets a frame of *sender*; ``None``: it gets none."""
        if not self.hears(sender, receiver) or self.is_forged(sender, receiver, source):
            return None
        if sender.host == receiver.host:
            return source
        seen = self.wire_mac(sender, source)
        others = {each.mac for each in self.host_macs(receiver.host) if not each.own}
        restores = "unrestored" not in self.backends[receiver.host].faults
        gateways = self.gateway_macs(receiver)
        return next(iter(gateways)) if seen in others and gateways and restores else seen

    def sources(
        self,
        packet: RoutedPacket,
        receivers: Iterable[SwitchTestPort],
        *,
        expected: Collection[SwitchTestPort],
    ) -> Mapping[SwitchTestPort, frozenset[Mac]]:
        found = {}
        for port in receivers:
            if port.mac != packet.to or self.stays(packet.sender, port, packet.to):
                continue
            seen = self.seen_source(packet.sender, port, packet.source)
            if seen is not None:
                found[port] = frozenset({seen})
        return found

    def requests(
        self, port: SwitchTestPort, address: IpAddress, receiver: SwitchTestPort, *, expected: bool
    ) -> NeighbourRequest | None:
        faults = self.backends[port.host].faults
        away = port.host != receiver.host
        own = {face.ip for each in self.interfaces(port) for face in each.addresses}
        if not self.hears(port, receiver) or (away and address in own and "asking" not in faults):
            return None
        source = self.wire_mac(port, port.mac) if away else port.mac
        return NeighbourRequest(source, source == port.mac or "teaching" in faults)

    def resolve_by_owner(
        self, port: SwitchTestPort, owner: SwitchTestPort, version: int
    ) -> Mac | None:
        away = port.host != owner.host
        lost = away and self.is_router(port) and "unanswered" in self.backends[port.host].faults
        return owner.mac if self.hears(port, owner) and not lost else None
