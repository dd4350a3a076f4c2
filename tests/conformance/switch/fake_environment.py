"""A world around switches of the mind: packets are imagined after every single change of one.

So nothing is left to timing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address

from attrs import evolve

from netfw import flows as of
from netfw.drivers.events import FeedLost, KeysChanged
from netfw.drivers.keys import ExtensionKey, NetworkKey, PortKey
from netfw.drivers.pipeline_grant import GrantRequest, RegisterRequest
from netfw.drivers.switch_values import (
    Endpoint,
    FloodKey,
    ForwardingKey,
    SwitchDevice,
    SwitchFacts,
    SwitchKey,
    SwitchValue,
)
from netfw.model.address import IpAddress, Mac
from netfw.model.ids import PortId
from netfw.model.segment import NetworkType, Provider
from netfw.testing.conformance.switch.environment import (
    Net,
    Pair,
    Picture,
    Stamp,
    SwitchEnvironment,
    SwitchTestPort,
    TrafficProbe,
    among,
)
from netfw.testing.conformance.switch.suite import SwitchDriverConformance
from tests.conformance.switch.fake_switch import FINAL, TUNNELS, GoodSwitch, Machine


class ImaginaryGossip(TrafficProbe):
    """Looks who hears whom after every change of a switch."""

    def __init__(self, world: "ImaginaryWorld", stations: tuple[SwitchTestPort, ...]) -> None:
        self.world, self.stations = world, stations
        self.rounds: list[frozenset[Pair]] = []
        self.leaked: set[Pair] = set()
        self.look()

    def look(self) -> None:
        self.rounds.append(self.now())

    def now(self) -> frozenset[Pair]:
        return frozenset(pair for pair in among(*self.stations) if self.world.hears(*pair))

    def exchange(self, expected: Iterable[Pair] = (), within: float = 0) -> frozenset[Pair]:
        self.look()
        return self.rounds[-1]

    def lost(self, *pairs: Pair) -> int:
        return sum(pair not in heard for heard in self.rounds for pair in pairs)

    @property
    def overheard(self) -> frozenset[Pair]:
        return frozenset().union(*self.rounds) | self.leaked

    def forge(self, speaker, *, vlans=(), source=None) -> None:
        holes = self.world.machines[speaker.host].open_to
        others = [other for other in self.stations if other is not speaker]
        if vlans and "tags" in holes:
            self.leaked |= {(speaker, other) for other in others if self.world.place(other)}
        if source is not None and "thieves" in holes:
            self.leaked |= {(other, speaker) for other in others}


class ImaginaryWorld(SwitchEnvironment):
    """Two machines, and what packets would do on them."""

    def __init__(self, driver: type[GoodSwitch] = GoodSwitch) -> None:
        self.driver = driver
        self.machines = Machine(0), Machine(1)
        self.stations: dict[PortId, SwitchTestPort] = {}
        self.made = 0

    def make_driver(self, host: int = 0) -> GoodSwitch:
        facts = SwitchFacts(
            physical_networks=frozenset(self.physical),
            endpoints=frozenset(self.endpoint(kind, host) for kind in TUNNELS),
        )
        return self.driver(self.machines[host], facts)

    def misconfigured(self) -> GoodSwitch:
        return self.driver(self.machines[0], None)

    def plug(self, *stations: SwitchTestPort) -> None:
        for station in stations:
            self.plug_unfinished(station)()

    plug_mute = plug

    def plug_unfinished(self, station: SwitchTestPort) -> Callable[[], None]:
        machine = self.machines[station.host]
        self.made += 1
        device = SwitchDevice(name=f"tap{self.made}", mac=station.mac)
        machine.plugged[station.port] = device
        self.stations[station.port] = station

        def finish() -> None:
            machine.plugged[station.port] = evolve(device, ofport=self.made)
            machine.touch("something")
            machine.tell(KeysChanged("plugged", {station.key}))

        return finish

    def unplug(self, *stations: SwitchTestPort) -> None:
        for station in stations:
            machine = self.machines[station.host]
            if machine.plugged.pop(station.port, None):
                machine.things.pop(station.key, None)
                machine.live.pop(station.port, None)
                for what in (station.key, (station.key, "live"), ("broken", station.port)):
                    machine.versions.pop(what, None)
                machine.tell(KeysChanged("unplugged", {station.key}))

    def clear(self) -> None:
        self.unplug(*self.stations.values())
        self.stations.clear()

    def scrub(self, host: int) -> None:
        self.machines = tuple(Machine(number) for number in range(2))

    def settle(self) -> None:
        pass

    @contextmanager
    def gossip(self, *stations: SwitchTestPort) -> Iterator[TrafficProbe]:
        gossip = ImaginaryGossip(self, stations)
        for machine in self.machines:
            machine.seen.append(gossip.look)
        yield gossip
        for machine in self.machines:
            machine.seen.remove(gossip.look)

    def place(self, station: SwitchTestPort) -> Provider | None:
        machine = self.machines[station.host]
        if station.port not in machine.plugged:
            return None
        return machine.live.get(station.port)

    def hears(self, speaker: SwitchTestPort, listener: SwitchTestPort) -> bool:
        near, away = self.place(speaker), self.place(listener)
        machine = self.machines[listener.host]
        if away is None and "trunks" in machine.open_to and near is not None:
            return listener.port in machine.plugged and listener.key not in machine.things
        if near is None or near != away or self.is_muted(speaker):
            return False
        here, there = self.machines[speaker.host].things, machine.things
        value, other = here[speaker.key], there[listener.key]
        if speaker.host == listener.host:
            local = near.network_type is NetworkType.LOCAL
            return value.network == other.network if local else True
        if not near.network_type.is_tunnel:
            return near.network_type is not NetworkType.LOCAL
        peer = self.endpoint(near.network_type, listener.host)
        if self.endpoint(near.network_type, speaker.host) not in there or peer not in here:
            return False
        entries = FloodKey(value.network, peer), ForwardingKey(value.network, listener.mac)
        return here[peer].mesh or all(entry in here for entry in entries)

    def is_muted(self, speaker: SwitchTestPort) -> bool:
        """What the extensions' tables do with what it says."""
        machine = self.machines[speaker.host]
        flows = [
            flow
            for key in (speaker.key, *(k for k in machine.things if isinstance(k, ExtensionKey)))
            if (value := machine.things.get(key)) is not None
            for addition in getattr(value, "contributions", (value,))
            for flow in getattr(addition, "flows", ())
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

    def ask(self, station: SwitchTestPort, address: IpAddress, *, hoped: bool) -> Mac | None:
        things = self.machines[station.host].things
        mine = things[station.key]
        for key, value in things.items():
            known = isinstance(key, ForwardingKey) and key.network == mine.network
            if known and address in value.addresses:
                return key.mac
        return None

    def claims(
        self,
        station: SwitchTestPort,
        mac: Mac,
        address: IpAddress,
        hearer: SwitchTestPort,
        *,
        hoped: bool,
    ) -> bool:
        if self.place(station) is None or self.place(hearer) is None:
            return False
        guard = self.machines[station.host].things[station.key].guard
        if guard is None:
            return True
        return any(source.mac == mac and address in source.prefix for source in guard)

    def picture(self, host: int = 0) -> Picture:
        machine = self.machines[host]
        versions = machine.versions
        found = {f"{key} {value}": key for key, value in machine.things.items()}
        found |= {
            f"{port} on {where}": (PortKey(port), "live") for port, where in machine.live.items()
        }
        found |= {f"{key} is {number}": key for key, number in machine.numbers.items()}
        found |= {f"{what} spoilt": what for what in versions if "broken" in str(what)}
        return {text: Stamp(str(versions.get(key))) for text, key in found.items()}

    def local_number(self, net: Net, host: int = 0) -> int | None:
        return self.machines[host].numbers.get(net.key)

    def drifts(self) -> Mapping[str, Callable[[SwitchTestPort], None]]:
        def cut_off(station: SwitchTestPort) -> None:
            machine = self.machines[station.host]
            del machine.live[station.port]
            machine.tell(KeysChanged("cut off", {station.key}))

        def spoil(station: SwitchTestPort) -> None:
            machine = self.machines[station.host]
            machine.touch(("broken", station.port))
            machine.tell(KeysChanged("spoilt", {station.key}))

        return {"cut off": cut_off, "spoilt": spoil}

    def lose_state(self, host: int = 0) -> None:
        machine = self.machines[host]
        for key in [key for key in machine.things if not isinstance(key, NetworkKey)]:
            del machine.things[key]
        machine.live.clear()
        machine.tell(FeedLost("the switch was restarted"))

    @contextmanager
    def outage(self, host: int = 0) -> Iterator[None]:
        self.machines[host].online = False
        yield
        self.machines[host].online = True

    def endpoint(self, kind: NetworkType, host: int) -> Endpoint:
        return Endpoint(kind, ip_address(f"198.18.0.{host + 1}"))

    def impossible_claim(self) -> GrantRequest:
        return GrantRequest(owner="marks", marks=(RegisterRequest("a-mark", 1),))


class ImaginarySwitchConformance(SwitchDriverConformance):
    """Looks at the switches of the mind; ``DRIVER`` says whose driver is tried."""

    DRIVER: type[GoodSwitch] = GoodSwitch
    patience = 0.1

    @property
    def machine(self) -> Machine:
        return self.world.machines[0]

    def actual(self, key: SwitchKey, value: SwitchValue) -> SwitchValue | None:
        return self.machine.things.get(key)

    def make_foreign(self, value: SwitchValue) -> None:
        self.machine.foreign.add(self.name_of(value))

    def name_of(self, value: SwitchValue) -> str:
        return next(str(key) for key, one in self.examples(9).items() if one == value)

    def foreign_is_intact(self, value: SwitchValue) -> bool:
        return self.name_of(value) in self.machine.foreign

    def vanish(self, key: SwitchKey, value: SwitchValue) -> None:
        del self.machine.things[key]

    def drifts(self):
        def spoil(key: SwitchKey, value: SwitchValue) -> None:
            self.machine.things[key] = evolve(value, host="elsewhere")

        return {"elsewhere": spoil, "gone": self.vanish}
