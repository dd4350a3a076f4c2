"""HeartbeatHandler: stores what heartbeats change."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

from attrs import evolve, frozen

from netfw.drivers.server.query import Query
from netfw.drivers.support.log_limit import SenderLimit
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult
from netfw.drivers.values.subscription import AGENT_TYPES, Service, agent_service
from netfw.errors import Conflict, InvalidInput
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.server.agents.routing_mac_claims import claim_routing_mac
from netfw.server.agents.tunnel_claims import claim_tunnel_address, release_tunnel_addresses
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import AgentHeartbeat
from netfw.server.db.database import Transaction

LOG = logging.getLogger(__name__)
LOG.addFilter(SenderLimit())

ATTEMPTS = 3
"""Attempts, because two servers may receive the first heartbeats of an agent at the same moment."""


@frozen
class HeartbeatHandler:
    """Handles heartbeats.

    A heartbeat equal to the last one is one statement and touches no resource: a thousand agents
    send one every half minute. A new configuration is a change of the agent, with a revision, that
    others read (the end point of a tunnel moved); its counts are not.
    """

    context: ServerContext

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Handle the heartbeats among *reports*.

        ``resync`` if an agent was considered dead, or was switched on again; one that has just
        started needs no such answer.

        :raises InvalidInput: an agent type is unknown or has no tunnels, a tunnel address is that
            of another host, or a routing MAC address is not that of the host.
        """
        heartbeats = [report for report in reports if isinstance(report, Heartbeat)]
        for heartbeat in heartbeats:
            self._check_type(heartbeat.agent)
            _check_forwarding(heartbeat.agent)
        resync = [self._handle(heartbeat) for heartbeat in heartbeats]
        return ReportResult(resync=any(resync))

    def _handle(self, heartbeat: Heartbeat, attempts: int = ATTEMPTS) -> bool:
        digest = _digest(heartbeat)
        if self.context.database.transaction(lambda tx: self._as_before(tx, heartbeat, digest)):
            return False
        try:
            resync = self.context.run(SERVER, lambda unit: self._store(unit, heartbeat, digest))
        except Conflict:
            if attempts == 1:
                raise
            return self._handle(heartbeat, attempts - 1)
        return resync and not heartbeat.start

    def _check_type(self, agent: Agent) -> None:
        """Refuse agents of unknown types: a host has one agent of each type at most."""
        name = agent.agent_type
        if name not in AGENT_TYPES and name not in self.context.settings.further_agent_types:
            LOG.warning(
                "agent on %s: refused: unknown agent type %r", agent.host, name[:64],
                extra={"sender": agent.host},
            )  # fmt: skip
            raise InvalidInput(
                {
                    "agent_type": f"{name[:64]!r} is unknown to this server: name it in "
                    "[scheduling] further_agent_types"
                }
            )

    def _as_before(self, tx: Transaction, heartbeat: Heartbeat, digest: str) -> bool:
        """Record the heartbeat, if nothing else changed."""
        return not heartbeat.start and tx.heartbeats.refresh(
            heartbeat.agent.id,
            state_digest=digest,
            counts=heartbeat.counts,
            within=self.context.settings.agent_down_time,
        )

    def _is_new_state(self, last: AgentHeartbeat | None, heartbeat: Heartbeat, digest: str) -> bool:
        return heartbeat.start or last is None or last.state_digest != digest or self._silent(last)

    def _silent(self, last: AgentHeartbeat) -> bool:
        return last.silence > self.context.settings.agent_down_time

    def _store(self, unit: UnitOfWork, heartbeat: Heartbeat, digest: str) -> bool:
        """Store the new state of an agent and run the agent-up hooks; return whether it has to
        read everything."""
        claim_tunnel_address(unit, heartbeat.agent)
        claim_routing_mac(unit, heartbeat.agent)
        known = _stored_agent(unit, heartbeat.agent)
        last = None if known is None else unit.tx.heartbeats.latest([known.id]).get(known.id)
        agent = _store_agent(unit, known, heartbeat)
        if known is None or known.tunnel_address != agent.tunnel_address:
            release_tunnel_addresses(unit, agent.host)
        unit.tx.heartbeats.record(
            agent.id, state_digest=digest, counts=heartbeat.counts, start=heartbeat.start
        )
        if not self._is_new_state(last, heartbeat, digest):
            return False
        revived = last is not None and self._silent(last)
        if known is None:
            LOG.info("new agent: %s on %s", agent.agent_type, agent.host)
        elif last is not None and revived:
            LOG.info(
                "agent recovered: %s on %s, after %.0f s of silence",
                agent.agent_type, agent.host, last.silence,
            )  # fmt: skip
        for hook in self.context.agent_up_hooks:
            hook(unit, evolve(agent, alive=True))
        return revived or (last is not None and last.is_resync_due)


def _check_forwarding(agent: Agent) -> None:
    """Refuse the tunnel or routing MAC address of an agent that is no L2 agent.

    Others would send there what is for its host, and credentials for the service of that agent may
    be all that the sender has.
    """
    if agent_service(agent.agent_type) is Service.L2:
        return
    for name, problem, value in (
        ("tunneling_ip", "has no tunnels", agent.tunnel_address),
        ("routing_mac", "has no routing MAC address", agent.routing_mac),
    ):
        if value is not None:
            LOG.warning(
                "%s on %s: refused: it advertises a %s", agent.agent_type, agent.host, name,
                extra={"sender": agent.host},
            )  # fmt: skip
            raise InvalidInput({name: f"an agent of type {agent.agent_type!r} {problem}"})


def _stored_agent(unit: UnitOfWork, agent: Agent) -> Agent | None:
    """Return the stored agent of that type on that host; its id is that of its first heartbeat."""
    filters = {"agent_type": (agent.agent_type,), "host": (agent.host,)}
    rows = unit.tx.resources.find(Kind.AGENT, Query(filters=filters))
    return cast(Agent, rows[0].resource()) if rows else None


def _store_agent(unit: UnitOfWork, known: Agent | None, heartbeat: Heartbeat) -> Agent:
    sent = heartbeat.agent
    what: dict[str, Any] = {
        "binary": sent.binary,
        "topic": sent.topic,
        "availability_zone": sent.availability_zone,
        "resources_synced": sent.resources_synced,
        "configurations": _configuration(heartbeat),
    }
    if known is not None:
        return unit.update(known, evolve(known, **what))
    taken = unit.tx.resources.present([Ref(Kind.AGENT, sent.id)])
    id = AgentId(uuid4()) if taken else sent.id
    new = Agent(id=id, agent_type=sent.agent_type, host=sent.host, **what)
    return unit.insert(new)[0]


def _configuration(heartbeat: Heartbeat) -> JsonDocument:
    """Return the agent's configuration without its counts."""
    content = heartbeat.agent.configurations.content()
    return JsonDocument({name: content[name] for name in content if name not in heartbeat.counts})


def _digest(heartbeat: Heartbeat) -> str:
    """Return a digest of everything that is stored of the agent."""
    agent = heartbeat.agent
    stored = (
        agent.agent_type,
        agent.host,
        agent.binary,
        agent.topic,
        agent.availability_zone,
        agent.resources_synced,
        _configuration(heartbeat).text,
    )
    return hashlib.sha256(json.dumps(stored).encode()).hexdigest()
