"""What passes between agents and a server: how much, whose, and what becomes of hints."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar

import pytest
from attrs import evolve

from netfw import request_id
from netfw.agents.common.replica import Replica
from netfw.drivers.state_source import Cursor, Delta
from netfw.drivers.transport import Caller, Message
from netfw.drivers.values import agent_requests
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult, RoleReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, RequestError
from netfw.model import Mac
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.state.dependencies import AgentRoot, reachable
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.state.rpc.codecs import REQUEST_CODECS
from netfw.state.rpc.notifications import make_notification, notification_topic
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.environment import Follower
from netfw.testing.conformance.state_source.recording import up
from netfw.testing.fakes.transport import FakeNetwork

R = TypeVar("R")
CLOUD = (*samples.BACKGROUND, samples.WEB_HERE)


@pytest.fixture
def wire() -> Iterator[FakeNetwork]:
    made = FakeNetwork()
    yield made
    made.close()


def offered(wire: FakeNetwork, source: MemorySource, budget: int = 256 * 1024) -> RemoteSource:
    StateRpcServer(source, wire.transport(), budget=budget).open()
    return RemoteSource(wire.transport(), timeout=5)


# How much.


@pytest.mark.spec("RPC-02")
def test_reconnecting_after_a_short_absence_costs_the_changes_and_not_the_whole(
    wire: FakeNetwork,
) -> None:
    ports = [
        samples.port(number, samples.HERE, samples.NET, samples.WEB) for number in range(6, 200)
    ]
    memory = MemorySource(*CLOUD, *ports)
    agent = Replica(offered(wire, memory), samples.L2_HERE)
    agent.pull()
    whole, calls = wire.bytes, sum(wire.calls.values())
    assert whole > 100_000
    memory.put(evolve(ports[0], name="renamed"))  # while it is away
    assert agent.pull().changes
    assert sum(wire.calls.values()) - calls == 1
    assert wire.bytes - whole < 2_500
    spent = wire.bytes
    agent.pull()
    assert wire.bytes - spent < 400


@pytest.mark.spec("RPC-02", "RPC-07")
def test_no_message_is_much_larger_than_its_budget(wire: FakeNetwork) -> None:
    largest = 0
    ports = [
        samples.port(number, samples.HERE, samples.NET, samples.WEB) for number in range(6, 60)
    ]
    memory = MemorySource(*CLOUD)
    source = offered(wire, memory, budget=4_000)
    handler = wire.handler("server")

    def measured(message: Message, caller: Caller) -> Message:
        nonlocal largest
        answer = handler(message, caller)
        largest = max(largest, len(answer.body))
        return answer

    wire.serve("server", measured)
    agent = Follower(source, samples.L2_HERE)
    agent.catch_up()
    memory.put(*ports)
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)
    assert wire.calls["changes"] > 10
    assert largest < 6_000


@pytest.mark.spec("RPC-02")
def test_changes_between_the_parts_of_a_large_answer_are_not_lost(wire: FakeNetwork) -> None:
    memory = MemorySource(*samples.BACKGROUND, page=50)
    source = offered(wire, memory, budget=1_500)
    agent = Follower(source, samples.L2_HERE)
    agent.catch_up()
    memory.put(*(samples.port(number, samples.HERE) for number in range(6, 40)))
    handler = wire.handler("server")
    chance = random.Random(1)

    def busy(message: Message, caller: Caller) -> Message:
        answer = handler(message, caller)
        if wire.calls["changes"] < 40:
            number = chance.randrange(6, 40)
            moved = samples.port(number, chance.choice([samples.HERE, samples.THERE]))
            memory.put(evolve(moved, name=str(wire.calls["changes"])))
        return answer

    wire.serve("server", busy)
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)


# Restarts.


@pytest.mark.spec("RPC-02")
def test_a_snapshot_goes_on_with_another_process_of_the_server(wire: FakeNetwork) -> None:
    memory = MemorySource(*CLOUD)
    source = offered(wire, memory, budget=1_000)
    agent = Follower(source, samples.L2_HERE)
    agent.step()
    agent.step()
    StateRpcServer(memory, wire.transport(), budget=1_000).open()
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)
    assert wire.calls["snapshot"] < 20


@pytest.mark.spec("RPC-02")
def test_a_server_that_comes_back_with_another_history_is_read_from_the_beginning(
    wire: FakeNetwork,
) -> None:
    old, new = MemorySource(*CLOUD), MemorySource(samples.WEB_HERE, samples.OTHER_NET)
    source = offered(wire, old, budget=1_000)
    handler = wire.handler("server")

    def restarted(message: Message, caller: Caller) -> Message:
        if wire.calls["snapshot"] == 3:
            StateRpcServer(new, wire.transport(), budget=1_000).open()
        return handler(message, caller)

    wire.serve("server", restarted)
    agent = Replica(source, samples.L2_HERE)
    agent.pull()
    assert agent.resources == reachable(new.items(), samples.L2_HERE)


def test_a_server_that_goes_away_in_a_snapshot_leaves_the_agent_as_it_was(
    wire: FakeNetwork,
) -> None:
    agent = Replica(offered(wire, MemorySource(*CLOUD), budget=1_000), samples.L2_HERE)
    handler = wire.handler("server")

    def dying(message: Message, caller: Caller) -> Message:
        if wire.calls["snapshot"] == 3:
            raise BackendUnavailable("going down")
        return handler(message, caller)

    wire.serve("server", dying)
    with pytest.raises(BackendUnavailable):
        agent.pull()
    assert not agent.resources
    wire.calls["snapshot"] = 100
    agent.pull()
    assert ref(samples.WEB_HERE) in agent.resources


# Hints.


@pytest.mark.spec("RPC-02")
@pytest.mark.parametrize("kind", ["lost", "doubled", "late"])
def test_lost_doubled_and_late_notifications_are_harmless(wire: FakeNetwork, kind: str) -> None:
    chance = random.Random(3)
    late: list[Message] = []

    def deliver(message: Message) -> Iterator[Message]:
        if kind == "lost":
            yield from () if chance.random() < 0.6 else (message,)
        elif kind == "doubled":
            yield from (message, message, message)
        else:
            late.append(message)
            if len(late) > 5:
                yield late.pop(chance.randrange(len(late)))

    memory = MemorySource(*samples.BACKGROUND)
    source = offered(wire, memory)
    wire.fate = deliver
    agent, hinted = Follower(source, samples.L2_HERE), threading.Event()
    stop = source.watch(samples.L2_HERE, hinted.set)
    agent.catch_up()
    for turn in range(60):
        host = chance.choice([samples.HERE, samples.THERE])
        memory.put(samples.port(chance.randrange(6, 12), host, samples.NET, samples.WEB))
        if turn % 7 == 0 and hinted.wait(0.02):
            hinted.clear()
            agent.catch_up()
    stop()
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)


def _settled(wire: FakeNetwork) -> None:
    """Wait until everything published so far arrived."""
    arrived = threading.Event()
    stop = wire.subscribe("end", lambda _: arrived.set())
    assert arrived.wait(5)
    stop()


@pytest.mark.spec("RPC-02")
def test_one_of_several_servers_notifications_is_forwarded(wire: FakeNetwork) -> None:
    source = RemoteSource(wire.transport())
    hints: list[None] = []
    source.watch(samples.L2_HERE, lambda: hints.append(None))
    _settled(wire)
    hints.clear()
    root, everywhere = AgentRoot(Service.L2, samples.HERE), AgentRoot(Service.L2, "")
    for cursor in (Cursor("e", 5), Cursor("e", 5), Cursor("e", 4), Cursor("e", 6)):
        wire.publish(make_notification(root, cursor))
        wire.publish(make_notification(everywhere, cursor))
    _settled(wire)
    assert len(hints) == 2
    wire.publish(make_notification(root, Cursor("restored", 1)))
    wire.publish(make_notification(root, None))
    _settled(wire)
    assert len(hints) == 4
    source.close()
    wire.publish(make_notification(root, Cursor("e", 9)))
    _settled(wire)
    assert len(hints) == 4


def test_notification_topics_are_short_and_unique_per_host() -> None:
    assert notification_topic(AgentRoot(Service.L2, "compute-7")) == "l2.compute-7"
    long = [AgentRoot(Service.POPULATION, "h" * 200 + end) for end in "ab"]
    assert len({notification_topic(each) for each in long}) == 2
    assert max(len(notification_topic(each)) for each in long) <= 100


class Announcer(MemorySource):
    """Says whom commits concern, and cannot be watched."""

    tell: Any = None

    def announce(self, tell: Any) -> Any:
        self.tell = tell
        return lambda: None

    def watch(self, subscription: Any, hint: Any) -> Any:
        raise AssertionError("no agent is watched by itself")


def test_notifications_go_to_concerned_roots_without_subscribers_too(wire: FakeNetwork) -> None:
    source = Announcer(samples.WEB_HERE)
    offered(wire, source).changes(samples.L2_HERE, next(source.snapshot(samples.L2_HERE)).cursor)
    source.tell(
        Cursor("e", 1), frozenset({AgentRoot(Service.L2, "a"), AgentRoot(Service.DHCP, "b")})
    )
    assert wire.hints == {"l2.a": 1, "dhcp.b": 1}
    source.tell(Cursor("e", 2), None)
    assert {"l2.", "dhcp.", "l3.", "population."} <= wire.hints.keys()


# Whose.


@pytest.mark.spec("RPC-06")
def test_whose_credentials_are_those_of_a_host_speaks_for_that_host_alone(
    wire: FakeNetwork,
) -> None:
    memory = MemorySource(*CLOUD)
    StateRpcServer(memory, wire.transport()).open()
    here = RemoteSource(wire.transport(Caller("agent", host=samples.HERE)), timeout=5)
    next(here.snapshot(samples.L2_HERE))
    here.report([Heartbeat(agent=evolve(samples.AGENT_THERE, host=samples.HERE))])
    port = memory.resource(ref(samples.DB_THERE))
    cursor = next(memory.snapshot(samples.L2_HERE)).cursor
    subnets = frozenset({samples.SUBNET.id})
    for forbidden in (
        lambda: next(here.snapshot(samples.L2_THERE)),
        lambda: here.changes(samples.L2_THERE, cursor),
        lambda: here.report([up(port, samples.THERE)]),
        lambda: here.report([Heartbeat(agent=samples.AGENT_THERE)]),
        lambda: here.request(
            EnsureDhcpPort(network=samples.NET.id, host=samples.THERE, subnets=subnets)
        ),
    ):
        with pytest.raises(RequestError, match="may speak for host here and not for host there"):
            forbidden()
    assert memory.status(ref(samples.DB_THERE)) is None


# What.


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
    (EnsureHostMac("h"), Mac("fa:16:3f:00:00:01")),
    (EnabledServices(), frozenset({"router", "qos"})),
    (SetPrefix(subnet=SUBNET, prefix=ip_network("2001:db8:1::/64")), None),
    (SetPrefix(subnet=SUBNET, prefix=None), None),
    (ResolveDevices(ports=frozenset({PORT.id})), (PORT,)),
)


@pytest.mark.spec("RPC-04")
@pytest.mark.parametrize(("question", "answer"), QUESTIONS, ids=lambda each: type(each).__name__)
def test_every_request_and_its_answer_arrive_as_they_were(
    wire: FakeNetwork, question: Request[Any], answer: Any
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
def test_every_report_arrives_as_it_was_however_many_there_are(wire: FakeNetwork) -> None:
    oracle = Oracle()
    router = ref(samples.ROUTER)
    reports: list[Report] = [
        evolve(up(PORT, "h"), reason="first line\nsecond line"),
        RoleReport(ref=router, revision=4, host="h", role=HaRole.STANDBY),
        Heartbeat(agent=samples.AGENT_THERE, counts={"devices": 3}, start=True),
    ]
    reports += [evolve(up(PORT, "h"), revision=number) for number in range(1200)]
    offered(wire, oracle).report(reports)
    assert oracle.heard == reports
    assert wire.calls["report"] == 3


@pytest.mark.spec("RPC-03")
def test_agent_considered_dead_gets_resync_from_any_part_of_its_report(wire: FakeNetwork) -> None:
    class Undertaker(Oracle):
        def report(self, reports: Any) -> ReportResult:
            super().report(reports)
            return ReportResult(resync=any(isinstance(each, Heartbeat) for each in reports))

    source = offered(wire, Undertaker())
    many: list[Report] = [evolve(up(PORT, "h"), revision=number) for number in range(1200)]
    assert source.report(many) == ReportResult(resync=False)
    assert source.report([Heartbeat(agent=samples.AGENT_THERE), *many]) == ReportResult(resync=True)


@pytest.mark.spec("RPC-07")
def test_the_id_of_a_request_follows_it_to_the_server(wire: FakeNetwork) -> None:
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


def test_a_slow_server_is_not_waited_for_longer_than_said(wire: FakeNetwork) -> None:
    release = threading.Event()

    def slow(message: Message, caller: Caller) -> Message:
        release.wait(5)
        return message

    wire.serve("server", slow)
    began = time.monotonic()
    with pytest.raises(BackendUnavailable):
        next(RemoteSource(wire.transport(), timeout=0.1).snapshot(samples.L2_HERE))
    assert time.monotonic() - began < 4
    release.set()
