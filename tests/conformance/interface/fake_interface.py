"""A fake interface driver that keeps every promise, its backend in memory, and the suite on it."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import cast

from attrs import define, evolve, field, frozen

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.events import KeysChanged, Sink
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendUnavailable, Conflict, NetfwError, NotFound, OperationRefused
from netfw.model.values.ids import PortId
from netfw.plan import Operation, Plan, Stage, Update
from netfw.testing.conformance.interface import InterfaceDriverConformance
from netfw.testing.conformance.watch.machine_state import IDENTITY, MachineState
from tests.conformance.common.fake_backend import FakeBackendHooks


@define(slots=False)
class FakeInterfaceBackend:
    devices: dict[PortId, Attachment] = field(factory=dict)
    admitted: set[PortId] = field(factory=set)
    foreign: set[str] = field(factory=set)
    namespaces: set[str | None] = field(factory=lambda: {None})
    junk: set[str] = field(factory=set)
    initialized: set[Service] = field(factory=set)
    sinks: list[Sink] = field(factory=list)
    helpers: set[str] = field(factory=set)
    """Devices that serve those of ports."""
    bystanders: set[str] = field(factory=set)
    """Ports of other programs on the same bridge."""
    identities: dict[PortId, int] = field(factory=dict)
    bounced: list[str] = field(factory=list)
    """Devices that were down for a moment."""
    numbers: Iterator[int] = field(factory=itertools.count)
    online: bool = True
    refuses: bool = False
    """It refuses every change."""

    def machine(self) -> MachineState:
        devices = {
            f"device {value.device}": {IDENTITY: self.identities.get(key), "value": str(value)}
            for key, value in self.devices.items()
        }
        others = self.helpers | self.bystanders | self.foreign
        return MachineState({**devices, **{f"device {name}": {} for name in others}})

    def check_online(self) -> None:
        if not self.online:
            raise BackendUnavailable("the backend is offline")


@frozen
class Observed:
    devices: Mapping[PortId, Attachment]
    foreign: frozenset[str]
    namespaces: frozenset[str | None]


class FakeInterfaceDriver(InterfaceDriver, Reconciler[PortId, Attachment, Observed]):
    CAPABILITIES = (
        HostCapability.PLAN,
        HostCapability.WATCH,
        InterfaceCapability.NAMESPACES,
        InterfaceCapability.MTU_CHANGE,
    )

    def __init__(self, backend: FakeInterfaceBackend) -> None:
        self.backend = backend

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(FakeInterfaceBackend, FakeInterfaceBackend))

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def devices(self) -> Mapping[PortId, Device]:
        self.backend.check_online()
        return {
            key: Device(name=value.device, mac=value.mac, wired=key in self.backend.admitted)
            for key, value in self.backend.devices.items()
        }

    def mark_initialized(self, service: Service) -> None:
        self.backend.check_online()
        self.backend.initialized.add(service)

    def watch(self, sink: Sink) -> None:
        self.backend.sinks.append(sink)

    def observe(self, scope: Update[PortId, Attachment] | None) -> Observed:
        self.backend.check_online()
        return Observed(
            dict(self.backend.devices),
            frozenset(self.backend.foreign),
            frozenset(self.backend.namespaces),
        )

    def plan(self, update: Update[PortId, Attachment], observed: Observed) -> Plan:
        refused = self.refusals(update, observed)
        put = {key: value for key, value in update.put.items() if key not in refused}
        removals = [self.operation("remove", key) for key in self.removed_keys(update, observed)]
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

    def removed_keys(self, update, observed) -> list[PortId]:
        gone = update.drop & observed.devices.keys()
        if update.complete:
            gone |= observed.devices.keys() - update.put.keys() - update.keep
        return sorted(gone)

    def is_renamed(self, observed: Observed, key: PortId, value: Attachment) -> bool:
        have = observed.devices.get(key)
        return have is not None and have.device != value.device

    def refusals(self, update, observed) -> dict[PortId, NetfwError]:
        refused: dict[PortId, NetfwError] = {}
        staying = {
            key: value
            for key, value in observed.devices.items()
            if key not in self.removed_keys(update, observed)
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
        return Operation("fake", f"{verb} {key}", frozenset({key}), (verb, key, value))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.backend.check_online()
            for operation in stage.operations:
                self.execute(operation)
            checkpoint(stage)

    def execute(self, operation: Operation) -> None:
        verb, key, value = cast(tuple[str, PortId, Attachment | None], operation.payload)
        if self.backend.refuses:
            raise OperationRefused({operation: "Operation not permitted"})
        if verb == "remove":
            self.backend.devices.pop(key, None)
            self.backend.identities.pop(key, None)
            self.backend.admitted.discard(key)
        elif value.device in self.backend.foreign:
            raise OperationRefused({operation: "the name is taken"})
        else:
            self.backend.devices[key] = value
            self.backend.identities.setdefault(key, next(self.backend.numbers))


class FakeInterfaceConformance(FakeBackendHooks, InterfaceDriverConformance):
    """The suite on the fake backend; ``DRIVER`` is the class of the drivers under test."""

    backend: FakeInterfaceBackend
    DRIVER: type[FakeInterfaceDriver] = FakeInterfaceDriver
    REMOVAL_TIMEOUT = 0.0

    @contextmanager
    def drivers(self) -> Iterator[Callable[[], FakeInterfaceDriver]]:
        """Yield a factory of drivers on a new backend; close them at the end."""
        self.backend = FakeInterfaceBackend()
        with ExitStack() as stack:

            def make() -> FakeInterfaceDriver:
                return stack.enter_context(closing(self.DRIVER(self.backend)))

            yield make

    def machine(self) -> MachineState:
        return self.backend.machine()

    @contextmanager
    def bounced(self) -> Iterator[list[str]]:
        self.backend.bounced.clear()
        yield self.backend.bounced

    @contextmanager
    def bystanders(self) -> Iterator[None]:
        self.backend.bystanders.add("of-another")
        yield

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        device = self.backend.devices.get(key)
        if device is None and self.backend.junk:
            return evolve(value, mtu=1234)
        return device if device is not None and device.device == value.device else None

    def vanish(self, key: PortId, value: Attachment) -> None:
        del self.backend.devices[key]
        for sink in self.backend.sinks:
            sink(KeysChanged("gone", {key}))

    def make_namespace(self, name: str) -> None:
        self.backend.namespaces.add(name)

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        self.backend.admitted.add(port_id)
        for sink in self.backend.sinks:
            sink(KeysChanged("admitted", {port_id}))

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return port_id in self.backend.admitted

    def initialized_services(self) -> Collection[Service]:
        return self.backend.initialized

    def drifts(self) -> Mapping[str, Callable[[PortId, Attachment], None]]:
        def spoil(key: PortId, value: Attachment) -> None:
            self.backend.devices[key] = evolve(value, mtu=1300)

        return {"another MTU": spoil, "gone": self.vanish}
