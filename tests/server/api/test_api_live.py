"""What the live page reads: who sees what, how much, and what is said of packets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from netfw.drivers.state_source import Cursor
from netfw.errors import BackendUnavailable
from netfw.http.event_streams import EventStreams, StreamSettings
from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.api.live import topology, visible_rules
from netfw.server.api.live.page import ChangeSource, LivePage
from netfw.server.api.request_body import RequestLimits
from netfw.server.core.context import ServerContext
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, Reply, api
from tests.server.core.agent_samples import beat, grow_old

pytestmark = pytest.mark.spec("DRV-50")
SCRIPT = "<script>alert(1)</script>"


class Commits:
    """The commits of a database that the test announces."""

    def __init__(self) -> None:
        self.cursor = Cursor("epoch", 7)
        self.listeners: list[Any] = []

    def listen(self, listener: Any) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def commit(self) -> None:
        self.cursor = Cursor(self.cursor.epoch, self.cursor.seq + 1)
        for each in tuple(self.listeners):
            each(self.cursor, None)


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def streams() -> EventStreams:
    return EventStreams(StreamSettings(most=2, most_per_owner=1))


@pytest.fixture
def client(
    plugins: list[HandlerPlugin], commits: Commits, streams: EventStreams, request: Any
) -> Client:
    """A client; the parameter is the largest page."""
    changes = ChangeSource(cursor=lambda: commits.cursor, listen=commits.listen)
    routers = RouterPlugin(plugins[0].context)
    limits = RequestLimits(page=getattr(request, "param", None))
    return api([*plugins, routers], limits=limits, live=LivePage(changes, streams))


@pytest.fixture
def context(plugins: list[HandlerPlugin]) -> ServerContext:
    return plugins[0].context


@pytest.fixture
def admin(client: Client) -> Client:
    return client.as_("ops/admin")


def read(client: Client, path: str, /, **query: Any) -> Reply:
    return client.raw("GET", f"/live/{path}", query=urlencode(query))


def shown(client: Client, path: str = "topology", /, **query: Any) -> dict[str, Any]:
    reply = read(client, path, **query)
    assert reply.status == 200, reply.data
    return dict(reply.json)


def make_subnet(client: Client, network: str, number: int) -> dict[str, Any]:
    cidr = f"10.0.{number}.0/24"
    return client.make("subnets", network_id=network, cidr=cidr, ip_version=4)


def two_ports(client: Client, **attributes: Any) -> tuple[str, str]:
    network = client.network(name="green")["id"]
    make_subnet(client, network, 1)
    made = [client.make("ports", network_id=network, name=n, **attributes) for n in ("a", "b")]
    return made[0]["id"], made[1]["id"]


def steps(trace: dict[str, Any]) -> dict[str, str]:
    return {step["title"]: step["state"] for step in trace["steps"]}


def test_a_tenant_sees_its_own_resources_and_no_hosts(
    client: Client, admin: Client, context: ServerContext
) -> None:
    HeartbeatHandler(context)([beat("node1")])
    two_ports(client)
    admin.network(name="secret")
    own = shown(client)
    assert [each["name"] for each in own["networks"]] == ["green"]
    assert {each["name"] for each in own["ports"]} == {"a", "b"}
    assert (own["agents"], own["hidden"], own["admin"]) == ([], ["agents"], False)
    assert not {"host", "binding"} & own["ports"][0].keys()
    everything = shown(admin)
    assert {each["name"] for each in everything["networks"]} == {"green", "secret"}
    assert everything["agents"][0]["host"] == "node1"
    assert everything["hidden"] == []
    assert not shown(client.as_("bob/member"))["ports"]


def test_without_an_identity_there_are_files_and_no_data(client: Client) -> None:
    nobody = client.as_("")
    for path in ("topology", "events", "trace", "explain"):
        assert read(nobody, path).status == 401
    assert nobody.raw("GET", "/live/index.html").status == 200


def test_the_page_may_load_and_request_nothing_from_elsewhere(client: Client) -> None:
    page = client.as_("").raw("GET", "/live/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    again = client.raw("GET", "/live/", HTTP_IF_NONE_MATCH=page.headers["ETag"])
    assert (again.status, again.data) == (304, b"")
    assert client.raw("GET", "/live").headers["Location"] == "live/"
    assert client.raw("POST", "/live/").status == 405


@pytest.mark.parametrize("path", ["../page.py", "static_files.py", "%2e%2e/page.py", "x/y", ".."])
def test_other_files_are_not_served(client: Client, path: str) -> None:
    assert client.raw("GET", f"/live/{path}").status == 404


def test_a_server_without_the_page_has_nothing_there(plugins: list[HandlerPlugin]) -> None:
    plain = api(plugins)
    assert plain.raw("GET", "/live/").status == 404
    assert plain.raw("GET", "/live/topology").status == 404


def test_an_unchanged_topology_is_not_sent_again(client: Client) -> None:
    two_ports(client)
    first = read(client, "topology")
    tag = {"HTTP_IF_NONE_MATCH": first.headers["ETag"]}
    assert client.raw("GET", "/live/topology", **tag).status == 304
    client.network(name="new")
    assert client.raw("GET", "/live/topology", **tag).status == 200
    assert first.headers["Cache-Control"] == "no-store"


def test_a_topology_is_cut_off_and_says_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    two_ports(client)
    monkeypatch.setattr(topology, "LIMITS", {**topology.LIMITS, "ports": 1})
    found = shown(client)
    assert len(found["ports"]) == 1
    assert found["more"] == {"ports": 1}


def test_the_ports_of_one_network_are_chosen(client: Client) -> None:
    two_ports(client)
    other = client.network(name="blue")["id"]
    assert len(shown(client)["ports"]) == 2
    assert shown(client, network_id=other)["ports"] == []
    assert shown(client, network_id="x' or 1=1")["ports"] == []


def test_names_are_data(client: Client) -> None:
    client.network(name=SCRIPT)
    reply = read(client, "topology")
    assert reply.json["networks"][0]["name"] == SCRIPT
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


def test_agents_show_how_far_they_are_behind(
    client: Client, admin: Client, context: ServerContext
) -> None:
    report = HeartbeatHandler(context)
    report([beat("node1", counts={"lag_seconds": 12, "failing": 2, "waiting": 1}), beat("node2")])
    grow_old(context, "node2", 1000)
    one, two = sorted(shown(admin)["agents"], key=lambda each: each["host"])
    assert (one["alive"], one["lag_seconds"], one["failing"], one["waiting"]) == (True, 12, 2, 1)
    assert two["alive"] is False
    assert two["heartbeat"]


def test_the_reason_of_a_port_is_that_of_netfw_explain(client: Client, admin: Client) -> None:
    port, _ = two_ports(client)
    found = shown(admin, "explain", kind="port", id=port)
    assert found["blocked"] is True
    assert "It is bound to no host" in found["reasons"][0]["text"]
    own = shown(client, "explain", kind="port", id=port)
    assert "shown to administrators" in own["reasons"][0]["text"]
    assert read(client.as_("bob/member"), "explain", kind="port", id=port).status == 404
    assert read(client, "explain", kind="network", id=port).status == 400


def test_no_agent_is_said_to_be_missing_to_a_tenant(client: Client, context: ServerContext) -> None:
    router = client.make("routers", name="r")["id"]
    HeartbeatHandler(context)([beat("node1", L3_AGENT)])
    texts = [each["text"] for each in shown(client, "explain", kind="router", id=router)["reasons"]]
    assert "Its L3 agents are shown to administrators only." in texts
    assert not any("No L3 agent" in text for text in texts)


def test_a_trace_is_decided_by_the_rules_of_both_ports(client: Client) -> None:
    a, b = two_ports(client)
    group = client.list("security-groups")[0]["id"]
    trace = shown(client, "trace", **{"from": a, "to": b})
    assert trace["should_arrive"] is True
    assert trace["is_down"] is True
    assert re.fullmatch(r"icmp from 10\.0\.1\.\d+ to 10\.0\.1\.\d+", trace["packet"])
    assert list(steps(trace).values()) == ["down", "allowed", "allowed", "allowed", "down"]
    assert "(default)" in trace["steps"][3]["lines"][0]
    assert trace["command"] == f"netfw trace {a} {b}"
    for rule in client.list("security-group-rules", direction="ingress"):
        assert client.delete(f"security-group-rules/{rule['id']}").status == 204
    denied = shown(client, "trace", **{"from": a, "to": b, "protocol": "tcp", "port": 80})
    assert denied["should_arrive"] is False
    assert steps(denied)["ingress of port b: security groups"] == "denied"
    assert denied["command"].endswith("--protocol tcp --port 80")
    client.make(
        "security-group-rules", security_group_id=group, direction="ingress", protocol="tcp",
        port_range_min=80, port_range_max=80, remote_group_id=group,
    )  # fmt: skip
    found = shown(client, "trace", **{"from": a, "to": b, "protocol": "tcp", "port": 80})
    assert found["should_arrive"] is True
    assert (
        shown(client, "trace", **{"from": a, "to": b, "protocol": "tcp", "port": 81})[
            "should_arrive"
        ]
        is False
    )


@pytest.mark.parametrize("client", [3], indirect=True)
def test_a_trace_says_that_not_all_rules_and_members_were_read(client: Client) -> None:
    a, b = two_ports(client)
    own, remote = (client.make("security-groups", name=name)["id"] for name in ("own", "remote"))
    assert client.put(f"ports/{b}", {"port": {"security_groups": [own]}}).status == 200
    rule = {"security_group_id": own, "direction": "ingress", "remote_group_id": remote}
    client.make("security-group-rules", **rule)
    question = {"from": a, "to": b}
    step = shown(client, "trace", **question)["steps"][3]
    assert (step["state"], step["lines"][-1]) == ("unknown", lacks("rules", own)), "three of three"
    (network,) = (each["id"] for each in client.list("networks"))
    egress = client.list("security-group-rules", security_group_id=own, direction="egress")
    for each in egress:
        assert client.delete(f"security-group-rules/{each['id']}").status == 204
    assert shown(client, "trace", **question)["steps"][3]["state"] == "denied"
    for _ in range(4):
        client.make("ports", network_id=network, security_groups=[remote])
    step = shown(client, "trace", **question)["steps"][3]
    assert (step["state"], step["lines"][-1]) == ("unknown", lacks("ports", remote))
    joined = {"port": {"security_groups": [remote, own]}}
    assert client.put(f"ports/{a}", joined).status == 200
    assert shown(client, "trace", **question)["steps"][3]["state"] == "allowed"


def lacks(what: str, group: str) -> str:
    return f"{what} of security group {group} beyond the first 3 are not read"


def test_a_trace_reads_the_ports_of_a_few_groups(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible_rules, "MOST_REMOTE_GROUPS", 1)
    a, b = two_ports(client)
    own = client.make("security-groups", name="own")["id"]
    assert client.put(f"ports/{b}", {"port": {"security_groups": [own]}}).status == 200
    rule = {"security_group_id": own, "direction": "ingress"}
    for name in ("x", "y"):
        group = client.make("security-groups", name=name)["id"]
        client.make("security-group-rules", remote_group_id=group, **rule)
    step = shown(client, "trace", **{"from": a, "to": b})["steps"][3]
    assert step["state"] == "unknown"
    assert "the rules name more than 1 groups" in step["lines"][-1]


def test_a_trace_crosses_a_router_that_connects_both_networks(client: Client) -> None:
    a, _ = two_ports(client)
    blue = client.network(name="blue")["id"]
    subnet = make_subnet(client, blue, 2)["id"]
    c = client.make("ports", network_id=blue, name="c")["id"]
    question = {"from": a, "to": c}
    alone = shown(client, "trace", **question)
    assert alone["should_arrive"] is None
    assert "no router that is visible here" in str(alone["steps"])
    router = client.make("routers", name="r")["id"]
    first = next(each["id"] for each in client.list("subnets") if each["cidr"] == "10.0.1.0/24")
    join = f"routers/{router}/add_router_interface"
    assert client.put(join, {"subnet_id": first}).status == 200
    halfway = shown(client, "trace", **question)
    assert halfway["should_arrive"] is False
    assert "neither an interface on network blue nor a route" in str(halfway["steps"])
    assert client.put(join, {"subnet_id": subnet}).status == 200
    whole = shown(client, "trace", **question)
    assert whole["should_arrive"] is True
    assert "network blue" in steps(whole)
    client.put(f"routers/{router}", {"router": {"admin_state_up": False}})
    assert shown(client, "trace", **question)["should_arrive"] is False


def test_ports_of_others_are_not_traced(client: Client) -> None:
    a, b = two_ports(client)
    bob = client.as_("bob/member")
    assert read(bob, "trace", **{"from": a, "to": b}).status == 404


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ({}, "from"),
        ({"from": "a", "to": "b", "protocol": "x"}, "protocol"),
        ({"from": "a", "to": "b", "protocol": "tcp"}, "port"),
        ({"from": "a", "to": "b", "protocol": "tcp", "port": "65536"}, "port"),
        ({"from": "a", "to": "b", "version": "5"}, "version"),
    ],
)
def test_wrong_questions_are_refused(client: Client, query: dict[str, str], wrong: str) -> None:
    reply = read(client, "trace", **query)
    assert reply.status == 400
    assert wrong in reply.error["message"]


def test_a_stream_listens_to_commits_only_while_there_is_one(
    client: Client, commits: Commits, streams: EventStreams
) -> None:
    handed: list[Any] = []
    opened = client.raw("GET", "/live/events", **{"netfw.hand_over": handed.append})
    assert opened.status == 200
    assert opened.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "Content-Length" not in opened.headers
    assert len(commits.listeners) == 1
    refused = client.raw("GET", "/live/events", **{"netfw.hand_over": handed.append})
    assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
    commits.commit()
    assert len(commits.listeners) == 1
    handed[0].release()
    commits.commit()
    assert commits.listeners == []
    streams.close()


def test_an_event_does_not_say_how_many_commits_there_are(
    client: Client, commits: Commits, streams: EventStreams
) -> None:
    client.raw("GET", "/live/events", **{"netfw.hand_over": lambda stream: None})
    first = streams.newest
    commits.commit()
    assert streams.newest != first
    assert len(first) == 16
    assert "epoch" not in first
    streams.close()


def test_statuses_that_agents_report_are_events(client: Client, streams: EventStreams) -> None:
    page = client.app._live
    assert page is not None
    page.note_reports()
    assert streams.newest == ""  # nobody looks
    handed: list[Any] = []
    client.raw("GET", "/live/events", **{"netfw.hand_over": handed.append})
    first = streams.newest
    page.note_reports()
    second = streams.newest
    assert second != first
    handed[0].release()
    page.note_reports()
    client.raw("GET", "/live/events", **{"netfw.hand_over": handed.append})
    assert streams.newest != second, "a client that was away is told"
    streams.close()


def test_a_stream_listens_after_a_failure_of_the_one_before(
    client: Client, commits: Commits, streams: EventStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed = {"netfw.hand_over": lambda stream: None}
    with monkeypatch.context() as broken:
        changes = ChangeSource(cursor=lambda: commits.cursor, listen=refuse_to_listen)
        broken.setattr(client.app._live, "_changes", changes)
        assert client.raw("GET", "/live/events", **handed).status == 503
    assert client.raw("GET", "/live/events", **handed).status == 200
    assert len(commits.listeners) == 1
    streams.close()


def refuse_to_listen(listener: Any) -> Callable[[], None]:
    raise BackendUnavailable("the database does not answer")


def test_another_http_server_has_no_streams(client: Client) -> None:
    assert read(client, "events").status == 501
