"""DhcpScheduler: assigns networks to DHCP agents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import NetworkId
from netfw.server.agents.agents import DHCP_AGENT
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.excluded_hosts import ExcludedHosts
from netfw.server.db.database import ReadSnapshot
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.server.scheduling.rescheduler import OrphanedAssignments, run_each_as_server
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE, dhcp_device_id

LOG = logging.getLogger(__name__)


@frozen
class DhcpScheduler:
    """A network gets its agents with its first subnet that has DHCP, and keeps them.

    With distributed DHCP it gets none.

    A network of an agent that died or was switched off moves to others, with the port and so the
    addresses of its server. Without others, it stays with a dead agent; an agent that is switched
    off serves nothing.
    """

    agent_type: ClassVar[str] = DHCP_AGENT
    context: ServerContext
    assignments: AgentAssignments = field(init=False)
    orphaned: OrphanedAssignments = field(init=False)

    @assignments.default
    def _serving(self) -> AgentAssignments:
        return AgentAssignments(DHCP_AGENT, self.context.settings)

    @orphaned.default
    def _make_orphaned(self) -> OrphanedAssignments:
        return OrphanedAssignments(self.context, self.assignments)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Follow networks, subnets and agents, inside their transactions."""
        match change.before, change.after:
            case _, Subnet(enable_dhcp=True) as subnet:
                if not isinstance(change.before, Subnet) or not change.before.enable_dhcp:
                    self._schedule(unit, subnet.network_id)
            case Network() as network, None:
                self.assignments.unassign(unit, Ref(Kind.NETWORK, network.id))
            case Agent(agent_type=kind, host=host), None if kind == DHCP_AGENT:
                self._reserve(unit, {"binding:host_id": (host,)})
            case _:
                pass

    def reconcile(self) -> int:
        """Move networks from agents that are dead or switched off, and assign more where too few
        serve.

        Each network is a transaction of its own. Return how many changed.
        """
        changed = self._run_each(self._move, self._abandoned())
        changed += self._run_each(self._withdraw, self.context.read(self._withdrawn_from))
        return changed + self._run_each(self._schedule, self.context.read(self.unserved))

    def unserved(self, view: ReadSnapshot) -> tuple[UUID, ...]:
        """Return the networks with DHCP that have too few agents, and could have another one."""
        if self.context.settings.distributed_dhcp:
            return ()
        agents = self.assignments.agents(view)
        usable = {agent.host for agent in agents if agent.alive and agent.admin_up}
        rows = AssignmentRows(view.connection)
        lacking = rows.unserved(self.context.settings.dhcp_agents_per_network) if usable else ()
        if not lacking:
            return ()
        taken = ExcludedHosts(view.connection, Service.DHCP).of_each(lacking)
        for each in rows.of(Ref(Kind.NETWORK, id) for id in lacking):
            taken[each.ref.id] = taken.get(each.ref.id, frozenset()) | {each.host}
        return tuple(id for id in lacking if usable - taken.get(id, frozenset()))

    def reserve_port(self, unit: UnitOfWork, network: NetworkId, host: str) -> None:
        """Reserve the port from which *host* served the network for the next agent."""
        device = dhcp_device_id(host, network)
        self._reserve(unit, {"network_id": (str(network),), "device_id": (device,)})

    @staticmethod
    def _reserve(unit: UnitOfWork, chosen: Mapping[str, tuple[str, ...]]) -> None:
        query = Query(filters={**chosen, "device_owner": (DeviceOwner.DHCP.value,)})
        for row in unit.tx.resources.find(Kind.PORT, query):
            body = {"device_id": RESERVED_DHCP_DEVICE, "binding:host_id": ""}
            unit.context.handler("port").update(unit, str(row.ref.id), body)

    def _schedule(self, unit: UnitOfWork, id: UUID) -> tuple[str, ...]:
        if self.context.settings.distributed_dhcp or not self.assignments.any(unit.tx):
            return ()
        network = unit.network(NetworkId(id), lock=True)
        wanted = self.context.settings.dhcp_agents_per_network
        return self.assignments.fill(
            unit,
            Ref(Kind.NETWORK, id),
            lambda _: wanted,
            zones=network.availability_zone_hints,
        )

    def _run_each(
        self, work: Callable[[UnitOfWork, UUID], object], networks: Iterable[UUID]
    ) -> int:
        targets = (Ref(Kind.NETWORK, id) for id in networks)
        return run_each_as_server(self.context, work, targets)

    def _abandoned(self) -> tuple[UUID, ...]:
        """Return the networks of dead agents; with distributed DHCP they need no others."""
        settings = self.context.settings
        wanted = settings.allow_automatic_dhcp_failover and not settings.distributed_dhcp
        return self.orphaned.find() if wanted else ()

    def _withdrawn_from(self, view: ReadSnapshot) -> tuple[UUID, ...]:
        """Return the networks of agents that are switched off or deleted."""
        off = sorted(self.assignments.withdrawn(view))
        return tuple(id for host in off for id in self.assignments.at(view, host))

    def _move(self, unit: UnitOfWork, id: UUID) -> bool:
        dead = self.assignments.dead(unit.tx) & self.orphaned.confirmed
        return self._replaced(unit, NetworkId(id), dead, "dead", anyway=False)

    def _withdraw(self, unit: UnitOfWork, id: UUID) -> bool:
        off = self.assignments.withdrawn(unit.tx)
        return self._replaced(unit, NetworkId(id), off, "switched off or deleted", anyway=True)

    def _replaced(
        self, unit: UnitOfWork, id: NetworkId, unwanted: Collection[str], why: str, *, anyway: bool
    ) -> bool:
        """Replace the agents on *unwanted* hosts by as many others; *anyway*: remove them even
        without a replacement.  With distributed DHCP there is none."""
        network, target = unit.network(id, lock=True), Ref(Kind.NETWORK, id)
        serving = self.assignments.hosts(unit.tx, target)
        gone = sorted(serving.intersection(unwanted))
        spare = max(0, len(serving) - self.context.settings.dhcp_agents_per_network)
        fresh: tuple[str, ...] = ()
        if not self.context.settings.distributed_dhcp:
            fresh = self.assignments.fill(
                unit,
                target,
                lambda _: len(serving) + len(gone) - spare,
                zones=network.availability_zone_hints,
            )
        if not anyway:
            if not fresh and serving <= set(gone):
                return False
            gone = gone[: len(fresh) + spare]
        for host in gone:
            LOG.warning("network %s: moved from the DHCP agent on %s, which is %s", id, host, why)
            self.reserve_port(unit, id, host)
            self.assignments.unassign(unit, target, host)
        return bool(gone)
