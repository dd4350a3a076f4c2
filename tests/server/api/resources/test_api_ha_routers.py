"""Highly available routers, as clients see them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from netfw.drivers.values.reports import RoleReport
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole, Router
from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.ml2.plugin import Ml2Plugin
from tests.server.api.environment import Client, api
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-18")


class HaSite:
    """A highly available router of Alice with an interface, on hosts ``a`` and ``b``."""

    def __init__(self, alice: Client, plugins: list[HandlerPlugin]) -> None:
        self.alice, self.admin = alice, alice.as_("root/admin")
        self.plugin = cast(Ml2Plugin, plugins[0])
        for host in ("a", "b"):
            HeartbeatHandler(self.plugin.context)([beat(host, L3_AGENT)])
        network = alice.network()["id"]
        subnet = alice.make("subnets", network_id=network, cidr="10.0.0.0/24", ip_version=4)
        made = self.admin.make("routers", ha=True, project_id=subnet["project_id"])
        self.router = made["id"]
        added = alice.put(
            f"routers/{self.router}/add_router_interface", {"subnet_id": subnet["id"]}
        )
        assert added.status == 200

    def report(self, **roles: HaRole) -> None:
        target = Ref(Kind.ROUTER, UUID(self.router))
        self.plugin.handle_reports(
            [RoleReport(ref=target, revision=1, host=host, role=roles[host]) for host in roles]
        )

    def agents(self, *query: tuple[str, str]) -> list[dict[str, Any]]:
        reply = self.admin.get(f"routers/{self.router}/l3-agents", *query)
        assert reply.status == 200
        return cast("list[dict[str, Any]]", reply.json["agents"])

    def ports(self) -> list[dict[str, Any]]:
        return self.admin.list("ports", device_id=self.router)


@pytest.fixture
def site(plugins: list[HandlerPlugin]) -> HaSite:
    context = plugins[0].context
    return HaSite(api([*plugins, RouterPlugin(context)]), plugins)


def test_agents_of_a_router_are_listed_with_their_states(site: HaSite) -> None:
    site.report(a=HaRole.ACTIVE, b=HaRole.STANDBY)
    states = {agent["host"]: agent["ha_state"] for agent in site.agents()}
    assert states == {"a": "active", "b": "standby"}
    named = site.agents(("fields", "host"), ("fields", "ha_state"))
    assert sorted(map(str, named)) == [
        "{'host': 'a', 'ha_state': 'active'}",
        "{'host': 'b', 'ha_state': 'standby'}",
    ]
    assert all("ha_state" not in agent for agent in site.admin.list("agents"))


def test_a_member_sees_no_agents_of_a_router(site: HaSite) -> None:
    assert site.alice.get(f"routers/{site.router}/l3-agents").json["agents"] == []


def test_interfaces_show_the_active_host_and_no_internal_attribute(site: HaSite) -> None:
    site.report(b=HaRole.ACTIVE)
    interfaces = [port for port in site.ports() if "replicated" in port["device_owner"]]
    assert [port["binding:host_id"] for port in interfaces] == ["b"]
    for port in site.ports():
        assert "binding:hosts" not in port
        body = site.admin.get(f"ports/{port['id']}").json["port"]
        assert "binding:hosts" not in body
    router = site.admin.get(f"routers/{site.router}").json["router"]
    row = site.plugin.context.read(
        lambda view: view.resources.get(Kind.ROUTER, UUID(site.router)).resource()
    )
    assert cast(Router, row).vrid is not None
    assert "vrid" not in router
    renamed = site.admin.put(f"routers/{site.router}", {"router": {"name": "x"}})
    assert "vrid" not in renamed.json["router"]


@pytest.mark.parametrize(
    ("path", "body"),
    [("routers/{}", {"router": {"vrid": 3}}), ("ports/{}", {"port": {"binding:hosts": ["a"]}})],
)
def test_internal_attributes_cannot_be_set_nor_filtered_by(
    site: HaSite, path: str, body: dict[str, Any]
) -> None:
    id = site.router if path.startswith("routers") else site.ports()[0]["id"]
    assert site.admin.put(path.format(id), body).status == 400
    ((_, attributes),) = body.items()
    (name,) = attributes
    assert site.admin.get(path.split("/", maxsplit=1)[0], (name, "3")).status == 400
