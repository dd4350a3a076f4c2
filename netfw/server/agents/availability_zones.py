"""Availability zones: where agents say they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from netfw.drivers.query import Body, Query, RequestContext
from netfw.errors import NotFound
from netfw.server.agents.agents import DHCP_AGENT, L3_AGENT, agents
from netfw.server.core.memory_query import apply_query
from netfw.server.core.resource_handler import Moment, ResourceHandler
from netfw.server.core.settings import Settings

SCHEDULED: Final[Mapping[str, str]] = MappingProxyType({DHCP_AGENT: "network", L3_AGENT: "router"})
"""What is scheduled to agents of a type."""


class ZoneHandler(ResourceHandler):
    """The zones of DHCP agents, for networks, and of L3 agents, for routers.

    One is available while an agent there is alive and switched on.
    """

    name: ClassVar[str] = "availability_zone"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def find(self, moment: Moment, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        useful: dict[tuple[str, str], bool] = {}
        for agent in agents(moment, self._settings):
            what = SCHEDULED.get(agent.agent_type)
            if what is not None and agent.availability_zone:
                key = agent.availability_zone, what
                useful[key] = useful.get(key, False) or (agent.alive and agent.admin_up)
        zones: list[Body] = [
            {"name": name, "resource": what, "state": "available" if useful else "unavailable"}
            for (name, what), useful in sorted(useful.items())
        ]
        return apply_query(zones, query, "name")

    def show(self, moment: Moment, requester: RequestContext, id: str) -> Body:
        for zone in self.find(moment, requester, Query(filters={"name": (id,)})):
            return zone
        raise NotFound(f"there is no availability zone {id[:80]!r}")
