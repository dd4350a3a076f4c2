"""An agent and a server of releases next to each other understand each other."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.transport import Caller, Handler, Message
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendBroken, InvalidInput, NetfwError, NotSupported
from netfw.model import QosPolicy
from netfw.model.resource import Kind, ref
from netfw.model.wire import render
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.state.rpc.compat import PeerCompatibility
from netfw.testing.conformance.state_source import samples
from netfw.testing.fakes.transport import FakeBroker

SOMEBODY = Caller("somebody")


class Listening(MemorySource):
    """Remembers what was reported."""

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self.reported: list[Report] = []

    def report(self, reports: Any) -> ReportResult:
        self.reported += reports
        return ReportResult()


@pytest.fixture
def wire() -> Iterator[FakeBroker]:
    made = FakeBroker()
    yield made
    made.close()


def served(
    wire: FakeBroker, source: MemorySource, alter: Callable[[Message], Message]
) -> RemoteSource:
    """Return a client of a server whose answers are altered as another release would send them."""
    rpc_server = StateRpcServer(source, wire.transport())

    def handler(message: Message, caller: Caller) -> Message:
        return alter(rpc_server.handle(message, caller))

    wire.serve("server", handler)
    return RemoteSource(wire.transport(), timeout=60)


def altered(message: Message, change: Callable[[dict[str, Any]], None]) -> Message:
    content = json.loads(message.body)
    change(content)
    return evolve(message, body=json.dumps(content).encode(), version="1.7")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.spec("RPC-05")
def test_a_newer_server_says_more_and_the_agent_takes_what_it_knows(
    wire: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def say_more(content: dict[str, Any]) -> None:
        content["mood"] = "fine"
        for kind, body in content["put"]:
            body["shade"] = "green"
            if kind == "port":
                body["fixed_ips"][0]["lease"] = 7
                body["binding:vif_details"]["speed"] = 9
        content["put"].append(["hologram", {"id": "x"}])
        content["drop"].append(["hologram", "x"])

    memory = MemorySource(*samples.BACKGROUND, samples.WEB_HERE)
    source = served(wire, memory, lambda message: altered(message, say_more))
    for _ in range(2):
        (page,) = source.snapshot(samples.L2_HERE)
        received = {ref(each): each for each in page.put}
        assert received.keys() == {*map(ref, samples.WITH_WEB_HERE), ref(samples.AGENT_THERE)}
        assert received[ref(samples.SUBNET)] == memory.resource(ref(samples.SUBNET))
        port: Any = received[ref(samples.WEB_HERE)]
        assert port.fixed_ips == samples.WEB_HERE.fixed_ips
        assert port.binding.vif_details.other.content() == {"speed": 9}
    logged = warnings(caplog)
    assert sum("hologram" in each for each in logged) == 1
    assert sum("subnet" in each and "shade" in each for each in logged) == 1


@pytest.mark.spec("RPC-05")
def test_what_has_a_value_of_a_later_release_is_skipped_and_said_once(
    wire: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Check that a rule with an unknown protocol does not become a rule for all protocols."""

    def invent(content: dict[str, Any]) -> None:
        for kind, body in content["put"]:
            if kind == "security_group_rule":
                body["protocol"] = "telepathy"

    memory = MemorySource(*samples.BACKGROUND, samples.WEB_HERE)
    source = served(wire, memory, lambda message: altered(message, invent))
    for _ in range(2):
        (page,) = source.snapshot(samples.L2_HERE)
        kinds = {ref(each).kind for each in page.put}
        assert Kind.PORT in kinds
        assert Kind.SECURITY_GROUP_RULE not in kinds
    assert sum(str(samples.FROM_DB.id) in each for each in warnings(caplog)) == 1


def test_a_rule_of_a_policy_that_is_of_an_unknown_kind_is_left_out() -> None:
    body: dict[str, Any] = {**render(QosPolicy(id=samples.QOS.id)), "rules": [{"type": "silence"}]}
    found: Any = PeerCompatibility("the server").resource("policy", body)
    assert found.rules == ()


@pytest.mark.spec("RPC-05")
def test_an_older_server_says_less(wire: FakeBroker) -> None:
    def say_less(content: dict[str, Any]) -> None:
        for kind, body in content["put"]:
            if kind == "port":
                del body["propagate_uplink_status"]

    source = served(
        wire, MemorySource(samples.WEB_HERE), lambda message: altered(message, say_less)
    )
    (page,) = source.snapshot(samples.L2_HERE)
    assert [ref(each) for each in page.put] == [ref(samples.WEB_HERE)]


@pytest.mark.spec("RPC-05")
def test_another_major_version_is_refused_by_both_sides(wire: FakeBroker) -> None:
    source = served(wire, MemorySource(), lambda message: evolve(message, version="2.0"))
    with pytest.raises(NotSupported, match=r"server speaks version 2\.0 .* this side version 1\."):
        next(source.snapshot(samples.L2_HERE))
    rpc_server = StateRpcServer(MemorySource(), wire.transport())
    with pytest.raises(NotSupported, match=r"agent of somebody speaks version 2\.3"):
        rpc_server.handle(Message(topic="server", method="changes", version="2.3"), SOMEBODY)


