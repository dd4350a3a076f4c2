"""A machine of the mind with metadata proxies, a driver for it that keeps every promise, and how
the suite looks at it.  The broken drivers differ from this one in as little as it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import BytesIO
from ipaddress import ip_address
from itertools import count

from attrs import define, evolve, field, frozen

from netfw.drivers.base import DriverInfo
from netfw.drivers.events import ProcessDied
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.keys import NetworkKey
from netfw.drivers.metadata import IDENTIFYING, MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.errors import (
    BackendUnavailable,
    Conflict,
    InvalidInput,
    NetfwError,
    NotFound,
    OperationRefused,
)
from netfw.model.address import IpAddress
from netfw.plan import Operation, Outcome, Plan, Stage
from netfw.testing.conformance.metadata.recording_agent import requests_in
from netfw.testing.conformance.metadata.requests import Arrival
from netfw.testing.conformance.metadata.suite import LINK_LOCAL, MetadataDriverConformance

OWN = ip_address("10.0.0.2")
GUEST = {4: ip_address("10.0.0.5"), 6: ip_address("fe80::5")}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nmetadata"
BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"

_LINE = re.compile(rb"(GET|HEAD|POST|PUT) /[!-~]* HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#-'*+.^-z|~A-Z0-9-]+):[ \t]*([\t -~]*)")

Headers = list[tuple[str, str]]


class ProxyOfTheMind:
    """What a proxy does with the bytes of a guest: strict, so that there is one way to read it."""

    LINK_LOCAL = True

    def serve(self, key: MetadataKey, source: IpAddress, data: bytes) -> tuple[bytes, bytes]:
        """What is sent to the agent, and what is answered."""
        sent = answered = b""
        while data:
            head, separator, rest = data.partition(b"\r\n\r\n")
            lines = head.split(b"\r\n")
            found = [_HEADER.fullmatch(line) for line in lines[1:]]
            if not separator or not _LINE.fullmatch(lines[0]) or None in found or len(head) > 9999:
                return sent, answered + BAD
            headers = [(each[1].decode(), each[2].decode()) for each in found if each]
            size = self.length(headers)
            if size is None or len(rest) < size:
                return sent, answered + BAD
            body, data = rest[:size], rest[size:]
            out = [*self.clean(headers), *self.own(key, source)]
            text = "".join(f"{name}: {value}\r\n" for name, value in out)
            sent += lines[0] + b"\r\n" + text.encode() + b"\r\n" + self.body(body)
            answered += OK
            if ("connection", "close") in [(n.lower(), v.lower()) for n, v in headers]:
                return sent, answered
        return sent, answered

    def length(self, headers: Headers) -> int | None:
        """How long the body is; ``None``: there is more than one way to read it."""
        names = [plain(name) for name, _ in headers]
        lengths = [value for name, value in headers if plain(name) == "content-length"]
        if "transfer-encoding" in names or len(lengths) > 1:
            return None
        if not lengths:
            return 0
        return int(lengths[0]) if lengths[0].isdecimal() else None

    def clean(self, headers: Headers) -> Headers:
        return [
            (name, value)
            for name, value in headers
            if plain(name) not in {*IDENTIFYING, "connection", "upgrade"} and "_" not in name
        ]

    def own(self, key: MetadataKey, source: IpAddress) -> Headers:
        return [("X-Forwarded-For", str(source)), self.identity(key)]

    def identity(self, key: MetadataKey) -> tuple[str, str]:
        if isinstance(key, NetworkKey):
            return "X-Neutron-Network-ID", str(key.network)
        return "X-Neutron-Router-ID", str(key.router)

    def body(self, body: bytes) -> bytes:
        return body


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


@frozen
class Process:
    proxy: MetadataProxy
    pid: int
    root: bool = False


@define(slots=False)
class Machine:
    processes: dict[MetadataKey, Process] = field(factory=dict)
    files: set[MetadataKey] = field(factory=set)
    foreign: set[MetadataProxy] = field(factory=set)
    namespaces: set[str] = field(factory=set)
    arrived: list[Arrival] = field(factory=list)
    drivers: list[GoodMetadataDriver] = field(factory=list)
    pids: Iterator[int] = field(factory=lambda: count(1))
    online: bool = True

    def answer(self) -> None:
        if not self.online:
            raise BackendUnavailable("the machine is off")

    def kill(self, key: MetadataKey) -> None:
        process = self.processes.pop(key)
        for driver in self.drivers:
            driver.on_death(key, process)


@frozen
class Seen:
    processes: Mapping[MetadataKey, Process]
    files: frozenset[MetadataKey]
    foreign: frozenset[MetadataProxy]
    namespaces: frozenset[str]


def places(proxy: MetadataProxy) -> set[tuple[str, object, int]]:
    addresses: set[object] = {*(proxy.addresses or ("all",))}
    if proxy.device is not None:
        addresses.add(LINK_LOCAL)
    return {(proxy.netns, address, proxy.port) for address in addresses}


class GoodMetadataDriver(MetadataDriver, Reconciler[MetadataKey, MetadataProxy, Seen]):
    PROXY = ProxyOfTheMind()

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.kept: set[MetadataKey] = set()
        self.sinks: list[Callable] = []
        machine.drivers.append(self)

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(Machine, Machine))

    def describe(self) -> DriverInfo[HostCapability]:
        return DriverInfo("imaginary", {HostCapability.PLAN, HostCapability.WATCH})

    def watch(self, sink) -> None:
        self.sinks.append(sink)

    def close(self) -> None:
        self.kept.clear()

    def present(self) -> frozenset[MetadataKey]:
        self.machine.answer()
        return frozenset(self.machine.processes)

    def observe(self, scope) -> Seen:
        self.machine.answer()
        machine = self.machine
        return Seen(
            dict(machine.processes),
            frozenset(machine.files),
            frozenset(machine.foreign),
            frozenset(machine.namespaces),
        )

    def plan(self, update, observed: Seen) -> Plan:
        leaving, refused = self.leaving(update, observed), self.refusals(update, observed)
        changes = [
            key
            for key, proxy in update.put.items()
            if key not in refused and not self.fits(key, proxy, observed)
        ]
        stopping = [key for key in changes if key in observed.processes]
        operations = [self.operation("remove", key) for key in (*leaving, *stopping)]
        operations += [self.operation("start", key, update.put[key]) for key in changes]
        return Plan(stages=[Stage((each,)) for each in operations], refused=refused)

    def fits(self, key, proxy, observed: Seen) -> bool:
        return key in observed.processes and observed.processes[key].proxy == proxy

    def leaving(self, update, observed: Seen) -> list[MetadataKey]:
        there = observed.processes.keys() | observed.files
        gone = update.drop & there
        if update.complete:
            gone |= there - update.put.keys() - update.keep
        return sorted(gone, key=str)

    def refusals(self, update, observed: Seen) -> dict[MetadataKey, NetfwError]:
        refused: dict[MetadataKey, NetfwError] = {}
        leaving = self.leaving(update, observed)
        taken = {place for proxy in observed.foreign for place in places(proxy)}
        for key, process in observed.processes.items():
            if key not in leaving and key not in update.put:
                taken |= places(process.proxy)
        for key, proxy in update.put.items():
            if proxy.netns not in observed.namespaces:
                refused[key] = NotFound(f"there is no namespace {proxy.netns}")
            elif LINK_LOCAL in proxy.addresses and proxy.device is None:
                refused[key] = InvalidInput({"device": "is missing"})
            elif places(proxy) & taken:
                refused[key] = Conflict("somebody listens there")
            else:
                taken |= places(proxy)
        return refused

    def operation(self, verb: str, key, proxy=None) -> Operation:
        return Operation("imaginary", f"{verb} {key}", {key}, (verb, key, proxy))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.machine.answer()
            for operation in stage.operations:
                self.carry_out(operation)
            checkpoint(stage)

    def carry_out(self, operation: Operation) -> None:
        verb, key, proxy = operation.payload
        if verb == "remove":
            self.remove(key)
        elif any(places(proxy) & places(other) for other in self.machine.foreign):
            raise OperationRefused({operation: "somebody listens there"})
        else:
            self.start(key, proxy)

    def start(self, key, proxy) -> None:
        self.machine.processes[key] = Process(proxy, next(self.machine.pids))
        self.machine.files.add(key)

    def remove(self, key) -> None:
        self.kept.discard(key)
        self.machine.processes.pop(key, None)
        self.machine.files.discard(key)

    def converge(self, update) -> Outcome[MetadataKey]:
        outcome = super().converge(update)
        self.keep(outcome.done & update.put.keys(), update)
        return outcome

    def keep(self, keys, update) -> None:
        self.kept |= keys

    def on_death(self, key, process: Process) -> None:
        if key in self.kept:
            for sink in self.sinks:
                sink(ProcessDied("it died", {key}))
            self.start(key, process.proxy)


class ImaginaryMetadataConformance(MetadataDriverConformance):
    """Looks at the machine of the mind; ``DRIVER`` says whose driver is tried."""

    DRIVER: type[GoodMetadataDriver] = GoodMetadataDriver
    PATIENCE = 0.05

    @contextmanager
    def drivers(self) -> Iterator[Callable[[], GoodMetadataDriver]]:
        """What makes drivers of a new machine; they are closed in the end."""
        self.machine = Machine()
        with ExitStack() as stack:

            def make() -> GoodMetadataDriver:
                return stack.enter_context(closing(self.DRIVER(self.machine)))

            yield make

    def make_namespace(self, name: str) -> None:
        self.machine.namespaces.add(name)

    def doors(self, proxy: MetadataProxy) -> Collection[IpAddress]:
        return [*(proxy.addresses or (OWN,)), *([LINK_LOCAL] if proxy.device else [])]

    def source(self, proxy: MetadataProxy, door: IpAddress) -> IpAddress:
        return GUEST[door.version]

    def ask(self, proxy: MetadataProxy, door: IpAddress, request: bytes) -> bytes:
        there = [key for key, each in self.machine.processes.items() if each.proxy == proxy]
        if not there or (door == LINK_LOCAL and not self.DRIVER.PROXY.LINK_LOCAL):
            return b""
        sent, answer = self.DRIVER.PROXY.serve(there[0], self.source(proxy, door), request)
        self.machine.arrived += requests_in(BytesIO(sent).read)
        return answer

    def arrivals(self) -> Collection[Arrival]:
        arrived, self.machine.arrived = self.machine.arrived, []
        return arrived

    def actual(self, key: MetadataKey, value: MetadataProxy) -> MetadataProxy | None:
        found = self.machine.processes.get(key)
        if found is not None:
            return found.proxy
        return evolve(value, port=1234) if key in self.machine.files else None

    def process_identity(self, key: MetadataKey, proxy: MetadataProxy) -> Hashable:
        return self.machine.processes[key].pid

    def kill(self, key: MetadataKey, proxy: MetadataProxy) -> None:
        self.machine.kill(key)

    def vanish(self, key: MetadataKey, value: MetadataProxy) -> None:
        del self.machine.processes[key]
        self.machine.files.discard(key)

    def traces(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        machine = self.machine
        return [f"{key}" for each in (machine.processes, machine.files) if key in each]

    def excess(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        return ["root"] if self.machine.processes[key].root else []

    def make_foreign(self, value: MetadataProxy) -> None:
        self.machine.foreign.add(value)

    def foreign_is_intact(self, value: MetadataProxy) -> bool:
        return value in self.machine.foreign

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.machine.online = False
        yield
        self.machine.online = True

    def drifts(self) -> Mapping[str, Callable[[MetadataKey, MetadataProxy], None]]:
        def spoil(key: MetadataKey, value: MetadataProxy) -> None:
            self.machine.processes[key] = Process(self.changed(value), next(self.machine.pids))

        return {"elsewhere": spoil, "gone": self.vanish}
