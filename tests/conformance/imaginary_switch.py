"""Switches of the mind, a driver for them that keeps every promise, and a world around them.

The broken switches differ from this one in as little as it takes to break one promise.  Packets
are imagined after every single change, so that nothing is left to timing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from itertools import count

import pytest
from attrs import define, evolve, field, frozen

from netfw import flows as of
from netfw.drivers.addition import SwitchAddition
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.claim import BitsClaim, BitsGrant, Claim, Grant, TableGrant
from netfw.drivers.events import FeedLost, KeysChanged, Sink
from netfw.drivers.keys import ExtensionKey, NetworkKey, PortKey
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.switch_values import (
    Admission,
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    LocalNetwork,
    SwitchDevice,
    SwitchFacts,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.errors import (
    BackendUnavailable,
    ConfigError,
    Conflict,
    InvalidInput,
    NetfwError,
    NotSupported,
    OperationRefused,
)
from netfw.model.address import IpAddress, Mac
from netfw.model.ids import PortId
from netfw.model.segment import NetworkType, Provider
from netfw.plan import Operation, Plan, Stage, Update
from netfw.testing.conformance.switch import SwitchDriverConformance
from netfw.testing.conformance.switch_world import (
    Gossip,
    Net,
    Pair,
    Picture,
    Stamp,
    Station,
    SwitchWorld,
    among,
)

FITS = {
    PortKey: Wiring,
    NetworkKey: LocalNetwork,
    Endpoint: Tunnel,
    FloodKey: Flood,
    ForwardingKey: Forwarding,
    ExtensionKey: SwitchAddition,
}
TUNNELS = (NetworkType.GRE, NetworkType.VXLAN, NetworkType.GENEVE)
TABLES = range(100, 120)
FINAL = 120
"""Where every table leads in the end."""


@define
class Machine:
    """One switch.  ``live`` says who takes part where; a version changes with every touch."""

    number: int
    plugged: dict[PortId, SwitchDevice] = field(factory=dict)
    things: dict[SwitchKey, SwitchValue] = field(factory=dict)
    live: dict[PortId, Provider] = field(factory=dict)
    numbers: dict[NetworkKey, int] = field(factory=dict)
    versions: dict[object, int] = field(factory=dict)
    foreign: set[str] = field(factory=set)
    sinks: list[Sink] = field(factory=list)
    seen: list[Callable[[], None]] = field(factory=list)
    online: bool = True
    open_to: set[str] = field(factory=set)
    """Holes that a broken driver leaves."""
    clock: Iterator[int] = field(factory=count)

    def touch(self, what: object) -> None:
        self.versions[what] = next(self.clock)
        for look in self.seen:
            look()

    def tell(self, event) -> None:
        for sink in tuple(self.sinks):
            sink(event)

    def answer(self) -> None:
        if not self.online:
            raise BackendUnavailable("the switch is off")


@frozen
class Seen:
    things: Mapping[SwitchKey, SwitchValue]
    live: Mapping[PortId, Provider]
    plugged: Mapping[PortId, SwitchDevice]
    foreign: frozenset[str]
    broken: frozenset[PortId]


class GoodSwitch(SwitchDriver, Reconciler[SwitchKey, SwitchValue, Seen]):
    """Keeps every promise."""

    CAPABILITIES = (
        Capability.PLAN,
        Capability.WATCH,
        Capability.TUNNELS,
        Capability.POPULATION,
        Capability.FLOWS,
    )

    def __init__(self, machine: Machine, facts: SwitchFacts | None = None) -> None:
        self.machine = machine
        self.known = facts
        self.grants: dict[str, Grant] = {}
        self.claims: list[Claim] = []
        self.left = list(TABLES)
        self.bit = 0
        self.sinks: list[Sink] = []

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(Machine, Machine))

    def describe(self) -> DriverInfo:
        return DriverInfo("imaginary", self.CAPABILITIES)

    def close(self) -> None:
        while self.sinks:
            self.machine.sinks.remove(self.sinks.pop())

    def watch(self, sink: Sink) -> None:
        self.sinks.append(sink)
        self.machine.sinks.append(sink)

    def devices(self) -> Mapping[PortId, SwitchDevice]:
        self.machine.answer()
        return dict(self.machine.plugged)

    def facts(self) -> SwitchFacts:
        self.machine.answer()
        if self.known is None:
            raise ConfigError("there is no such bridge: make it")
        return self.known

    def held(self) -> frozenset[SwitchKey]:
        self.machine.answer()
        return frozenset(self.machine.things)

    def grant(self, claim: Claim) -> Grant:
        if claim.marks:
            raise NotSupported("a switch has no marks")
        if claim not in self.claims:
            self.claims.append(claim)
            self.grants[claim.owner] = self.new_grant(claim)
        return self.grants[claim.owner]

    def new_grant(self, claim: Claim) -> Grant:
        if len(self.left) < len(claim.tables):
            raise ConfigError(f"no table is left: {list(self.grants)} have them all")
        registers = {}
        for wanted in claim.registers:
            registers[wanted.name] = BitsGrant(register=8, first=self.bit, bits=wanted.bits)
            self.bit += wanted.bits
        return Grant(
            owner=claim.owner,
            cookie=len(self.claims) << 8,
            cookie_mask=0xFF00,
            prefix=f"{claim.owner}-",
            tables={t.name: TableGrant(number=self.left.pop(), then=FINAL) for t in claim.tables},
            registers=registers,
        )

    def observe(self, scope: Update[SwitchKey, SwitchValue] | None) -> Seen:
        machine = self.machine
        machine.answer()
        return Seen(
            dict(machine.things),
            dict(machine.live),
            dict(machine.plugged),
            frozenset(machine.foreign),
            frozenset(p for p in machine.plugged if ("broken", p) in machine.versions),
        )

    def plan(self, update: Update[SwitchKey, SwitchValue], observed: Seen) -> Plan:
        going = set(update.drop)
        if update.complete:
            going |= observed.things.keys() - update.put.keys() - update.keep
        refused = self.refusals(update, observed, going)
        put = {key: value for key, value in update.put.items() if key not in refused}
        final = {k: v for k, v in observed.things.items() if k not in going} | put
        waiting = self.waits(put, final, observed)
        orphans = {k for k, v in final.items() if k not in put and self.wait(k, v, final, observed)}
        gone = (going | waiting.keys() | orphans) & observed.things.keys()
        fresh = {key: value for key, value in put.items() if key not in waiting}
        stages = self.stages(fresh, gone, final, observed)
        return Plan([Stage(stage) for stage in stages if stage], waiting, refused)

    def stages(self, fresh, gone, final, observed) -> list[tuple[Operation, ...]]:
        changed = {k: v for k, v in fresh.items() if self.differs(k, v, observed)}
        making = [self.operation("put", k, v) for k, v in changed.items()]
        ports = {k: v for k, v in final.items() if isinstance(v, Wiring) and k not in gone}
        steps = [
            step
            for key, value in ports.items()
            if key in observed.things or key in fresh
            for step in self.admission(key, value, final, observed)
        ]
        # Whoever moves leaves before anybody comes, or two would meet on the way.
        parting = [step for step in steps if step.payload[0] == "shut"]
        parting += [self.operation("shut", k) for k in gone if isinstance(k, PortKey)]
        admitting = [step for step in steps if step.payload[0] == "admit"]
        breaking = [self.operation("drop", k) for k in gone]
        return [tuple(parting), tuple(making), tuple(admitting), tuple(breaking)]

    def differs(self, key, value, observed) -> bool:
        have = observed.things.get(key)
        if isinstance(key, PortKey) and key.port in observed.broken:
            return True
        if isinstance(have, Wiring) and isinstance(value, Wiring):
            return evolve(have, admission=value.admission) != value
        return have != value

    def admission(self, key: PortKey, value: Wiring, final, observed) -> list[Operation]:
        """The last step: what lets a port live, or die."""
        now = observed.live.get(key.port)
        where = None if value.admission is Admission.DEAD else self.segment(value, final)
        if value.admission is Admission.HOLD and now != where:
            where = None
        if now == where:
            return []
        shutting = [self.operation("shut", key)] if now is not None else []
        return shutting + ([self.operation("admit", key, where)] if where is not None else [])

    def segment(self, value: Wiring, final) -> Provider:
        network = final[NetworkKey(value.network)]
        for segment in network.segments:
            if value.segment in {None, segment.id}:
                return segment.provider
        raise KeyError(value.segment)

    def waits(self, put, final, observed) -> dict[SwitchKey, str]:
        found = {key: self.wait(key, value, final, observed) for key, value in put.items()}
        return {key: why for key, why in found.items() if why}

    def wait(self, key, value, final, observed) -> str:
        match key, value:
            case PortKey(port=port), Wiring():
                device = observed.plugged.get(port)
                if device is None or device.ofport is None:
                    return "no device"
                alive = value.admission is not Admission.DEAD
                if alive and NetworkKey(value.network) not in final:
                    return "no network"
            case FloodKey(network=network, endpoint=endpoint), _:
                return "" if {NetworkKey(network), endpoint} <= final.keys() else "no tunnel"
            case ForwardingKey(network=network), Forwarding(endpoint=endpoint):
                return "" if {NetworkKey(network), endpoint} <= final.keys() else "no tunnel"
        return ""

    def refusals(self, update, observed, going) -> dict[SwitchKey, NetfwError]:
        refused: dict[SwitchKey, NetfwError] = {}
        taken: dict[Provider, SwitchKey] = {}
        staying = {k: v for k, v in observed.things.items() if k not in going}
        for key, value in {**staying, **update.put}.items():
            problem = self.problem(key, value, observed)
            if isinstance(value, LocalNetwork) and isinstance(key, NetworkKey):
                for segment in value.segments:
                    provider = segment.provider
                    shared = provider.network_type is not NetworkType.LOCAL
                    if shared and taken.setdefault(provider, key) != key:
                        problem = Conflict("another network has it")
            if problem is not None and key in update.put:
                refused[key] = problem
        return refused

    def problem(self, key, value, observed) -> NetfwError | None:
        if not isinstance(value, FITS[type(key)]):
            return InvalidInput({str(key): "does not fit"})
        if isinstance(value, Tunnel) and str(key) in observed.foreign:
            return Conflict("the name is taken")
        additions = (value,) if isinstance(value, SwitchAddition) else ()
        for addition in getattr(value, "additions", additions):
            if self.trespasses(addition):
                return InvalidInput({addition.owner: "not its own"})
        return None

    def trespasses(self, addition: SwitchAddition) -> bool:
        grant = self.grants.get(addition.owner)
        if grant is None:
            return True
        own = {table.number for table in grant.tables.values()}
        bits = {(8, b.first + n) for b in grant.registers.values() for n in range(b.bits)}
        for flow in addition.flows:
            if flow.table not in own or flow.cookie & grant.cookie_mask != grant.cookie:
                return True
            for action in flow.actions:
                if isinstance(action, of.Load):
                    first, last = action.bits.first, action.bits.last
                    if not {(8, n) for n in range(first, last + 1)} <= bits:
                        return True
        return False

    def operation(self, verb: str, key: SwitchKey, value: object = None) -> Operation:
        return Operation("imaginary", f"{verb} {key}", frozenset({key}), (verb, key, value))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.machine.answer()
            for operation in stage.operations:
                _, key, value = operation.payload
                if isinstance(value, Tunnel) and str(key) in self.machine.foreign:
                    raise OperationRefused({operation: "the name is taken"})
            for operation in stage.operations:
                self.carry_out(*operation.payload)
            checkpoint(stage)

    def carry_out(self, verb: str, key: SwitchKey, value) -> None:
        machine = self.machine
        match verb:
            case "put":
                machine.things[key] = value
                machine.versions.pop(("broken", getattr(key, "port", None)), None)
                if isinstance(key, NetworkKey):
                    taken = set(machine.numbers.values())
                    free = next(n for n in count(1) if n not in taken)
                    machine.numbers.setdefault(key, free)
                machine.touch(key)
            case "drop":
                machine.things.pop(key, None)
                machine.versions.pop(key, None)
                if isinstance(key, NetworkKey):
                    machine.numbers.pop(key, None)
                machine.touch("something")
            case "admit":
                machine.live[key.port] = value
                machine.touch((key, "live"))
            case "shut":
                machine.live.pop(key.port, None)
                machine.versions.pop((key, "live"), None)
                machine.touch("something")


class ImaginaryGossip(Gossip):
    """Looks who hears whom after every change of a switch."""

    def __init__(self, world: "ImaginaryWorld", stations: tuple[Station, ...]) -> None:
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


class ImaginaryWorld(SwitchWorld):
    """Two machines, and what packets would do on them."""

    def __init__(self, driver: type[GoodSwitch] = GoodSwitch) -> None:
        self.driver = driver
        self.machines = Machine(0), Machine(1)
        self.stations: dict[PortId, Station] = {}
        self.made = 0

    def make_driver(self, host: int = 0) -> GoodSwitch:
        facts = SwitchFacts(
            physical_networks=frozenset(self.physical),
            endpoints=frozenset(self.endpoint(kind, host) for kind in TUNNELS),
        )
        return self.driver(self.machines[host], facts)

    def misconfigured(self) -> GoodSwitch:
        return self.driver(self.machines[0], None)

    def plug(self, *stations: Station) -> None:
        for station in stations:
            self.plug_unfinished(station)()

    plug_mute = plug

    def plug_unfinished(self, station: Station) -> Callable[[], None]:
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

    def unplug(self, *stations: Station) -> None:
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
    def gossip(self, *stations: Station) -> Iterator[Gossip]:
        gossip = ImaginaryGossip(self, stations)
        for machine in self.machines:
            machine.seen.append(gossip.look)
        yield gossip
        for machine in self.machines:
            machine.seen.remove(gossip.look)

    def place(self, station: Station) -> Provider | None:
        machine = self.machines[station.host]
        if station.port not in machine.plugged:
            return None
        return machine.live.get(station.port)

    def hears(self, speaker: Station, listener: Station) -> bool:
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

    def is_muted(self, speaker: Station) -> bool:
        """What the extensions' tables do with what it says."""
        machine = self.machines[speaker.host]
        flows = [
            flow
            for key in (speaker.key, *(k for k in machine.things if isinstance(k, ExtensionKey)))
            if (value := machine.things.get(key)) is not None
            for addition in getattr(value, "additions", (value,))
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

    def ask(self, station: Station, address: IpAddress) -> Mac | None:
        things = self.machines[station.host].things
        mine = things[station.key]
        for key, value in things.items():
            known = isinstance(key, ForwardingKey) and key.network == mine.network
            if known and address in value.addresses:
                return key.mac
        return None

    def claims(self, station: Station, mac: Mac, address: IpAddress, hearer: Station) -> bool:
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

    def drifts(self) -> Mapping[str, Callable[[Station], None]]:
        def cut_off(station: Station) -> None:
            machine = self.machines[station.host]
            del machine.live[station.port]
            machine.tell(KeysChanged("cut off", {station.key}))

        def spoil(station: Station) -> None:
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

    def impossible_claim(self) -> Claim:
        return Claim(owner="marks", marks=(BitsClaim("a-mark", 1),))


class ImaginarySwitchConformance(SwitchDriverConformance):
    """Looks at the switches of the mind; ``DRIVER`` says whose driver is tried."""

    DRIVER: type[GoodSwitch] = GoodSwitch
    patience = 0.1

    @pytest.fixture
    def shared_world(self) -> ImaginaryWorld:
        return ImaginaryWorld(self.DRIVER)

    @pytest.fixture
    def blank(self, shared_world: ImaginaryWorld) -> Mapping[int, Picture]:
        return {0: {}, 1: {}}

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
