"""AgentReports: what heartbeats change."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

from attrs import evolve, frozen

from netfw.drivers.query import Query
from netfw.drivers.reports import Heartbeat, Report, ReportResult
from netfw.errors import Conflict
from netfw.model.agent import Agent
from netfw.model.ids import AgentId
from netfw.model.json_document import JsonDocument
from netfw.model.resource import Kind, Ref
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import AgentHeartbeat
from netfw.server.db.database import Transaction

LOG = logging.getLogger(__name__)

ATTEMPTS = 3
"""Two servers may hear of a new agent at the same moment."""


@frozen
class HeartbeatHandler:
    """Hears heartbeats.

    One that says what the last one said is one statement and touches no resource: a thousand
    agents say so every half minute.  What an agent says of itself is a change of the agent, with a
    revision, which others read (a tunnel's end point has moved); its counts are not.
    """

    backbone: ServerContext

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Record the heartbeats among *reports*; ``resync`` if an agent was considered dead.

        An agent that has just started compares everything anyway.
        """
        revived = [self._hear(report) for report in reports if isinstance(report, Heartbeat)]
        return ReportResult(resync=any(revived))

    def _hear(self, heartbeat: Heartbeat, attempts: int = ATTEMPTS) -> bool:
        said = _digest(heartbeat)
        if self.backbone.database.transaction(lambda tx: self._as_before(tx, heartbeat, said)):
            return False
        try:
            revived = self.backbone.run(SERVER, lambda unit: self._learn(unit, heartbeat, said))
        except Conflict:
            if attempts == 1:
                raise
            return self._hear(heartbeat, attempts - 1)
        return revived and not heartbeat.start

    def _as_before(self, tx: Transaction, heartbeat: Heartbeat, said: str) -> bool:
        """Note that it lives, if that is all there is to say."""
        return not heartbeat.start and tx.heartbeats.as_before(
            heartbeat.agent.id,
            said=said,
            counts=heartbeat.counts,
            within=self.backbone.settings.agent_down_time,
        )

    def _is_news(self, pulse: AgentHeartbeat | None, heartbeat: Heartbeat, said: str) -> bool:
        return heartbeat.start or pulse is None or pulse.said != said or self._silent(pulse)

    def _silent(self, pulse: AgentHeartbeat) -> bool:
        return pulse.silence > self.backbone.settings.agent_down_time

    def _learn(self, unit: UnitOfWork, heartbeat: Heartbeat, said: str) -> bool:
        """Store what is new of an agent, and tell whoever waits for such; whether it was dead."""
        known = _known(unit, heartbeat.agent)
        pulse = None if known is None else unit.tx.heartbeats.pulses([known.id]).get(known.id)
        agent = _stored(unit, known, heartbeat)
        unit.tx.heartbeats.heard(
            agent.id, said=said, counts=heartbeat.counts, start=heartbeat.start
        )
        if not self._is_news(pulse, heartbeat, said):
            return False
        revived = pulse is not None and self._silent(pulse)
        if known is None:
            LOG.info("%s on %s is new", agent.agent_type, agent.host)
        elif pulse is not None and revived:
            LOG.info(
                "%s on %s is back after %.0f s of silence",
                agent.agent_type, agent.host, pulse.silence,
            )  # fmt: skip
        for arrival in self.backbone.arrivals:
            arrival(unit, evolve(agent, alive=True))
        return revived


def _known(unit: UnitOfWork, agent: Agent) -> Agent | None:
    """The agent of that type on that host: it has the id under which it was first heard of."""
    filters = {"agent_type": (agent.agent_type,), "host": (agent.host,)}
    rows = unit.tx.resources.find(Kind.AGENT, Query(filters=filters))
    return cast(Agent, rows[0].resource()) if rows else None


def _stored(unit: UnitOfWork, known: Agent | None, heartbeat: Heartbeat) -> Agent:
    said = heartbeat.agent
    what: dict[str, Any] = {
        "binary": said.binary,
        "topic": said.topic,
        "availability_zone": said.availability_zone,
        "resources_synced": said.resources_synced,
        "configurations": _lasting(heartbeat),
    }
    if known is not None:
        return unit.update(known, evolve(known, **what))
    taken = unit.tx.resources.present([Ref(Kind.AGENT, said.id)])
    id = AgentId(uuid4()) if taken else said.id
    new = Agent(id=id, agent_type=said.agent_type, host=said.host, **what)
    return unit.insert(new)[0]


def _lasting(heartbeat: Heartbeat) -> JsonDocument:
    """What the agent says of itself, without what it counts."""
    content = heartbeat.agent.configurations.content()
    return JsonDocument({name: content[name] for name in content if name not in heartbeat.counts})


def _digest(heartbeat: Heartbeat) -> str:
    """Differs when anything differs that is stored of the agent."""
    agent = heartbeat.agent
    said = (
        agent.agent_type,
        agent.host,
        agent.binary,
        agent.topic,
        agent.availability_zone,
        agent.resources_synced,
        _lasting(heartbeat).text,
    )
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
