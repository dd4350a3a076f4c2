"""The state report of any kind of agent.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import NAMESPACE_DNS, uuid5

from attrs import evolve

from netfw.agents.common.status import AgentStatus
from netfw.drivers.values.reports import Heartbeat
from netfw.model.agent import Agent
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument


class AgentIdentity(Protocol):
    """The settings that identify an agent."""

    @property
    def host(self) -> str:
        """The host that it runs on."""

    @property
    def binary(self) -> str:
        """The name of its program."""

    @property
    def agent_type(self) -> str:
        """The agent type that operators see."""


def make_heartbeat(
    agent: AgentIdentity,
    configurations: Mapping[str, object],
    counts: Mapping[str, int],
    *,
    start: bool,
    topic: str = "",
    availability_zone: str | None = None,
) -> Heartbeat:
    """Build the heartbeat of *agent*; its id depends only on binary and host."""
    known = Agent(
        id=AgentId(uuid5(NAMESPACE_DNS, f"{agent.binary}.{agent.host}")),
        agent_type=agent.agent_type,
        binary=agent.binary,
        host=agent.host,
        topic=topic,
        availability_zone=availability_zone,
        configurations=JsonDocument(configurations),
    )
    return Heartbeat(agent=known, counts=dict(counts), start=start)


def with_backlog(heartbeat: Heartbeat, status: AgentStatus) -> Heartbeat:
    """Return *heartbeat* with how far the agent is behind the desired state."""
    backlog = {
        "lag_seconds": round(status.lag),
        "degraded": len(status.degraded),
        "waiting": len(status.waiting),
    }
    return evolve(heartbeat, counts={**heartbeat.counts, **backlog})
