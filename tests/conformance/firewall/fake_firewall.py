"""A fake firewall driver that keeps every promise, and its backend in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, ClassVar, cast
from uuid import UUID

from attrs import define, evolve, field

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
    Rules,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.support.firewall_capabilities import restrict_rules
from netfw.drivers.support.firewall_validation import validation_error
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.events import FeedLost, Sink
from netfw.errors import (
    BackendUnavailable,
    InvalidInput,
    NetfwError,
    OperationRefused,
    PartlyInvalid,
)
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId, PortId
from netfw.model.values.protocol import TCP
from netfw.plan import Operation, Plan, Stage, Update
from netfw.testing.conformance.firewall.environment import (
    Delivery,
    FirewallEnvironment,
    FirewallTestPort,
    PlugPoint,
)
from netfw.testing.conformance.firewall.packets import ECHO_REPLY, Flags, Packet, Sent
from netfw.testing.conformance.firewall.reference_model import passes
from tests.conformance.common.fake_backend import FakeFailures

Policy = Mapping[FirewallKey, FirewallValue]
Connection = tuple[object, ...]
Change = tuple[FirewallKey, FirewallValue | None]
SENSELESS = {Flags.SYN | Flags.ACK, Flags.SYN | Flags.FIN, Flags.SYN | Flags.RST, Flags(0)}
WINDOW = 1 << 20


@define
class FakeFirewallBackend:
    """Policy, connections and foreign state of a fake host."""

    policy: dict[FirewallKey, FirewallValue] = field(factory=dict)
    in_force: Policy = field(factory=dict)
    """The policy that applies to packets now."""
    connections: dict[Connection, Packet] = field(factory=dict)
    marks: set[str] = field(factory=set)
    foreign: bool = False
    online: bool = True
    refuses: bool = False
    """It refuses every change."""
    sinks: list[Sink] = field(factory=list)
    lock: Lock = field(factory=Lock, repr=False)

    def check_online(self) -> None:
        if not self.online:
            raise BackendUnavailable("the fake firewall is offline")


class FakeFirewallDriver(FirewallDriver, Reconciler[FirewallKey, FirewallValue, dict[Any, Any]]):
    """Decides in `decide` which packets pass; mutations override the steps of that decision."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset(
        {
            HostCapability.PLAN,
            HostCapability.WATCH,
            FirewallCapability.FILTERING,
            FirewallCapability.SPOOF_GUARD,
            FirewallCapability.STATELESS_GROUPS,
            FirewallCapability.ADDRESS_GROUPS,
            FirewallCapability.UDPLITE_PORTS,
        }
    )

    def __init__(self, backend: FakeFirewallBackend) -> None:
        self.backend = backend

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: object) -> FakeFirewallDriver:
        raise NotImplementedError

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def watch(self, sink: Sink) -> None:
        self.backend.sinks.append(sink)

    def present(self) -> frozenset[FirewallKey]:
        self.backend.check_online()
        return frozenset(self.backend.policy)

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> dict[Any, Any]:
        self.backend.check_online()
        return dict(self.backend.policy)

    def plan(self, update: Update[FirewallKey, FirewallValue], observed: dict[Any, Any]) -> Plan:
        refused = self.refusals(update)
        put = {key: value for key, value in update.put.items() if key not in refused}
        for key, value in put.items():
            if isinstance(value, Rules):
                put[key], left_out = self.enforced(value)
                refused |= {key: PartlyInvalid(left_out)} if left_out else {}
        changed = {key: value for key, value in put.items() if observed.get(key) != value}
        gone = self.removed_keys(update, observed)
        return Plan(stages=self.stages(changed, gone, observed), refused=refused)

    def refusals(self, update: Update[FirewallKey, FirewallValue]) -> dict[Any, NetfwError]:
        found = {
            key: validation_error(key, value) or misplaced(value)
            for key, value in update.put.items()
        }
        return {key: error for key, error in found.items() if error is not None}

    def enforced(self, group: Rules) -> tuple[Rules, Mapping[str, str]]:
        """Return the rules to put, and those that are left out, each with the reason."""
        supported = restrict_rules(group, self.CAPABILITIES)
        return supported.rules, supported.left_out

    def removed_keys(self, update: Update[Any, Any], observed: dict[Any, Any]) -> set[Any]:
        gone = set(update.drop)
        if update.complete:
            gone |= observed.keys() - update.put.keys() - update.keep
        return gone & observed.keys()

    def stages(self, put: Mapping[Any, Any], gone: set[Any], observed: Any) -> tuple[Stage, ...]:
        """Return one stage with all operations."""
        made = [operation(key, value) for key, value in put.items()]
        return staged([*made, *(operation(key, None) for key in sorted(gone, key=str))])

    def apply(self, plan: Plan, checkpoint: Any) -> None:
        self.backend.check_online()
        for stage in plan.stages:
            self.execute(stage)
            checkpoint(stage)

    def execute(self, stage: Stage) -> None:
        with self.backend.lock:
            for each in stage.operations:
                key, value = cast(Change, each.payload)
                if self.backend.refuses:
                    raise OperationRefused({each: "Operation not permitted"})
                if value is None:
                    if key not in self.backend.policy:
                        raise OperationRefused({each: "it is gone"})
                    del self.backend.policy[key]
                else:
                    self.backend.policy[key] = value

    @staticmethod
    def rewrite_rule(rule: SecurityGroupRule) -> list[SecurityGroupRule]:
        """Return the rules that are applied for *rule*."""
        return [rule]

    @classmethod
    def allowed_sources(cls, port: FilteredPort) -> frozenset[AllowedSource]:
        """Return the sources that *port* may send from."""
        return port.sources

    @classmethod
    def in_force(cls, policy: Policy) -> Policy:
        """Return the policy that applies to packets."""
        return {key: cls.applied(value) for key, value in policy.items()}

    @classmethod
    def applied(cls, value: FirewallValue) -> FirewallValue:
        if isinstance(value, Rules):
            rules = (rule for each in value.rules for rule in cls.rewrite_rule(each))
            return evolve(value, rules=frozenset(rules))
        if isinstance(value, FilteredPort) and not value.trusted:
            return evolve(value, sources=cls.allowed_sources(value))
        return value

    @classmethod
    def decide(cls, backend: FakeFirewallBackend, delivery: Delivery) -> bool:
        """Return whether *delivery* arrives, and track its connection."""
        sent, policy = delivery.sent, backend.in_force
        opened = None
        if isinstance(sent, Packet):
            here, back = cls.connection(delivery, sent), cls.connection(delivery, reverse(sent))
            asked = here if sent.about is None else cls.connection(delivery, sent.about)
            opened = backend.connections.get(back if sent.about is None else asked)
            if cls.is_invalid(backend, sent, here, opened):
                policy = without_state(policy)
        allowed = cls.passes(policy, delivery, opened)
        if allowed and isinstance(sent, Packet) and opened is None:
            backend.connections.setdefault(here, sent)
        return allowed

    @classmethod
    def fixed_decision(cls, sent: Sent, opened: Packet | None) -> bool | None:
        """Return a decision that no rule of an untrusted port changes, or ``None``."""
        return None

    @classmethod
    def classify(cls, sent: Sent, port: FilteredPort) -> Sent:
        """Return the packet that *sent* from *port* is filtered as."""
        return sent

    @classmethod
    def passes(cls, policy: Policy, way: Delivery, opened: Packet | None) -> bool:
        """Return whether *policy* lets a packet pass."""
        sent = way.sent
        ports = [policy[p.key] for p in (way.sender, way.receiver) if p.key in policy]
        fixed = cls.fixed_decision(sent, opened)
        if fixed is not None and not all(port.trusted for port in ports):
            return fixed
        port = policy.get(way.sender.key)
        if isinstance(port, FilteredPort) and not port.trusted:
            sent = cls.classify(sent, port)
        return passes(policy, sent, way.sender.key, way.receiver.key, opened)

    @classmethod
    def connection(cls, way: Delivery, packet: Packet) -> Connection:
        """Return the key of the connection of *packet*."""
        ends = packet.source, packet.target, packet.source_port, packet.target_port
        return way.sender.plug_point.network, packet.protocol, packet.identifier, *ends

    @classmethod
    def is_invalid(
        cls, backend: FakeFirewallBackend, packet: Packet, here: Connection, opened: Packet | None
    ) -> bool:
        if packet.about is not None:
            return opened is None
        if packet.is_icmp:
            return opened is None and packet.icmp == ECHO_REPLY[packet.version]
        if packet.protocol != TCP:
            return False
        return packet.sequence > WINDOW or (opened is None and packet.flags in SENSELESS)