def handle_call(rpc_server: StateRpcServer, method: str, **content: Any) -> dict[str, Any]:
    message = Message(
        topic="server", method=method, version="1.9", body=json.dumps(content).encode()
    )
    answer: dict[str, Any] = json.loads(rpc_server.handle(message, SOMEBODY).body)
    return answer


@pytest.mark.spec("RPC-03", "RPC-05")
def test_unknown_report_attributes_of_a_newer_agent_are_ignored(
    wire: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    source = Listening()
    rpc_server = StateRpcServer(source, wire.transport())
    agent = {**render(samples.AGENT_THERE), "temperature": 40}
    agent["configurations"] = {**agent["configurations"], "holograms": True}
    heartbeat = {"type": "heartbeat", "agent": agent, "counts": {"devices": 1}, "pulse": 70}
    for _ in range(2):
        handle_call(
            rpc_server, "report", reports=[{"type": "dream", "of": "sheep"}, heartbeat], mood="fine"
        )
    heard = source.reported[0]
    assert len(source.reported) == 2
    assert isinstance(heard, Heartbeat)
    assert heard.agent.configurations.content()["holograms"] is True
    assert heard.counts == {"devices": 1}
    assert sum("dream" in each for each in warnings(caplog)) == 1


@pytest.mark.spec("RPC-05")
def test_unreadable_report_does_not_affect_others(wire: FakeBroker) -> None:
    source = Listening()
    rpc_server = StateRpcServer(source, wire.transport())
    counts: dict[str, Any] = {"devices": 1, "x" * 1000: 1, "large": 10**4000, "text": "1"}
    counts |= {f"n{number}": number for number in range(1000)}
    heartbeat = {"type": "heartbeat", "agent": render(samples.AGENT_THERE), "counts": counts}
    strange = [{"type": ["x"]}, {"type": {}}, {"type": None}, {}, ["type"], 7]
    handle_call(rpc_server, "report", reports=[*strange, heartbeat, *strange])
    (heard,) = source.reported
    assert isinstance(heard, Heartbeat)
    assert heard.counts["devices"] == 1
    assert len(heard.counts) == 100
    assert not heard.counts.keys() & {"x" * 1000, "large", "text"}
    with pytest.raises(InvalidInput, match="more than 5000 at once"):
        handle_call(rpc_server, "report", reports=[{}] * 5001)


@pytest.mark.spec("RPC-05")
def test_unknown_request_of_a_newer_agent_is_not_supported(wire: FakeBroker) -> None:
    rpc_server = StateRpcServer(MemorySource(samples.WEB_HERE), wire.transport())
    with pytest.raises(NotSupported, match="ensure_hologram"):
        handle_call(rpc_server, "ask", request="ensure_hologram", about={})
    with pytest.raises(NotSupported, match="whisper"):
        handle_call(rpc_server, "whisper")
    subscription = {"host": samples.HERE, "services": ["l2", "holograms"], "colour": "red"}
    assert len(handle_call(rpc_server, "snapshot", subscription=subscription)["put"]) == 1


def test_an_answer_that_cannot_be_read_is_the_servers_fault(wire: FakeBroker) -> None:
    bodies = [b"", b"[]", b"\xff", b'{"put": [], "cursor": 3}']
    for body in bodies:
        source = served(wire, MemorySource(), lambda message, b=body: evolve(message, body=b))
        with pytest.raises(BackendBroken, match="cannot be read"):
            next(source.snapshot(Subscription("h", {Service.L2})))


def test_a_request_that_no_release_knows_is_not_supported(wire: FakeBroker) -> None:
    class Wonder(Request[None]):
        pass

    source = served(wire, MemorySource(), lambda message: message)
    with pytest.raises(NotSupported, match="Wonder"):
        source.request(Wonder())


def test_what_is_no_message_is_refused_and_breaks_nothing(wire: FakeBroker) -> None:
    rpc_server: Handler = StateRpcServer(MemorySource(), wire.transport()).handle
    nonsense: list[Any] = [None, 3, [], {}, "x", {"host": 3}, [[]], {"type": "status"}]
    for method in ("snapshot", "changes", "report", "ask"):
        for key in ("subscription", "since", "after", "reports", "request", "about"):
            for value in nonsense:
                body = json.dumps(
                    {"subscription": {"host": "h", "services": []}, key: value}
                ).encode()
                with suppress(NetfwError):
                    rpc_server(Message(topic="server", method=method, body=body), SOMEBODY)
    with pytest.raises(InvalidInput):
        rpc_server(Message(topic="server", method="ask", body=b"{" * 100_000), SOMEBODY)
