"""A fake switch driver that keeps every promise, and its backend in memory."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import cast

from attrs import define, evolve, field, frozen

from netfw import flows as of
from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.events import KeysChanged, Sink
from netfw.drivers.values.keys import ExtensionKey, HostKey, NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterGrant, TableGrant
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    HostMac,
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
from netfw.model.segment import VLAN_IDS, NetworkType, Provider
from netfw.model.values.ids import PortId
from netfw.ovs.openflow.messages import encoding_problem
from netfw.plan import Operation, Plan, Stage, Update

FITS = {
    PortKey: Wiring,
    NetworkKey: LocalNetwork,
    Endpoint: Tunnel,
    FloodKey: Flood,
    ForwardingKey: Forwarding,
    ExtensionKey: SwitchContribution,
    HostKey: HostMac,
}
TUNNELS = (NetworkType.GRE, NetworkType.VXLAN, NetworkType.GENEVE)
TABLES = range(100, 120)
FINAL = 120
"""The last table of the pipeline."""


@define(slots=False)
class FakeSwitchBackend:
    """One switch.  ``live``: the segment of each live port; ``versions`` change with each write."""

    number: int
    plugged: dict[PortId, SwitchDevice] = field(factory=dict)
    values: dict[SwitchKey, SwitchValue] = field(factory=dict)
    live: dict[PortId, Provider] = field(factory=dict)
    vlans: dict[NetworkKey, int] = field(factory=dict)
    versions: dict[object, int] = field(factory=dict)
    foreign: set[str] = field(factory=set)
    sinks: list[Sink] = field(factory=list)
    on_change: list[Callable[[], None]] = field(factory=list)
    online: bool = True
    faults: set[str] = field(factory=set)
    """Faults of the datapath that a mutation switches on."""
    clock: Iterator[int] = field(factory=count)

    def touch(self, what: object) -> None:
        self.versions[what] = next(self.clock)
        for callback in self.on_change:
            callback()

    def publish(self, event) -> None:
        for sink in tuple(self.sinks):
            sink(event)

    def check_online(self) -> None:
        if not self.online:
            raise BackendUnavailable("the switch is offline")


@frozen
class Observed:
    values: Mapping[SwitchKey, SwitchValue]
    live: Mapping[PortId, Provider]
    plugged: Mapping[PortId, SwitchDevice]
    foreign: frozenset[str]
    broken: frozenset[PortId]


class FakeSwitchDriver(SwitchDriver, Reconciler[SwitchKey, SwitchValue, Observed]):
    """Keeps every promise; mutations override single methods."""

    CAPABILITIES = (
        HostCapability.PLAN,
        HostCapability.WATCH,
        SwitchCapability.TUNNELS,
        SwitchCapability.POPULATION,
        SwitchCapability.FLOWS,
        SwitchCapability.IN_SWITCH,
        SwitchCapability.DISTRIBUTED,
        SwitchCapability.SUB_PORTS,
    )

    def __init__(self, backend: FakeSwitchBackend, facts: SwitchFacts | None = None) -> None:
        self.backend = backend
        self.known = facts
        self.grants: dict[str, Grant] = {}
        self.requests: list[GrantRequest] = []
        self.left = list(TABLES)
        self.bit = 0
        self.sinks: list[Sink] = []

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(FakeSwitchBackend, FakeSwitchBackend))

    def describe(self) -> DriverInfo[HostCapability | SwitchCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def close(self) -> None:
        while self.sinks:
            self.backend.sinks.remove(self.sinks.pop())

    def watch(self, sink: Sink) -> None:
        self.sinks.append(sink)
        self.backend.sinks.append(sink)

    def devices(self) -> Mapping[PortId, SwitchDevice]:
        self.backend.check_online()
        return dict(self.backend.plugged)

    def host_facts(self) -> SwitchFacts:
        self.backend.check_online()
        if self.known is None:
            raise ConfigError("there is no such bridge: make it")
        return self.known

    def present(self) -> frozenset[SwitchKey]:
        self.backend.check_online()
        return frozenset(self.backend.values)

    def grant(self, request: GrantRequest) -> Grant:
        if request.marks:
            raise NotSupported("a switch has no marks")
        if request not in self.requests:
            self.requests.append(request)
            self.grants[request.owner] = self.make_grant(request)
        return self.grants[request.owner]

    def make_grant(self, request: GrantRequest) -> Grant:
        if len(self.left) < len(request.tables):
            raise ConfigError(f"no table is left: {list(self.grants)} have them all")
        registers = {}
        for wanted in request.registers:
            registers[wanted.name] = RegisterGrant(register=8, first=self.bit, bits=wanted.bits)
            self.bit += wanted.bits
        return Grant(
            owner=request.owner,
            cookie=len(self.requests) << 8,
            cookie_mask=0xFF00,
            prefix=f"{request.owner}-",
            tables={t.name: TableGrant(number=self.left.pop(), then=FINAL) for t in request.tables},
            registers=registers,
        )

    def observe(self, scope: Update[SwitchKey, SwitchValue] | None) -> Observed:
        backend = self.backend
        backend.check_online()
        return Observed(
            dict(backend.values),
            dict(backend.live),
            dict(backend.plugged),
            frozenset(backend.foreign),
            frozenset(p for p in backend.plugged if ("broken", p) in backend.versions),
        )

    def plan(self, update: Update[SwitchKey, SwitchValue], observed: Observed) -> Plan:
        going = set(update.drop)
        if update.complete:
            going |= observed.values.keys() - update.put.keys() - update.keep
        refused = self.refusals(update, observed, going)
        put = {key: value for key, value in update.put.items() if key not in refused}
        final = {k: v for k, v in observed.values.items() if k not in going} | put
        waiting = self.waits(put, final, observed)
        orphans = {k for k, v in final.items() if k not in put and self.wait(k, v, final, observed)}
        gone = (going | waiting.keys() | orphans) & observed.values.keys()
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
            if key in observed.values or key in fresh
            for step in self.admission(key, value, final, observed)
        ]
        # Ports leave their networks before others join, so that two networks never mix.
        parting = [step for step in steps if step.payload[0] == "shut"]
        parting += [self.operation("shut", k) for k in gone if isinstance(k, PortKey)]
        admitting = [step for step in steps if step.payload[0] == "admit"]
        breaking = [self.operation("drop", k) for k in gone]
        return [tuple(parting), tuple(making), tuple(admitting), tuple(breaking)]

    def differs(self, key, value, observed) -> bool:
        have = observed.values.get(key)
        if isinstance(key, PortKey) and key.port in observed.broken:
            return True
        if isinstance(have, Wiring) and isinstance(value, Wiring):
            return evolve(have, admission=value.admission) != value
        return have != value

    def admission(self, key: PortKey, value: Wiring, final, observed) -> list[Operation]:
        """Return the operations that admit a port or cut it off."""
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
        """Return whether only a firewall would let traffic pass; there is none."""
        return value.filtered

    def segment(self, value: Wiring, final) -> Provider:
        network = final[NetworkKey(value.network)]
        for segment in network.segments:
            if value.segment in {None, segment.id}:
                return segment.provider
        raise KeyError(value.segment)

    def waits(self, put, final, observed) -> dict[SwitchKey, str]:
        reasons = {key: self.wait(key, value, final, observed) for key, value in put.items()}
        return {key: why for key, why in reasons.items() if why}

    def wait(self, key, value, final, observed) -> str:
        match key, value:
            case PortKey(port=port), Wiring():
                subport = value.subport
                device = observed.plugged.get(port if subport is None else subport.parent)
                if device is None or device.ofport is None:
                    return "no device"
                alive = value.admission is not Admission.DEAD
                if alive and NetworkKey(value.network) not in final:
                    return "no network"
            case FloodKey(network=network, endpoint=endpoint), _:
                return "" if {NetworkKey(network), endpoint} <= final.keys() else "no tunnel"
            case ForwardingKey(network=network), Forwarding(endpoints=endpoints):
                return "" if {NetworkKey(network), *endpoints} <= final.keys() else "no tunnel"
        return ""

    def refusals(self, update, observed, going) -> dict[SwitchKey, NetfwError]:
        refused: dict[SwitchKey, NetfwError] = {}
        taken: dict[Provider, SwitchKey] = {}
        staying = {k: v for k, v in observed.values.items() if k not in going}
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
        subport = getattr(value, "subport", None)
        if subport is not None and (subport.vlan not in VLAN_IDS or subport.parent == key.port):
            return InvalidInput({"subport": "impossible"})
        contributions = (value,) if isinstance(value, SwitchContribution) else ()
        for contribution in getattr(value, "contributions", contributions):
            if self.exceeds_grant(contribution):
                return InvalidInput({contribution.owner: "outside its grant"})
        return None

    def exceeds_grant(self, contribution: SwitchContribution) -> bool:
        grant = self.grants.get(contribution.owner)
        if grant is None:
            return True
        own = {table.number for table in grant.tables.values()}
        bits = {(8, b.first + n) for b in grant.registers.values() for n in range(b.bits)}
        for flow in contribution.flows:
            if encoding_problem(flow) or flow.table not in own:
                return True
            if flow.cookie & grant.cookie_mask != grant.cookie:
                return True
            for action in flow.actions:
                if isinstance(action, of.Load):
                    first, last = action.bits.first, action.bits.last
                    if not {(8, n) for n in range(first, last + 1)} <= bits:
                        return True
        return False

    def operation(self, verb: str, key: SwitchKey, value: object = None) -> Operation:
        return Operation("fake", f"{verb} {key}", frozenset({key}), (verb, key, value))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.backend.check_online()
            for operation in stage.operations:
                _, key, value = cast(tuple[str, SwitchKey, object], operation.payload)
                if isinstance(value, Tunnel) and str(key) in self.backend.foreign:
                    raise OperationRefused({operation: "the name is taken"})
            for operation in stage.operations:
                self.execute(*operation.payload)
            checkpoint(stage)

    def execute(self, verb: str, key: SwitchKey, value) -> None:
        backend = self.backend
        match verb:
            case "put":
                backend.values[key] = value
                backend.versions.pop(("broken", getattr(key, "port", None)), None)
                if isinstance(key, NetworkKey):
                    taken = set(backend.vlans.values())
                    free = next(n for n in count(1) if n not in taken)
                    backend.vlans.setdefault(key, free)
                if getattr(value, "subport", None) is not None:
                    self.make_device(key)
                backend.touch(key)
            case "drop":
                if getattr(backend.values.get(key), "subport", None) is not None:
                    self.remove_device(key)
                backend.values.pop(key, None)
                backend.versions.pop(key, None)
                if isinstance(key, NetworkKey):
                    backend.vlans.pop(key, None)
                backend.touch("something")
            case "admit":
                backend.live[key.port] = value
                backend.touch((key, "live"))
            case "shut":
                backend.live.pop(key.port, None)
                backend.versions.pop((key, "live"), None)
                backend.touch("something")

    def make_device(self, key: PortKey) -> None:
        """Make the device of a sub-port."""
        if key.port not in self.backend.plugged:
            device = SwitchDevice(name=f"sub{key.port}"[:14], ofport=next(self.backend.clock) + 1)
            self.backend.plugged[key.port] = device
            self.backend.publish(KeysChanged("made", {key}))

    def remove_device(self, key: PortKey) -> None:
        if self.backend.plugged.pop(key.port, None) is not None:
            self.backend.publish(KeysChanged("removed", {key}))
