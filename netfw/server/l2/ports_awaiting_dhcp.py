"""WaitingPorts: ports that are wired and wait for addresses which nobody is left to give.

A report of an agent settles the status of a port; the end of an agent is no report.
"""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from netfw.drivers.change import Change
from netfw.model.ids import PortId
from netfw.model.resource import Kind, Ref
from netfw.model.subnet import Subnet
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.status_reports import waiting_ports
from netfw.server.db.database import ReadSnapshot
from netfw.server.l2.port_status import PortStatuses
from netfw.server.scheduling.dhcp import DhcpScheduler
from netfw.server.scheduling.rescheduler import run_as_server


@frozen
class PortsAwaitingDhcp:
    """Has ports wait no longer for DHCP agents that died, were switched off or serve no more."""

    dhcp: DhcpScheduler
    statuses: PortStatuses

    def follow_agents(self, unit: UnitOfWork, target: Ref) -> None:
        """Look at the ports of a network that other agents serve than before."""
        if target.kind is Kind.NETWORK:
            self._look(unit, target.id)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Look at the ports of a network with a subnet whose DHCP was switched off."""
        match change.before, change.after:
            case Subnet(enable_dhcp=True), Subnet(enable_dhcp=False) as subnet:
                self._look(unit, subnet.network_id)
            case _:
                pass

    def mend(self) -> int:
        """Look at the ports of all networks that lost their agents; how many networks changed.

        Each network is a transaction of its own.  An agent that is merely unheard of is waited for
        until it is sure that it died.
        """
        lost = {*self.dhcp.abandonment.found(), *self.dhcp.backbone.read(self._left)}
        waiting = self.dhcp.backbone.read(lambda view: waiting_ports(view.connection, lost))
        return sum(map(self._mended, sorted(waiting)))

    def _left(self, view: ReadSnapshot) -> set[UUID]:
        """The networks that nobody serves, and those of agents that were switched off."""
        serving = self.dhcp.serving
        nobody = AssignmentRows(view.connection).unserved(1)
        off = serving.switched_off(view)
        return {*nobody, *(id for host in off for id in serving.at(view, host))}

    def _mended(self, network: UUID) -> bool:
        return run_as_server(self.dhcp.backbone, lambda unit: self._look(unit, network))

    def _look(self, unit: UnitOfWork, network: UUID) -> int:
        waiting = waiting_ports(unit.tx.connection, [network]).get(network, ())
        return self.statuses.reconsider(unit, map(PortId, waiting)) if waiting else 0
