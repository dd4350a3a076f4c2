"""Responses are as the OpenAPI document says, where requests drawn from it find no resources."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.server_context import ServerContext
from netfw.server.db.resources.vendor_resources import VendorResources
from netfw.server.l2.local_ips import LocalIpPlugin
from netfw.server.metering.labels import MeteringPlugin
from tests.server.api.environment import Client, api
from tests.server.api.response_schemas import schema_problems
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-20")


def test_actions_of_address_groups_answer_as_documented(client: Client) -> None:
    group = client.make("address-groups")["id"]
    for action in ("add_addresses", "remove_addresses"):
        reply = client.put(f"address-groups/{group}/{action}", {"addresses": ["192.0.2.0/24"]})
        assert schema_problems(client, f"PUT /address-groups/{{id}}/{action}", reply) == []


def test_agents_have_times_as_documented(client: Client, plugins: list[HandlerPlugin]) -> None:
    HeartbeatHandler(plugins[0].context)([beat("a")])
    reply = client.as_("ops/admin").get("agents")
    assert len(reply.json["agents"]) == 1
    assert schema_problems(client, "GET /agents", reply) == []


def test_bindings_name_their_port_as_documented(client: Client) -> None:
    admin = client.as_("ops/admin")
    network = admin.network()["id"]
    port = admin.make("ports", network_id=network, binding__host_id="h1")["id"]
    reply = admin.get(f"ports/{port}/bindings/h1")
    assert reply.json["binding"]["port_id"] == port
    assert schema_problems(client, "GET /ports/{port_id}/bindings/{host}", reply) == []


def test_local_ips_show_no_tags_which_they_do_not_have(plugins: list[HandlerPlugin]) -> None:
    plugins[0].context.quotas["local_ip"] = -1
    client = api([*plugins, LocalIpPlugin(plugins[0].context)])
    network = client.network()["id"]
    client.make("subnets", network_id=network, cidr="10.0.0.0/24", ip_version=4)
    made = client.post("local_ips", {"local_ip": {"network_id": network}})
    add_tags(plugins[0].context, made.json["local_ip"])
    own = f"local_ips/{made.json['local_ip']['id']}"
    for operation, reply in (
        ("POST /local_ips", made),
        ("GET /local_ips", client.get("local_ips")),
        ("GET /local_ips/{id}", client.get(own)),
        ("PUT /local_ips/{id}", client.put(own, {"local_ip": {"name": "x"}})),
    ):
        assert schema_problems(client, operation, reply) == []


def add_tags(context: ServerContext, local_ip: dict[str, Any]) -> None:
    """Store a local IP as earlier releases did."""
    context.database.transaction(
        lambda tx: VendorResources(tx.connection, "local_ip").update(
            local_ip, {**local_ip, "tags": []}
        )
    )


def test_rules_of_metering_labels_show_what_is_documented(plugins: list[HandlerPlugin]) -> None:
    admin = api([*plugins, MeteringPlugin(plugins[0].context)]).as_("ops/admin")
    label = admin.post("metering/metering-labels", {"metering_label": {}}).json["metering_label"]
    rule = {"metering_label_id": label["id"], "direction": "ingress"}
    body = {"metering_label_rule": {**rule, "remote_ip_prefix": "192.0.2.0/24"}}
    reply = admin.post("metering/metering-label-rules", body)
    assert schema_problems(admin, "POST /metering/metering-label-rules", reply) == []
