"""A switch of the mind, and a driver for it that keeps every promise.

The broken switches differ from this one in as little as it takes to break one promise.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from attrs import define, evolve, field, frozen

from netfw import flows as of
from netfw.drivers.base import DriverInfo
from netfw.drivers.contribution import SwitchContribution
from netfw.drivers.events import Sink
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.keys import ExtensionKey, NetworkKey, PortKey
from netfw.drivers.pipeline_grant import Grant, GrantRequest, RegisterGrant, TableGrant
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.switch import SwitchCapability, SwitchDriver
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
from netfw.model.ids import PortId
from netfw.model.segment import NetworkType, Provider
from netfw.plan import Operation, Plan, Stage, Update

FITS = {
    PortKey: Wiring,
    NetworkKey: LocalNetwork,
    Endpoint: Tunnel,
    FloodKey: Flood,
    ForwardingKey: Forwarding,
    ExtensionKey: SwitchContribution,
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
        HostCapability.PLAN,
        HostCapability.WATCH,
        SwitchCapability.TUNNELS,
        SwitchCapability.POPULATION,
        SwitchCapability.FLOWS,
        SwitchCapability.IN_SWITCH,
    )

    def __init__(self, machine: Machine, facts: SwitchFacts | None = None) -> None:
        self.machine = machine
        self.known = facts
        self.grants: dict[str, Grant] = {}
        self.claims: list[GrantRequest] = []
        self.left = list(TABLES)
        self.bit = 0
        self.sinks: list[Sink] = []

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(Machine, Machine))

    def describe(self) -> DriverInfo[HostCapability | SwitchCapability]:
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

    def host_facts(self) -> SwitchFacts:
        self.machine.answer()
        if self.known is None:
            raise ConfigError("there is no such bridge: make it")
        return self.known

    def present(self) -> frozenset[SwitchKey]:
        self.machine.answer()
        return frozenset(self.machine.things)

    def grant(self, request: GrantRequest) -> Grant:
        if request.marks:
            raise NotSupported("a switch has no marks")
        if request not in self.claims:
            self.claims.append(request)
            self.grants[request.owner] = self.new_grant(request)
        return self.grants[request.owner]

    def new_grant(self, claim: GrantRequest) -> Grant:
        if len(self.left) < len(claim.tables):
            raise ConfigError(f"no table is left: {list(self.grants)} have them all")
        registers = {}
        for wanted in claim.registers:
            registers[wanted.name] = RegisterGrant(register=8, first=self.bit, bits=wanted.bits)
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
        if value.admission is Admission.LIVE and self.is_shut(value):
            where = None
        if now == where:
            return []
        shutting = [self.operation("shut", key)] if now is not None else []
        return shutting + ([self.operation("admit", key, where)] if where is not None else [])

    def is_shut(self, value: Wiring) -> bool:
        """Whether only a firewall would let something pass; there is none."""
        return value.filtered

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
        additions = (value,) if isinstance(value, SwitchContribution) else ()
        for addition in getattr(value, "contributions", additions):
            if self.trespasses(addition):
                return InvalidInput({addition.owner: "not its own"})
        return None

    def trespasses(self, addition: SwitchContribution) -> bool:
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
