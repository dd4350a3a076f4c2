"""Requests and reports of agents over RPC."""

from __future__ import annotations

import threading
import time
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest
from attrs import evolve

from netfw import request_id
from netfw.drivers.state_source import Cursor, Delta
from netfw.drivers.support.message_limits import REQUEST_SIZE
from netfw.drivers.transport import Caller, Message
from netfw.drivers.values import agent_requests
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult, RoleReport
from netfw.drivers.values.subscription import Subscription
from netfw.errors import BackendUnavailable
from netfw.model import Mac
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource
from netfw.state.rpc.codecs import REQUEST_CODECS
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.reader_steps import up
from netfw.testing.fakes.transport import FakeBroker
from tests.unit.state.rpc.environment import offered

R = TypeVar("R")


class Oracle(MemorySource):
    """Answers everything, and remembers what it was asked and told."""

    def __init__(self, answer: Any = None) -> None:
        super().__init__()
        self.answer = answer
        self.heard: list[Any] = []
        self.trails: list[str] = []

    def request(self, request: Request[R]) -> R:
        self.heard.append(request)
        return self.answer  # type: ignore[no-any-return]

    def report(self, reports: Any) -> ReportResult:
        self.heard += reports
        return ReportResult()

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        self.trails.append(request_id.current())
        return super().changes(subscription, since)


NET, SUBNET, PORT = samples.NET.id, samples.SUBNET.id, samples.WEB_HERE
QUESTIONS: tuple[tuple[Request[Any], Any], ...] = (
    (EnsureDhcpPort(network=NET, host="h", subnets=frozenset({SUBNET})), PORT),
    (ReleaseDhcpPort(network=NET, host="h"), None),
    (FindPorts(address=ip_address("10.0.0.7"), network=NET), (PORT, samples.OTHER_HOST_PORT)),
    (FindPorts(address=ip_address("2001:db8::7"), router=samples.ROUTER.id), ()),
    (EnsureGatewayPort(network=NET, host="h"), PORT),
    (ReleaseGatewayPort(network=NET, host="h"), None),
    (EnsureHostMac("h"), Mac("fa:16:3f:00:00:01")),
    (EnabledServices(), frozenset({"router", "qos"})),
    (
        SetPrefix(router=samples.ROUTER.id, subnet=SUBNET, prefix=ip_network("2001:db8:1::/64")),
        None,
    ),
    (SetPrefix(router=samples.ROUTER.id, subnet=SUBNET, prefix=None), None),
    (ResolveDevices(ports=frozenset({PORT.id})), (PORT,)),
)


@pytest.mark.spec("RPC-04")
@pytest.mark.parametrize(("question", "answer"), QUESTIONS, ids=lambda each: type(each).__name__)
def test_every_request_and_its_answer_arrive_as_they_were(
    wire: FakeBroker, question: Request[Any], answer: Any
) -> None:
    oracle = Oracle(answer)
    assert offered(wire, oracle).request(question) == answer
    assert oracle.heard == [question]


def test_every_kind_of_request_is_tested_here() -> None:
    kinds = {
        each
        for each in vars(agent_requests).values()
        if isinstance(each, type) and issubclass(each, Request) and each is not Request
    }
    assert {type(each) for each, _ in QUESTIONS} == kinds
    assert {each.request.cls for each in REQUEST_CODECS} == kinds


@pytest.mark.spec("RPC-03")
def test_every_report_arrives_as_it_was_however_many_there_are(wire: FakeBroker) -> None:
    oracle = Oracle()
    router = ref(samples.ROUTER)
    role = RoleReport(
        ref=router, revision=4, host="h", role=HaRole.STANDBY, boot=UUID(int=3), since=2**60
    )
    reports: list[Report] = [
        evolve(up(PORT, "h"), reason="first line\nsecond line"),
        role,
        Heartbeat(agent=samples.AGENT_THERE, counts={"devices": 3}, start=True),
    ]
    reports += [evolve(up(PORT, "h"), revision=number) for number in range(1200)]
    offered(wire, oracle).report(reports)
    assert oracle.heard == reports
    arrived = cast(RoleReport, oracle.heard[1])
    assert (arrived.boot, arrived.since) == (role.boot, role.since)
    assert wire.calls["report"] == 3


@pytest.mark.spec("RPC-03")
def test_reports_with_long_reasons_are_no_longer_than_a_server_accepts(
    wire: FakeBroker,
) -> None:
    oracle = Oracle()
    reason = "; ".join(f"flow {number}: refused" for number in range(10_000))
    reports = [evolve(up(PORT, "h"), revision=number, reason=reason) for number in range(500)]
    offered(wire, oracle).report(reports)
    assert wire.bytes < REQUEST_SIZE
    assert [each.revision for each in oracle.heard] == [*range(500)]
    assert all(reason.startswith(each.reason) and each.reason for each in oracle.heard)


@pytest.mark.spec("RPC-03")
def test_agent_considered_dead_gets_resync_from_any_part_of_its_report(
    wire: FakeBroker,
) -> None:
    class Undertaker(Oracle):
        def report(self, reports: Any) -> ReportResult:
            super().report(reports)
            return ReportResult(resync=any(isinstance(each, Heartbeat) for each in reports))

    source = offered(wire, Undertaker())
    many: list[Report] = [evolve(up(PORT, "h"), revision=number) for number in range(1200)]
    assert source.report(many) == ReportResult(resync=False)
    assert source.report([Heartbeat(agent=samples.AGENT_THERE), *many]) == ReportResult(resync=True)


@pytest.mark.spec("RPC-07")
def test_the_id_of_a_request_follows_it_to_the_server(wire: FakeBroker) -> None:
    oracle = Oracle()
    source = offered(wire, oracle)
    cursor = next(oracle.snapshot(samples.L2_HERE)).cursor
    with request_id.bind("req-7"):
        source.changes(samples.L2_HERE, cursor)
    source.changes(samples.L2_HERE, cursor)
    named, made = oracle.trails
    assert named == "req-7"
    assert made.startswith("req-")
    assert made != named


def test_a_slow_server_is_not_waited_for_longer_than_said(wire: FakeBroker) -> None:
    release = threading.Event()

    def slow(message: Message, caller: Caller) -> Message:
        release.wait(60)
        return message

    wire.serve("server", slow)
    began = time.monotonic()
    with pytest.raises(BackendUnavailable):
        next(RemoteSource(wire.transport(), timeout=0.1).snapshot(samples.L2_HERE))
    assert time.monotonic() - began < 4
    release.set()
