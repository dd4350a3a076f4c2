"""A fake switch environment: it computes traffic after every write, whatever the timing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address

from attrs import evolve

from netfw import flows as of
from netfw.drivers.values.events import FeedLost, KeysChanged
from netfw.drivers.values.keys import ExtensionKey, NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import GrantRequest, RegisterRequest
from netfw.drivers.values.switch_values import (
    Endpoint,
    FloodKey,
    ForwardingKey,
    SwitchDevice,
    SwitchFacts,
    SwitchKey,
    SwitchValue,
)
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import NetworkId, PortId
from netfw.testing.conformance.switch.environment import (
    Pair,
    Stamp,
    StateDump,
    SwitchEnvironment,
    SwitchNetwork,
    SwitchTestPort,
    TrafficProbe,
    among,
)
from netfw.testing.conformance.switch.suite import SwitchDriverConformance
from tests.conformance.switch.fake_routing import FakeRouting
from tests.conformance.switch.fake_switch import FINAL, TUNNELS, FakeSwitchBackend, FakeSwitchDriver


class FakeTrafficProbe(TrafficProbe):
    """Records which ports receive from which after every write to a switch."""

    def __init__(
        self, environment: "FakeSwitchEnvironment", ports: tuple[SwitchTestPort, ...]
    ) -> None:
        self.environment, self.ports = environment, ports
        self.rounds: list[frozenset[Pair]] = []
        self.leaked: set[Pair] = set()
        self.look()

    def look(self) -> None:
        self.rounds.append(self.now())

    def now(self) -> frozenset[Pair]:
        return frozenset(pair for pair in among(*self.ports) if self.environment.hears(*pair))

    def exchange(self, expected: Iterable[Pair] = (), within: float = 0) -> frozenset[Pair]:
        self.look()
        return self.rounds[-1]

    def lost(self, *pairs: Pair) -> int:
        return sum(pair not in received for received in self.rounds for pair in pairs)

    @property
    def ever_received(self) -> frozenset[Pair]:
        return frozenset().union(*self.rounds) | self.leaked

    def forge(self, sender, *, vlans=(), source=None) -> None:
        faults = self.environment.backends[sender.host].faults
        others = [other for other in self.ports if other is not sender]
        if vlans and "tags" in faults:
            self.leaked |= {(sender, other) for other in others if self.environment.location(other)}
        if vlans and sender.parent is not None and "nested" in faults:
            self.leaked |= {(sender, other) for other in others}
        if source is not None and "learning" in faults:
            self.leaked |= {(other, sender) for other in others}


class FakeSwitchEnvironment(FakeRouting, SwitchEnvironment):
    """Two hosts, and the traffic between their ports."""

    def __init__(self, driver: type[FakeSwitchDriver] = FakeSwitchDriver) -> None:
        self.driver = driver
        self.backends = FakeSwitchBackend(0), FakeSwitchBackend(1)
        self.make_ports: dict[tuple[int, PortId], SwitchTestPort] = {}
        self.made = 0
        self.learned: dict[NetworkId, int] = {}
        """The host that the physical network has learned for the MAC that was announced last."""

    def make_driver(self, host: int = 0) -> FakeSwitchDriver:
        facts = SwitchFacts(
            physical_networks=frozenset(self.physical),
            endpoints=frozenset(self.endpoint(kind, host) for kind in TUNNELS),
        )
        return self.driver(self.backends[host], facts)

    def misconfigured(self) -> FakeSwitchDriver:
        return self.driver(self.backends[0], None)

    def plug(self, *ports: SwitchTestPort) -> None:
        for port in ports:
            self.plug_unfinished(port)()

    plug_mute = plug

    def plug_unfinished(self, port: SwitchTestPort) -> Callable[[], None]:
        backend = self.backends[port.host]
        self.made += 1
        device = SwitchDevice(name=f"tap{self.made}", mac=port.mac)
        backend.plugged[port.id] = device
        self.make_ports[port.host, port.id] = port

        def finish() -> None:
            backend.plugged[port.id] = evolve(device, ofport=self.made)
            backend.touch("something")
            backend.publish(KeysChanged("plugged", {port.key}))

        return finish

    def unplug(self, *ports: SwitchTestPort) -> None:
        for port in ports:
            backend = self.backends[port.host]
            if backend.plugged.pop(port.id, None):
                backend.values.pop(port.key, None)
                backend.live.pop(port.id, None)
                for what in (port.key, (port.key, "live"), ("broken", port.id)):
                    backend.versions.pop(what, None)
                backend.publish(KeysChanged("unplugged", {port.key}))

    def clear(self) -> None:
        self.unplug(*self.make_ports.values())
        self.make_ports.clear()

    def scrub(self, host: int) -> None:
        self.backends = tuple(FakeSwitchBackend(number) for number in range(2))

    def settle(self) -> None:
        pass

    @contextmanager
    def probe_traffic(self, *ports: SwitchTestPort) -> Iterator[TrafficProbe]:
        probe = FakeTrafficProbe(self, ports)
        for backend in self.backends:
            backend.on_change.append(probe.look)
        yield probe
        for backend in self.backends:
            backend.on_change.remove(probe.look)

    def location(self, port: SwitchTestPort) -> Provider | None:
        backend = self.backends[port.host]
        if port.id not in backend.plugged:
            return None
        if port.parent is not None and not self.carries(port):
            return None
        return backend.live.get(port.id)

    def carries(self, port: SwitchTestPort) -> bool:
        """Return whether the device of its parent carries a sub-port, under its tag."""
        backend = self.backends[port.host]
        subport = getattr(backend.values.get(port.key), "subport", None)
        return port.parent.id in backend.plugged and subport == port.wiring().subport

    def hears(self, sender: SwitchTestPort, listener: SwitchTestPort) -> bool:
        near, away = self.location(sender), self.location(listener)
        backend = self.backends[listener.host]
        if away is None and "trunks" in backend.faults and near is not None:
            return listener.id in backend.plugged and listener.key not in backend.values
        if near is None or near != away or self.is_muted(sender):
            return False
        here, there = self.backends[sender.host].values, backend.values
        value, other = here[sender.key], there[listener.key]
        if sender.host == listener.host:
            local = near.network_type is NetworkType.LOCAL
            return value.network == other.network if local else True
        if not self.leaves_host(sender, listener.mac):
            return False
        if near.network_type.is_tunnel:
            return self.passes_tunnel(sender, listener, near.network_type)
        return near.network_type is not NetworkType.LOCAL

    def passes_tunnel(
        self, sender: SwitchTestPort, listener: SwitchTestPort, kind: NetworkType
    ) -> bool:
        """Return whether a tunnel carries frames of *sender* to the host of *listener*."""
        here, there = (self.backends[port.host].values for port in (sender, listener))
        value, peer = here[sender.key], self.endpoint(kind, listener.host)
        if self.endpoint(kind, sender.host) not in there or peer not in here:
            return False
        entry = here.get(ForwardingKey(value.network, listener.mac))
        if entry is not None and peer not in entry.endpoints:
            return False
        flooded = FloodKey(value.network, peer) in here
        return here[peer].mesh or (flooded and entry is not None)

    def leaves_host(self, sender: SwitchTestPort, mac: Mac) -> bool:
        """Return whether frames of *sender* for *mac* are not for a port of its host alone."""
        backend = self.backends[sender.host]
        here = [
            value
            for port in self.make_ports.values()
            if port.host == sender.host and port.mac == mac and self.location(port) is not None
            if (value := backend.values[port.key]).network == backend.values[sender.key].network
        ]
        return all(value.shared_mac for value in here)

    def copies(self, sender, mac, receivers, *, expected) -> Mapping[SwitchTestPort, int]:
        here, found = self.backends[sender.host], {}
        for port in receivers:
            if port.mac != mac or not self.hears(sender, port):
                continue
            away, kind = port.host != sender.host, self.location(port).network_type
            if away and not kind.is_tunnel and self.learned.get(port.net.id) == sender.host:
                continue
            if not away and "bypass" in here.faults and here.values[port.key].shared_mac:
                continue
            found[port] = 2 if away and "loop" in self.backends[port.host].faults else 1
        return found

    def is_muted(self, sender: SwitchTestPort) -> bool:
        """Return whether the tables of extensions drop what *sender* sends."""
        backend = self.backends[sender.host]
        flows = [
            flow
            for key in (sender.key, *(k for k in backend.values if isinstance(k, ExtensionKey)))
            if (value := backend.values.get(key)) is not None
            for contribution in getattr(value, "contributions", (value,))
            for flow in getattr(contribution, "flows", ())
        ]
        flows += [
            flow
            for port, value in backend.values.items()
            if getattr(value, "network", None) == sender.net.id
            for contribution in getattr(value, "contributions", ())
            for flow in contribution.network_flows
        ]
        tables = {flow.table: flow for flow in flows}
        current = next(iter(tables), FINAL)
        while current != FINAL:
            flow = tables.get(current)
            jumps = [a.table for a in flow.actions if isinstance(a, of.Resubmit)] if flow else []
            if not jumps:
                return True
            current = jumps[0]
        return False

    def resolve(self, port: SwitchTestPort, address: IpAddress, *, expected: bool) -> Mac | None:
        values = self.backends[port.host].values
        mine = values[port.key]
        for key, value in values.items():
            known = isinstance(key, ForwardingKey) and key.network == mine.network
            if known and address in value.addresses:
                return key.mac
        return None

    def announces(
        self,
        port: SwitchTestPort,
        mac: Mac,
        address: IpAddress,
        receiver: SwitchTestPort,
        *,
        expected: bool,
    ) -> bool:
        if self.location(port) is None or self.location(receiver) is None:
            return False
        if self.is_confined(port, receiver):
            return False
        value = self.backends[port.host].values[port.key]
        self.learned[value.network] = port.host
        if value.guard is None:
            return True
        guard = value.guard
        return any(source.mac == mac and address in source.prefix for source in guard)

    def reports_groups(
        self, port: SwitchTestPort, receiver: SwitchTestPort, *, expected: bool
    ) -> bool:
        backend = self.backends[port.host]
        shared = backend.values[port.key].shared_mac and "reports" not in backend.faults
        return not shared and self.hears(port, receiver)

    def dump_state(self, host: int = 0) -> StateDump:
        backend = self.backends[host]
        versions = backend.versions
        found = {f"{key} {value}": key for key, value in backend.values.items()}
        found |= {
            f"{port} on {where}": (PortKey(port), "live") for port, where in backend.live.items()
        }
        found |= {f"{key} is {number}": key for key, number in backend.vlans.items()}
        found |= {f"{what} spoilt": what for what in versions if "broken" in str(what)}
        return {text: Stamp(str(versions.get(key))) for text, key in found.items()}

    def local_number(self, net: SwitchNetwork, host: int = 0) -> int | None:
        return self.backends[host].vlans.get(net.key)

    def drifts(self) -> Mapping[str, Callable[[SwitchTestPort], None]]:
        def cut_off(port: SwitchTestPort) -> None:
            backend = self.backends[port.host]
            del backend.live[port.id]
            backend.publish(KeysChanged("cut off", {port.key}))

        def spoil(port: SwitchTestPort) -> None:
            backend = self.backends[port.host]
            backend.touch(("broken", port.id))
            backend.publish(KeysChanged("spoilt", {port.key}))

        return {"cut off": cut_off, "spoilt": spoil}

    def lose_state(self, host: int = 0) -> None:
        backend = self.backends[host]
        for key in [key for key in backend.values if not isinstance(key, NetworkKey)]:
            del backend.values[key]
        backend.live.clear()
        backend.publish(FeedLost("the switch was restarted"))

    @contextmanager
    def outage(self, host: int = 0) -> Iterator[None]:
        self.backends[host].online = False
        yield
        self.backends[host].online = True

    def endpoint(self, kind: NetworkType, host: int) -> Endpoint:
        return Endpoint(kind, ip_address(f"198.18.0.{host + 1}"))

    def unsupported_request(self) -> GrantRequest:
        return GrantRequest(owner="marks", marks=(RegisterRequest("a-mark", 1),))


class FakeSwitchConformance(SwitchDriverConformance):
    """The suite on fake switches; ``DRIVER`` is the class of the drivers under test."""

    environment: FakeSwitchEnvironment
    DRIVER: type[FakeSwitchDriver] = FakeSwitchDriver
    timeout = 0.1

    @property
    def backend(self) -> FakeSwitchBackend:
        return self.environment.backends[0]

    def actual(self, key: SwitchKey, value: SwitchValue) -> SwitchValue | None:
        return self.backend.values.get(key)

    def make_foreign(self, value: SwitchValue) -> None:
        self.backend.foreign.add(self.name_of(value))

    def name_of(self, value: SwitchValue) -> str:
        return next(str(key) for key, one in self.examples(9).items() if one == value)

    def foreign_is_intact(self, value: SwitchValue) -> bool:
        return self.name_of(value) in self.backend.foreign

    def vanish(self, key: SwitchKey, value: SwitchValue) -> None:
        del self.backend.values[key]

    def drifts(self):
        def spoil(key: SwitchKey, value: SwitchValue) -> None:
            self.backend.values[key] = evolve(value, host="elsewhere")

        return {"elsewhere": spoil, "gone": self.vanish}
