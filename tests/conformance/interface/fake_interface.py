"""A machine of the mind, a driver for it that keeps every promise, and how the suite looks at it.

The broken drivers differ from this one in as little as it takes to break one promise.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from attrs import define, evolve, field, frozen

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.errors import BackendUnavailable, Conflict, NetfwError, NotFound, OperationRefused
from netfw.model.ids import PortId
from netfw.plan import Operation, Plan, Stage, Update
from netfw.testing.conformance.interface import InterfaceDriverConformance
from tests.conformance.common.fake_backend import OnImaginaryMachine


@define(slots=False)
class Machine:
    devices: dict[PortId, Attachment] = field(factory=dict)
    admitted: set[PortId] = field(factory=set)
    foreign: set[str] = field(factory=set)
    namespaces: set[str | None] = field(factory=lambda: {None})
    junk: set[str] = field(factory=set)
    online: bool = True

    def answer(self) -> None:
        if not self.online:
            raise BackendUnavailable("the machine is off")


@frozen
class Seen:
    devices: Mapping[PortId, Attachment]
    foreign: frozenset[str]
    namespaces: frozenset[str | None]


class GoodDriver(InterfaceDriver, Reconciler[PortId, Attachment, Seen]):
    CAPABILITIES = (
        HostCapability.PLAN,
        InterfaceCapability.NAMESPACES,
        InterfaceCapability.MTU_CHANGE,
    )

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(Machine, Machine))

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("imaginary", self.CAPABILITIES)

    def devices(self) -> Mapping[PortId, Device]:
        self.machine.answer()
        return {
            key: Device(name=value.device, mac=value.mac)
            for key, value in self.machine.devices.items()
        }

    def observe(self, scope: Update[PortId, Attachment] | None) -> Seen:
        self.machine.answer()
        machine = self.machine
        return Seen(
            dict(machine.devices), frozenset(machine.foreign), frozenset(machine.namespaces)
        )

    def plan(self, update: Update[PortId, Attachment], observed: Seen) -> Plan:
        refused = self.refusals(update, observed)
        put = {key: value for key, value in update.put.items() if key not in refused}
        removals = [self.operation("remove", key) for key in self.leaving(update, observed)]
        changes = [
            self.operation("put", key, value)
            for key, value in put.items()
            if observed.devices.get(key) != value
        ]
        renamed = [
            self.operation("remove", operation.payload[1])
            for operation in changes
            if self.is_renamed(observed, *operation.payload[1:])
        ]
        return Plan(
            stages=[Stage((operation,)) for operation in (*removals, *renamed, *changes)],
            refused=refused,
        )

    def leaving(self, update, observed) -> list[PortId]:
        gone = update.drop & observed.devices.keys()
        if update.complete:
            gone |= observed.devices.keys() - update.put.keys() - update.keep
        return sorted(gone)

    def is_renamed(self, observed: Seen, key: PortId, value: Attachment) -> bool:
        have = observed.devices.get(key)
        return have is not None and have.device != value.device

    def refusals(self, update, observed) -> dict[PortId, NetfwError]:
        refused: dict[PortId, NetfwError] = {}
        staying = {
            key: value
            for key, value in observed.devices.items()
            if key not in self.leaving(update, observed)
        }
        final = {**staying, **update.put}
        names = {value.device: key for key, value in reversed(final.items())}
        for key, value in update.put.items():
            if value.netns not in observed.namespaces:
                refused[key] = NotFound(f"there is no namespace {value.netns}")
            elif value.device in observed.foreign or names[value.device] != key:
                refused[key] = Conflict(f"{value.device} is taken")
        return refused

    def operation(self, verb: str, key: PortId, value: Attachment | None = None) -> Operation:
        return Operation("imaginary", f"{verb} {key}", frozenset({key}), (verb, key, value))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.machine.answer()
            for operation in stage.operations:
                self.carry_out(operation)
            checkpoint(stage)

    def carry_out(self, operation: Operation) -> None:
        verb, key, value = operation.payload
        if verb == "remove":
            self.machine.devices.pop(key, None)
            self.machine.admitted.discard(key)
        elif value.device in self.machine.foreign:
            raise OperationRefused({operation: "the name is taken"})
        else:
            self.machine.devices[key] = value


class ImaginaryConformance(OnImaginaryMachine, InterfaceDriverConformance):
    """Looks at the machine of the mind; ``DRIVER`` says whose driver is tried."""

    DRIVER: type[GoodDriver] = GoodDriver

    @contextmanager
    def drivers(self) -> Iterator[Callable[[], GoodDriver]]:
        """What makes drivers of a new machine; they are closed in the end."""
        self.machine = Machine()
        with ExitStack() as stack:

            def make() -> GoodDriver:
                return stack.enter_context(closing(self.DRIVER(self.machine)))

            yield make

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        found = self.machine.devices.get(key)
        if found is None and self.machine.junk:
            return evolve(value, mtu=1234)
        return found if found is not None and found.device == value.device else None

    def vanish(self, key: PortId, value: Attachment) -> None:
        del self.machine.devices[key]

    def make_namespace(self, name: str) -> None:
        self.machine.namespaces.add(name)

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        self.machine.admitted.add(port_id)

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return port_id in self.machine.admitted

    def drifts(self) -> Mapping[str, Callable[[PortId, Attachment], None]]:
        def spoil(key: PortId, value: Attachment) -> None:
            self.machine.devices[key] = evolve(value, mtu=1300)

        return {"another MTU": spoil, "gone": self.vanish}
