"""What the live page reads: who sees what, how much, and what is said of packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from netfw.errors import BackendUnavailable
from netfw.http.event_streams import EventStreams
from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.api.live import topology
from netfw.server.api.live.own_api import OwnApi
from netfw.server.api.live.page import ChangeSource
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.server_context import ServerContext
from tests.server.api.environment import Client, api
from tests.server.api.live.environment import Commits, read, shown, two_ports
from tests.server.core.agent_samples import beat, grow_old

pytestmark = pytest.mark.spec("DRV-50")
SCRIPT = "<script>alert(1)</script>"


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


@pytest.mark.parametrize("client", [2], indirect=True)
def test_a_topology_has_more_than_one_page(client: Client) -> None:
    network = client.network()["id"]
    made = {client.make("ports", network_id=network)["id"] for _ in range(5)}
    found = shown(client)
    assert {port["id"] for port in found["ports"]} == made
    assert found["more"] == {}


@pytest.mark.parametrize("client", [2], indirect=True)
def test_a_row_deleted_between_two_pages_leaves_the_rest_unread(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = client.network()["id"]
    for _ in range(5):
        client.make("ports", network_id=network)
    get = OwnApi._get

    def delete_last(api: OwnApi, parts: tuple[str, ...], parameters: Any) -> dict[str, Any]:
        body = get(api, parts, parameters)
        if parts == ("ports",):
            assert client.delete(f"ports/{body['ports'][-1]['id']}").status == 204
        return body

    monkeypatch.setattr(OwnApi, "_get", delete_last)
    found = shown(client)
    assert len(found["ports"]) == 2
    assert found["more"] == {"ports": topology.LIMITS["ports"]}


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
    report([beat("node1", counts={"lag_seconds": 12, "degraded": 2, "waiting": 1}), beat("node2")])
    grow_old(context, "node2", 1000)
    one, two = sorted(shown(admin)["agents"], key=lambda each: each["host"])
    assert (one["alive"], one["lag_seconds"], one["degraded"], one["waiting"]) == (True, 12, 2, 1)
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
