"""Packet logs, as administrators use them."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.security_groups.packet_logs import PacketLogPlugin
from tests.server.api.environment import Client, api
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-07")

NOBODY = "00000000-0000-0000-0000-000000000001"
LOGS = "log/logs"
IN_SWITCH = ["filtering", "in-switch"]


@pytest.fixture
def alice(plugins: list[HandlerPlugin]) -> Client:
    return api([*plugins, PacketLogPlugin(plugins[0].context)])


@pytest.fixture
def admin(alice: Client) -> Client:
    return alice.as_("root/admin")


def make(client: Client, **attributes: Any) -> dict[str, Any]:
    reply = client.post(LOGS, {"log": {"resource_type": "security_group", **attributes}})
    assert reply.status == 201, reply.data
    made: dict[str, Any] = reply.json["log"]
    return made


def refused(client: Client, **attributes: Any) -> str:
    body = {"resource_type": "security_group", **attributes}
    reply = client.post(LOGS, {"log": body})
    assert reply.status >= 400, reply.data
    return f"{reply.status} {reply.error['type']}"


def report(plugins: list[HandlerPlugin], host: str, **configurations: Any) -> None:
    """Report a live L2 agent."""
    reported = {"bridge_mappings": {}, **configurations}
    HeartbeatHandler(plugins[0].context)([beat(host, **reported)])


def test_the_life_of_a_log(alice: Client, admin: Client) -> None:
    group = alice.make("security-groups", name="web")["id"]
    made = make(admin, name="web", resource_id=group, description="who is it")
    assert (made["event"], made["enabled"], made["target_id"]) == ("ALL", True, None)
    own = f"{LOGS}/{made['id']}"
    assert admin.get(own).json == {"log": made}
    changed = admin.put(own, {"log": {"enabled": False, "name": "off"}}).json["log"]
    assert (changed["enabled"], changed["name"]) == (False, "off")
    assert admin.put(own, {"log": {"event": "DROP"}}).status == 400
    listed = admin.get(LOGS, resource_id=group).json["logs"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert admin.delete(own).status == 204
    change = {"log": {"enabled": True}}
    for missing in (
        admin.get(own),
        admin.put(own, change),
        admin.delete(own),
        admin.get(f"{LOGS}/x"),
    ):
        assert (missing.status, missing.error["type"]) == (404, "LogResourceNotFound")


def test_the_types_are_listed(alice: Client, admin: Client) -> None:
    types = admin.get("log/loggable-resources")
    assert types.json == {"loggable_resources": [{"type": "security_group"}]}
    assert alice.get("log/loggable-resources").json == {"loggable_resources": []}


def test_prefixed_paths_are_found_only_with_their_prefix(admin: Client) -> None:
    assert admin.get("logs").status == 404
    assert admin.get("log").status == 404
    assert admin.get("log/ports").status == 404
    assert admin.get("log/logs/x/y").status == 404
    links = {each["name"]: each["links"][0]["href"] for each in admin.get("").json["resources"]}
    assert links["log"].endswith("/v2.0/log/logs")


def test_only_administrators_log(alice: Client, admin: Client) -> None:
    assert refused(alice).startswith("403")
    made = make(admin)
    assert alice.get(f"{LOGS}/{made['id']}").status in (403, 404)
    assert alice.get(LOGS).json == {"logs": []}


def test_wrong_logs_are_refused(alice: Client, admin: Client) -> None:
    assert refused(admin, resource_type="network") == "400 InvalidLogResourceType"
    assert refused(admin, event="NONE").startswith("400")
    assert refused(admin, resource_id=NOBODY) == "404 SecurityGroupNotFound"
    assert refused(admin, target_id=NOBODY) == "404 PortNotFound"
    group = alice.make("security-groups", name="web")["id"]
    port = alice.make("ports", network_id=alice.network()["id"])["id"]
    both = {"resource_id": group, "target_id": port}
    assert refused(admin, **both) == "400 InvalidResourceConstraint"
    joined = alice.put(f"ports/{port}", {"port": {"security_groups": [group]}})
    assert joined.status == 200
    make(admin, **both, event="DROP")


def test_a_log_ends_with_its_port_or_group(alice: Client, admin: Client) -> None:
    group = alice.make("security-groups", name="web")["id"]
    port = alice.make("ports", network_id=alice.network()["id"])["id"]
    of_group, of_port = make(admin, resource_id=group), make(admin, target_id=port)
    assert alice.delete(f"security-groups/{group}").status == 204
    assert admin.get(f"{LOGS}/{of_group['id']}").status == 404
    assert admin.get(f"{LOGS}/{of_port['id']}").status == 200
    assert alice.delete(f"ports/{port}").status == 204
    assert admin.get(LOGS).json == {"logs": []}


def test_a_log_is_refused_where_no_host_logs(
    plugins: list[HandlerPlugin], alice: Client, admin: Client
) -> None:
    make(admin)
    report(plugins, "bridges", extensions=["packet_log"], firewall_capabilities=["filtering"])
    report(plugins, "plain", extensions=["dhcp"], firewall_capabilities=IN_SWITCH)
    assert refused(admin) == "409 LoggingTypeNotSupported"
    report(plugins, "logging", extensions=["packet_log"], firewall_capabilities=IN_SWITCH)
    make(admin)
    network = alice.network()["id"]
    ports = {
        host: admin.make("ports", network_id=network, **{"binding:host_id": host})["id"]
        for host in ("bridges", "plain", "logging", "unknown")
    }
    for host in ("bridges", "plain"):
        assert refused(admin, target_id=ports[host]) == "409 LoggingTypeNotSupported"
    for host in ("logging", "unknown"):
        make(admin, target_id=ports[host])


def test_a_log_is_accepted_while_an_agent_does_not_report_its_extensions(
    plugins: list[HandlerPlugin], admin: Client
) -> None:
    report(plugins, "plain", extensions=[], firewall_capabilities=IN_SWITCH)
    report(plugins, "foreign")
    make(admin)
