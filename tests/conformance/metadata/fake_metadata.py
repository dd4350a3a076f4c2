"""A fake metadata driver that keeps every promise, its backend in memory, and the suite on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import BytesIO
from ipaddress import ip_address
from itertools import count
from typing import cast

from attrs import define, evolve, field, frozen

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.metadata import IDENTIFYING, MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.events import ProcessDied
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import (
    BackendUnavailable,
    Conflict,
    InvalidInput,
    NetfwError,
    NotFound,
    OperationRefused,
)
from netfw.model.values.address import IpAddress
from netfw.plan import Operation, Outcome, Plan, Stage
from netfw.testing.conformance.metadata.recording_agent import requests_in
from netfw.testing.conformance.metadata.requests import ReceivedRequest
from netfw.testing.conformance.metadata.suite import LINK_LOCAL, MetadataDriverConformance

OWN = ip_address("10.0.0.2")
CLIENT = {4: ip_address("10.0.0.5"), 6: ip_address("fe80::5")}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nmetadata"
BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"

_LINE = re.compile(rb"(GET|HEAD|POST|PUT) /[!-~]* HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#-'*+.^-z|~A-Z0-9-]+):[ \t]*([\t -~]*)")

Headers = list[tuple[str, str]]


class FakeProxy:
    """A strict HTTP proxy: it refuses requests that can be read in more than one way."""

    LINK_LOCAL = True

    def serve(self, key: MetadataKey, source: IpAddress, data: bytes) -> tuple[bytes, bytes]:
        """Return the bytes for the agent and the bytes for the client."""
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
            if size and not self.may_have_body(lines[0]):
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
        """Return the length of the body, or ``None`` if the headers are ambiguous."""
        names = [plain(name) for name, _ in headers]
        lengths = [value for name, value in headers if plain(name) == "content-length"]
        if "transfer-encoding" in names or len(lengths) > 1:
            return None
        if not lengths:
            return 0
        return int(lengths[0]) if lengths[0].isdecimal() else None

    def may_have_body(self, line: bytes) -> bool:
        return line.startswith((b"POST ", b"PUT "))

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
class FakeMetadataBackend:
    processes: dict[MetadataKey, Process] = field(factory=dict)
    files: set[MetadataKey] = field(factory=set)
    foreign: set[MetadataProxy] = field(factory=set)
    namespaces: set[str] = field(factory=set)
    arrived: list[ReceivedRequest] = field(factory=list)
    drivers: list[FakeMetadataDriver] = field(factory=list)
    pids: Iterator[int] = field(factory=lambda: count(1))
    online: bool = True

    def check_online(self) -> None:
        if not self.online:
            raise BackendUnavailable("the backend is offline")

    def kill(self, key: MetadataKey) -> None:
        process = self.processes.pop(key)
        for driver in self.drivers:
            driver.on_death(key, process)


@frozen
class Observed:
    processes: Mapping[MetadataKey, Process]
    files: frozenset[MetadataKey]
    foreign: frozenset[MetadataProxy]
    namespaces: frozenset[str]


def listen_addresses(proxy: MetadataProxy) -> set[tuple[str, object, int]]:
    addresses: set[object] = {*(proxy.addresses or ("all",))}
    if proxy.device is not None:
        addresses.add(LINK_LOCAL)
    return {(proxy.netns, address, proxy.port) for address in addresses}


class FakeMetadataDriver(MetadataDriver, Reconciler[MetadataKey, MetadataProxy, Observed]):
    PROXY = FakeProxy()

    def __init__(self, backend: FakeMetadataBackend) -> None:
        self.backend = backend
        self.supervised: set[MetadataKey] = set()
        self.sinks: list[Callable] = []
        backend.drivers.append(self)

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(FakeMetadataBackend, FakeMetadataBackend))

    def describe(self) -> DriverInfo[HostCapability]:
        return DriverInfo("fake", {HostCapability.PLAN, HostCapability.WATCH})

    def watch(self, sink) -> None:
        self.sinks.append(sink)

    def close(self) -> None:
        self.supervised.clear()

    def present(self) -> frozenset[MetadataKey]:
        self.backend.check_online()
        return frozenset(self.backend.processes)

    def observe(self, scope) -> Observed:
        self.backend.check_online()
        backend = self.backend
        return Observed(
            dict(backend.processes),
            frozenset(backend.files),
            frozenset(backend.foreign),
            frozenset(backend.namespaces),
        )

    def plan(self, update, observed: Observed) -> Plan:
        removed, refused = self.removed_keys(update, observed), self.refusals(update, observed)
        changes = [
            key
            for key, proxy in update.put.items()
            if key not in refused and not self.fits(key, proxy, observed)
        ]
        stopping = [key for key in changes if key in observed.processes]
        operations = [self.operation("remove", key) for key in (*removed, *stopping)]
        operations += [self.operation("start", key, update.put[key]) for key in changes]
        return Plan(stages=[Stage((each,)) for each in operations], refused=refused)

    def fits(self, key, proxy, observed: Observed) -> bool:
        return key in observed.processes and observed.processes[key].proxy == proxy

    def removed_keys(self, update, observed: Observed) -> list[MetadataKey]:
        existing = observed.processes.keys() | observed.files
        gone = update.drop & existing
        if update.complete:
            gone |= existing - update.put.keys() - update.keep
        return sorted(gone, key=str)

    def refusals(self, update, observed: Observed) -> dict[MetadataKey, NetfwError]:
        refused: dict[MetadataKey, NetfwError] = {}
        removed = self.removed_keys(update, observed)
        taken = {address for proxy in observed.foreign for address in listen_addresses(proxy)}
        for key, process in observed.processes.items():
            if key not in removed and key not in update.put:
                taken |= listen_addresses(process.proxy)
        for key, proxy in update.put.items():
            if proxy.netns not in observed.namespaces:
                refused[key] = NotFound(f"there is no namespace {proxy.netns}")
            elif LINK_LOCAL in proxy.addresses and proxy.device is None:
                refused[key] = InvalidInput({"device": "is missing"})
            elif listen_addresses(proxy) & taken:
                refused[key] = Conflict("the address is in use")
            else:
                taken |= listen_addresses(proxy)
        return refused

    def operation(self, verb: str, key, proxy=None) -> Operation:
        return Operation("fake", f"{verb} {key}", {key}, (verb, key, proxy))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.backend.check_online()
            for operation in stage.operations:
                self.execute(operation)
            checkpoint(stage)

    def execute(self, operation: Operation) -> None:
        payload = cast(tuple[str, MetadataKey, MetadataProxy | None], operation.payload)
        verb, key, proxy = payload
        if verb == "remove":
            self.remove(key)
        elif any(
            listen_addresses(proxy) & listen_addresses(other) for other in self.backend.foreign
        ):
            raise OperationRefused({operation: "the address is in use"})
        else:
            self.start(key, proxy)

    def start(self, key, proxy) -> None:
        self.backend.processes[key] = Process(proxy, next(self.backend.pids))
        self.backend.files.add(key)

    def remove(self, key) -> None:
        self.supervised.discard(key)
        self.backend.processes.pop(key, None)
        self.backend.files.discard(key)

    def converge(self, update) -> Outcome[MetadataKey]:
        outcome = super().converge(update)
        self.supervise(outcome.done & update.put.keys(), update)
        return outcome

    def supervise(self, keys, update) -> None:
        self.supervised |= keys

    def on_death(self, key, process: Process) -> None:
        if key in self.supervised:
            for sink in self.sinks:
                sink(ProcessDied("it died", {key}))
            self.start(key, process.proxy)


class FakeMetadataConformance(MetadataDriverConformance):
    """The suite on the fake backend; ``DRIVER`` is the class of the drivers under test."""

    DRIVER: type[FakeMetadataDriver] = FakeMetadataDriver
    TIMEOUT = 0.05

    @contextmanager
    def drivers(self) -> Iterator[Callable[[], FakeMetadataDriver]]:
        """Yield a factory of drivers on a new backend; close them at the end."""
        self.backend = FakeMetadataBackend()
        with ExitStack() as stack:

            def make() -> FakeMetadataDriver:
                return stack.enter_context(closing(self.DRIVER(self.backend)))

            yield make

    def make_namespace(self, name: str) -> None:
        self.backend.namespaces.add(name)

    def listen_addresses(self, proxy: MetadataProxy) -> Collection[IpAddress]:
        return [*(proxy.addresses or (OWN,)), *([LINK_LOCAL] if proxy.device else [])]

    def source(self, proxy: MetadataProxy, address: IpAddress) -> IpAddress:
        return CLIENT[address.version]

    def ask(self, proxy: MetadataProxy, address: IpAddress, request: bytes) -> bytes:
        running = [key for key, each in self.backend.processes.items() if each.proxy == proxy]
        if not running or (address == LINK_LOCAL and not self.DRIVER.PROXY.LINK_LOCAL):
            return b""
        sent, answer = self.DRIVER.PROXY.serve(running[0], self.source(proxy, address), request)
        self.backend.arrived += requests_in(BytesIO(sent).read)
        return answer

    def received_requests(self) -> Collection[ReceivedRequest]:
        arrived, self.backend.arrived = self.backend.arrived, []
        return arrived

    def actual(self, key: MetadataKey, value: MetadataProxy) -> MetadataProxy | None:
        process = self.backend.processes.get(key)
        if process is not None:
            return process.proxy
        return evolve(value, port=1234) if key in self.backend.files else None

    def process_identity(self, key: MetadataKey, proxy: MetadataProxy) -> Hashable:
        return self.backend.processes[key].pid

    def kill(self, key: MetadataKey, proxy: MetadataProxy) -> None:
        self.backend.kill(key)

    def vanish(self, key: MetadataKey, value: MetadataProxy) -> None:
        del self.backend.processes[key]
        self.backend.files.discard(key)

    def traces(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        backend = self.backend
        return [f"{key}" for each in (backend.processes, backend.files) if key in each]

    def excess(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        return ["root"] if self.backend.processes[key].root else []

    def make_foreign(self, value: MetadataProxy) -> None:
        self.backend.foreign.add(value)

    def foreign_is_intact(self, value: MetadataProxy) -> bool:
        return value in self.backend.foreign

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.backend.online = False
        yield
        self.backend.online = True

    def drifts(self) -> Mapping[str, Callable[[MetadataKey, MetadataProxy], None]]:
        def spoil(key: MetadataKey, value: MetadataProxy) -> None:
            self.backend.processes[key] = Process(self.changed(value), next(self.backend.pids))

        return {"elsewhere": spoil, "gone": self.vanish}
