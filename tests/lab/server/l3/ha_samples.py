"""Highly available routers, and what the database has of them."""

from __future__ import annotations

from typing import Any, cast
from uuid import NAMESPACE_DNS, UUID, uuid5

from sqlalchemy import text

from netfw.drivers.server.query import Query, RequestContext
from netfw.drivers.values.reports import Heartbeat, RoleReport
from netfw.model.agent import Agent
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole, Router
from netfw.model.values.device_owner import is_router_attachment
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.server.agents.agents import L3_AGENT
from tests.lab.server.l3.environment import ADMIN, ANNA, Json, Layer3

RESOURCES = ("networks", "segments", "subnets", "ports", "routers", "assignments")
POOLS = ("pools", "offers", "free_ranges", "quotas", "ha_networks", "vrids")


def l3_agent(core: Layer3, host: str, *, mode: str = "legacy", start: bool = True) -> None:
    """Record a heartbeat of an L3 agent."""
    agent = Agent(
        id=AgentId(uuid5(NAMESPACE_DNS, host)),
        agent_type=L3_AGENT,
        binary="netfw-l3-agent",
        host=host,
        configurations=JsonDocument({"agent_mode": mode}),
    )
    core.core.agent_services.agents([Heartbeat(agent=agent, start=start)])


def ha_router(core: Layer3, who: RequestContext = ANNA, **body: Any) -> str:
    """Create a highly available router of a project."""
    return core.router(ADMIN, project_id=who.project_id, ha=True, **body)


def ha_networks(core: Layer3) -> list[Json]:
    """Return the HA networks, in the order of their names."""
    found = [each for each in core.find("network") if each["name"].startswith("HA network")]
    return sorted(found, key=lambda each: (each["name"], each["id"]))


def ha_ports(core: Layer3, router: str) -> list[Json]:
    """Return the HA ports of a router, in the order of their hosts."""
    found = core.find("port", device_id=router, device_owner="network:router_ha_interface")
    return sorted(found, key=lambda each: str(each["binding:host_id"]))


def vrids(core: Layer3) -> dict[str, tuple[str, int]]:
    """Return the HA network and virtual router id of each router."""
    with core.context.database.reading.connect() as connection:
        rows = connection.execute(text("SELECT router_id, network_id, vrid FROM vrids"))
        return {row.router_id: (row.network_id, row.vrid) for row in rows}


def record(core: Layer3) -> dict[str, list[Any]]:
    """Return all rows that the creation and deletion of routers touch."""
    with core.context.database.reading.connect() as connection:
        return {
            table: sorted(map(repr, connection.execute(text(f"SELECT * FROM {table}"))))
            for table in (*RESOURCES, *POOLS)
        }


def router_of(core: Layer3, id: str) -> Router:
    """Return a router with the fields that the API hides."""
    found = core.context.read(lambda view: view.resources.get(Kind.ROUTER, UUID(id)))
    return cast(Router, found.resource())


def bindings(core: Layer3, router: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the active host and all hosts of a router's interfaces and gateway, by their owners.

    Ports of one owner are bound alike.
    """
    query = Query(filters={"device_id": (router,)})
    rows = core.context.read(lambda view: view.resources.find(Kind.PORT, query))
    ports = [cast(Port, row.resource()) for row in rows]
    found = {
        (port.device_owner, port.binding.host, port.binding.hosts)
        for port in ports
        if is_router_attachment(port.device_owner)
    }
    assert len({owner for owner, _, _ in found}) == len(found), found
    return {owner: (host, hosts) for owner, host, hosts in found}


def activate(core: Layer3, router: str, host: str) -> None:
    """Report as the L3 agent of *host* that the router is active there."""
    target = Ref(Kind.ROUTER, UUID(router))
    report = RoleReport(ref=target, revision=0, host=host, role=HaRole.ACTIVE)
    core.plugin("network").handle_reports([report])
