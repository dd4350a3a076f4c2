"""PortsAwaitingDhcp: wired ports that wait for a DHCP agent that is gone.

A report of an agent sets the status of a port; the end of an agent sends no report.
"""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from netfw.drivers.server.change import Change
from netfw.model.resource import Kind, Ref
from netfw.model.subnet import Subnet
from netfw.model.values.ids import PortId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.status_reports import waiting_ports
from netfw.server.db.database import ReadSnapshot
from netfw.server.l2.port_status import PortStatuses
from netfw.server.scheduling.dhcp import DhcpScheduler
from netfw.server.scheduling.rescheduler import run_as_server


@frozen
class PortsAwaitingDhcp:
    """Recomputes ports that wait for DHCP agents that died, were switched off or were
    unassigned."""

    dhcp: DhcpScheduler
    statuses: PortStatuses

    def follow_agents(self, unit: UnitOfWork, target: Ref) -> None:
        """Recompute the ports of a network whose agents changed."""
        if target.kind is Kind.NETWORK:
            self._recompute(unit, target.id)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Recompute the ports of a network whose subnet had its DHCP switched off."""
        match change.before, change.after:
            case Subnet(enable_dhcp=True), Subnet(enable_dhcp=False) as subnet:
                self._recompute(unit, subnet.network_id)
            case _:
                pass

    def reconcile(self) -> int:
        """Recompute the ports of all networks that lost their agents; return how many networks
        changed.

        Each network is a transaction of its own. For a silent agent it waits until the failure
        detector confirms its death.
        """
        lost = {*self.dhcp.orphaned.find(), *self.dhcp.context.read(self._without_agents)}
        waiting = self.dhcp.context.read(lambda view: waiting_ports(view.connection, lost))
        return sum(map(self._reconcile_network, sorted(waiting)))

    def _without_agents(self, view: ReadSnapshot) -> set[UUID]:
        """Return the networks without agents, and those of agents that were switched off."""
        serving = self.dhcp.assignments
        unserved = AssignmentRows(view.connection).unserved(1)
        off = serving.switched_off(view)
        return {*unserved, *(id for host in off for id in serving.at(view, host))}

    def _reconcile_network(self, network: UUID) -> bool:
        return run_as_server(self.dhcp.context, lambda unit: self._recompute(unit, network))

    def _recompute(self, unit: UnitOfWork, network: UUID) -> int:
        waiting = waiting_ports(unit.tx.connection, [network]).get(network, ())
        return self.statuses.reconsider(unit, map(PortId, waiting)) if waiting else 0
