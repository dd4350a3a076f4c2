"""A router with a floating IP, and hosts that report on them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.db import Database
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.scheduling.assignments import AgentAssignments
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.server.core.agent_samples import beat, grow_old

L3_AGENT = "L3 agent"
KINDS = {"router": Kind.ROUTER, "floatingip": Kind.FLOATING_IP}
ACTIVE, DOWN, ERROR = Status.ACTIVE, Status.DOWN, Status.ERROR


class Site:
    """A router with a floating IP whose port is on ``vm``, and an L3 agent on ``a``."""

    def __init__(
        self, database: Database, *hosts: str, distributed: bool = False, **options: Any
    ) -> None:
        self.options = {"failover_grace": 0.0, **options}
        self.core = Layer3(database, **self.options)
        self.beat(*hosts)
        outside, _ = self.core.outside()
        network, self.subnet = self.core.inside()
        self.router = self.core.router(ADMIN, distributed=distributed)
        self.core.lead_out(self.router, outside, ADMIN)
        self.core.connect(self.router, ADMIN, subnet_id=self.subnet)
        self.port = self.core.port(network)["id"]
        self.core.update("port", self.port, ADMIN, **{"binding:host_id": "vm"})
        made = self.core.create("floatingip", floating_network_id=outside, port_id=self.port)
        self.floatingip = made["id"]

    def beat(self, *hosts: str) -> None:
        for host in hosts:
            self.core.core.agent_services.agents([beat(host, L3_AGENT)])

    def die(self, *hosts: str) -> None:
        for host in hosts:
            grow_old(self.core.context, host, 600)
        self.reconcile()

    def reconcile(self) -> None:
        self.core.core.agent_services.rescheduler.reconcile()

    def restart(self) -> None:
        self.core = Layer3(self.core.context.database, **self.options)

    def body(self, name: str) -> dict[str, Any]:
        return self.core.show(name, getattr(self, name))

    def statuses(self) -> tuple[str, str]:
        return self.body("router")["status"], self.body("floatingip")["status"]

    def report(
        self, name: str, status: Status, host: str = "a", reason: str = "", older: int = 0
    ) -> str:
        body = self.body(name)
        report = StatusReport(
            ref=Ref(KINDS[name], UUID(body["id"])),
            revision=body["revision_number"] - older,
            host=host,
            service=Service.L3,
            status=status,
            reason=reason,
        )
        self.core.plugin("network").handle_reports([report])
        after = self.body(name)
        assert after["revision_number"] == body["revision_number"]
        return str(after["status"])

    def report_both(self, status: Status, host: str = "a") -> None:
        for name in KINDS:
            self.report(name, status, host)

    def hosts(self) -> set[str]:
        ref = Ref(Kind.ROUTER, UUID(self.router))
        found = self.core.context.read(lambda view: AssignmentRows(view.connection).of([ref]))
        return {each.host for each in found}

    def assign(self, *hosts: str) -> None:
        """Assign the router to exactly *hosts*."""
        ref = Ref(Kind.ROUTER, UUID(self.router))
        assignments = AgentAssignments(L3_AGENT, self.core.context.settings)

        def change(unit: Any) -> None:
            for host in sorted(set(hosts) - self.hosts_of(unit)):
                assignments.assign(unit, ref, host)
            if gone := self.hosts_of(unit) - set(hosts):
                assignments.unassign(unit, ref, *gone)

        self.core.context.run(ADMIN, change)

    def hosts_of(self, unit: Any) -> set[str]:
        found = unit.tx.assignments.of([Ref(Kind.ROUTER, UUID(self.router))])
        return {each.host for each in found}