def reverse(packet: Packet) -> Packet:
    return evolve(
        packet,
        source=packet.target,
        target=packet.source,
        source_port=packet.target_port,
        target_port=packet.source_port,
    )


def misplaced(value: object) -> InvalidInput | None:
    """Return an error if *value* is a port without a valid network or MAC."""
    if not isinstance(value, FilteredPort):
        return None
    right = isinstance(value.network, UUID) and type(value.mac) is Mac
    return None if right else InvalidInput({"port": "its network or MAC is none"})


def without_state(policy: Policy) -> Policy:
    """Return *policy* without stateful rules, for packets that no connection can have."""
    stateful = {key for key, v in policy.items() if isinstance(v, Rules) and v.stateful}
    return {key: Rules() if key in stateful else value for key, value in policy.items()}


def operation(key: Any, value: Any) -> Operation:
    text = f"drop {key}" if value is None else f"put {key}"
    return Operation("fake", text, {key}, (key, value))


def staged(*stages: Iterable[Operation]) -> tuple[Stage, ...]:
    return tuple(Stage(tuple(stage)) for stage in map(tuple, stages) if stage)


class FakeFirewallEnvironment(FakeFailures, FirewallEnvironment):
    """Carries packets as the class of the driver decides."""

    backend: FakeFirewallBackend
    event_timeout = 0.0

    def __init__(self, kind: type[FakeFirewallDriver]) -> None:
        self.kind, self.backend = kind, FakeFirewallBackend()
        self.plug_points = tuple(
            PlugPoint(
                number=number,
                port=PortId(UUID(int=number + 1)),
                network=NetworkId(UUID(int=100 + number // 4)),
                device=f"tap{number}",
            )
            for number in range(6)
        )

    def make_driver(self) -> FakeFirewallDriver:
        return self.kind(self.backend)

    def carry(self, deliveries: Iterable[Delivery]) -> tuple[bool, ...]:
        with self.backend.lock:
            self.backend.in_force = self.kind.in_force(self.backend.policy)
            return tuple(self.kind.decide(self.backend, delivery) for delivery in deliveries)

    def wire(self, ports: Mapping[FirewallTestPort, Any]) -> None:
        """Do nothing: there is no switch."""

    def dump_state(self) -> frozenset[str]:
        held = {f"{key} {value}" for key, value in self.backend.policy.items()}
        return frozenset(held | self.backend.marks)

    def lose_state(self) -> None:
        self.backend.policy.clear()
        self.backend.marks.clear()
        for sink in self.backend.sinks:
            sink(FeedLost("the fake firewall was restarted"))

    def make_foreign(self) -> None:
        self.backend.foreign = True

    def foreign_is_intact(self) -> bool:
        found, self.backend.foreign = self.backend.foreign, False
        return found
