"""A firewall of the mind, and a driver for it that keeps every promise.

The broken firewalls differ from this one in as little as it takes to break one promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar
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
from netfw.drivers.support.firewall_validation import validation_error
from netfw.errors import BackendUnavailable, InvalidInput, NetfwError, OperationRefused
from netfw.model.address import Mac
from netfw.model.ids import NetworkId, PortId
from netfw.model.protocol import TCP
from netfw.plan import Operation, Plan, Stage, Update
from netfw.testing.conformance.firewall.environment import (
    Delivery,
    FirewallEnvironment,
    FirewallTestPort,
    PlugPoint,
)
from netfw.testing.conformance.firewall.packets import ECHO_REPLY, Flags, Packet, Sent
from netfw.testing.conformance.firewall.reference_model import passes

Policy = Mapping[FirewallKey, FirewallValue]
Connection = tuple[object, ...]
SENSELESS = {Flags.SYN | Flags.ACK, Flags.SYN | Flags.FIN, Flags.SYN | Flags.RST, Flags(0)}
WINDOW = 1 << 20


@define
class Machine:
    """What is there."""

    policy: dict[FirewallKey, FirewallValue] = field(factory=dict)
    in_force: Policy = field(factory=dict)
    """The policy as packets meet it, now."""
    connections: dict[Connection, Packet] = field(factory=dict)
    marks: set[str] = field(factory=set)
    foreign: bool = False
    online: bool = True
    lock: Lock = field(factory=Lock, repr=False)

    def answer(self) -> None:
        if not self.online:
            raise BackendUnavailable("the imaginary firewall is switched off")


class GoodFirewall(FirewallDriver, Reconciler[FirewallKey, FirewallValue, dict[Any, Any]]):
    """Its machine asks it what to do with each packet: that is where most of it can be broken."""

    VERSION: ClassVar[int] = 1
    CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset(
        {
            HostCapability.PLAN,
            FirewallCapability.FILTERING,
            FirewallCapability.SPOOF_GUARD,
            FirewallCapability.STATELESS_GROUPS,
            FirewallCapability.ADDRESS_GROUPS,
        }
    )

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: object) -> GoodFirewall:
        raise NotImplementedError

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("imaginary", self.CAPABILITIES)

    def present(self) -> frozenset[FirewallKey]:
        self.machine.answer()
        return frozenset(self.machine.policy)

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> dict[Any, Any]:
        self.machine.answer()
        return dict(self.machine.policy)

    def plan(self, update: Update[FirewallKey, FirewallValue], observed: dict[Any, Any]) -> Plan:
        refused = self.refusals(update)
        put = {key: value for key, value in update.put.items() if key not in refused}
        changed = {key: value for key, value in put.items() if observed.get(key) != value}
        gone = self.leaving(update, observed)
        return Plan(stages=self.stages(changed, gone, observed), refused=refused)

    def refusals(self, update: Update[FirewallKey, FirewallValue]) -> dict[Any, NetfwError]:
        found = {
            key: validation_error(key, value) or misplaced(value)
            for key, value in update.put.items()
        }
        return {key: error for key, error in found.items() if error is not None}

    def leaving(self, update: Update[Any, Any], observed: dict[Any, Any]) -> set[Any]:
        gone = set(update.drop)
        if update.complete:
            gone |= observed.keys() - update.put.keys() - update.keep
        return gone & observed.keys()

    def stages(self, put: Mapping[Any, Any], gone: set[Any], observed: Any) -> tuple[Stage, ...]:
        """All at once."""
        made = [operation(key, value) for key, value in put.items()]
        return staged([*made, *(operation(key, None) for key in sorted(gone, key=str))])

    def apply(self, plan: Plan, checkpoint: Any) -> None:
        self.machine.answer()
        for stage in plan.stages:
            self.carry_out(stage)
            checkpoint(stage)

    def carry_out(self, stage: Stage) -> None:
        with self.machine.lock:
            for each in stage.operations:
                key, value = each.payload
                if value is None:
                    if key not in self.machine.policy:
                        raise OperationRefused({each: "it is gone"})
                    del self.machine.policy[key]
                else:
                    self.machine.policy[key] = value

    @classmethod
    def in_force(cls, policy: Policy) -> Policy:
        """The policy as packets meet it."""
        return policy

    @classmethod
    def fate(cls, machine: Machine, delivery: Delivery) -> bool:
        """Whether it arrives."""
        sent, policy = delivery.sent, machine.in_force
        opened = None
        if isinstance(sent, Packet):
            here, back = cls.connection(delivery, sent), cls.connection(delivery, reverse(sent))
            asked = here if sent.about is None else cls.connection(delivery, sent.about)
            opened = machine.connections.get(back if sent.about is None else asked)
            if cls.is_invalid(machine, sent, here, opened):
                policy = without_state(policy)
        allowed = cls.passes(policy, sent, delivery, opened)
        if allowed and isinstance(sent, Packet) and opened is None:
            machine.connections.setdefault(here, sent)
        return allowed

    @classmethod
    def passes(cls, policy: Policy, sent: Sent, way: Delivery, opened: Packet | None) -> bool:
        return passes(policy, sent, way.sender.key, way.receiver.key, opened)

    @classmethod
    def connection(cls, way: Delivery, packet: Packet) -> Connection:
        """What tells one from another."""
        ends = packet.source, packet.target, packet.source_port, packet.target_port
        return way.sender.seat.network, packet.protocol, packet.identifier, *ends

    @classmethod
    def is_invalid(
        cls, machine: Machine, packet: Packet, here: Connection, opened: Packet | None
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
    """Whether *value* is a port that cannot be anywhere."""
    if not isinstance(value, FilteredPort):
        return None
    right = isinstance(value.network, UUID) and type(value.mac) is Mac
    return None if right else InvalidInput({"port": "its network or MAC is none"})


def without_state(policy: Policy) -> Policy:
    """What is left for packets that no connection could have."""
    stateful = {key for key, v in policy.items() if isinstance(v, Rules) and v.stateful}
    return {key: Rules() if key in stateful else value for key, value in policy.items()}


def operation(key: Any, value: Any) -> Operation:
    text = f"drop {key}" if value is None else f"put {key}"
    return Operation("mind", text, {key}, (key, value))


def staged(*stages: Iterable[Operation]) -> tuple[Stage, ...]:
    return tuple(Stage(tuple(stage)) for stage in map(tuple, stages) if stage)


class ImaginaryGround(FirewallEnvironment):
    """Where packets go where the driver's class says."""

    def __init__(self, kind: type[GoodFirewall]) -> None:
        self.kind, self.machine = kind, Machine()
        self.seats = tuple(
            PlugPoint(
                number=number,
                port=PortId(UUID(int=number + 1)),
                network=NetworkId(UUID(int=100 + number // 4)),
                device=f"tap{number}",
            )
            for number in range(6)
        )

    def make_driver(self) -> GoodFirewall:
        return self.kind(self.machine)

    def carry(self, deliveries: Iterable[Delivery]) -> tuple[bool, ...]:
        with self.machine.lock:
            self.machine.in_force = self.kind.in_force(self.machine.policy)
            return tuple(self.kind.fate(self.machine, delivery) for delivery in deliveries)

    def wire(self, ports: Mapping[FirewallTestPort, Any]) -> None:
        """There is no switch."""

    def picture(self) -> frozenset[str]:
        held = {f"{key} {value}" for key, value in self.machine.policy.items()}
        return frozenset(held | self.machine.marks)

    def lose_state(self) -> None:
        self.machine.policy.clear()
        self.machine.marks.clear()

    def make_foreign(self) -> None:
        self.machine.foreign = True

    def foreign_is_intact(self) -> bool:
        found, self.machine.foreign = self.machine.foreign, False
        return found

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.machine.online = False
        try:
            yield
        finally:
            self.machine.online = True
