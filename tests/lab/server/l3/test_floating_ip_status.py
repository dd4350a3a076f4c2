"""Statuses of floating IPs, by what agents report."""

from __future__ import annotations

from uuid import UUID

import pytest

from netfw.drivers.reports import StatusReport
from netfw.drivers.subscription import Service
from netfw.model.common_fields import Status
from netfw.model.resource import Kind, Ref
from netfw.server.db import Database
from netfw.state.dependencies import Assignment
from tests.lab.server.l3.environment import ADMIN, Layer3

pytestmark = pytest.mark.spec("RPC-03")


class Associated:
    """A floating IP whose router is on the hosts ``l3`` and ``other``, and its port on ``vm``."""

    def __init__(self, core: Layer3) -> None:
        self.core = core
        outside, _ = core.outside()
        network, subnet = core.inside()
        self.router = core.router(external_gateway_info={"network_id": outside})
        core.connect(self.router, subnet_id=subnet)
        port = core.port(network)["id"]
        core.update("port", port, ADMIN, **{"binding:host_id": "vm"})
        self.port = port
        self.id = core.create("floatingip", floating_network_id=outside, port_id=port)["id"]
        router = Ref(Kind.ROUTER, UUID(self.router))
        for host in ("l3", "other"):
            core.context.run(
                ADMIN,
                lambda unit, host=host: unit.tx.assignments.add(
                    Assignment(Service.L3, host, router)
                ),
            )

    def shown(self) -> tuple[str, int]:
        body = self.core.show("floatingip", self.id)
        return body["status"], body["revision_number"]

    def hear(self, status: Status, host: str = "l3", older: int = 0) -> str:
        revision = self.shown()[1] - older
        report = StatusReport(
            ref=Ref(Kind.FLOATING_IP, UUID(self.id)),
            revision=revision,
            host=host,
            service=Service.L3,
            status=status,
        )
        self.core.plugin("network").handle_reports([report])
        return self.shown()[0]


@pytest.fixture
def it(file_database: Database) -> Associated:
    return Associated(Layer3(file_database))


def test_a_floating_ip_is_active_when_its_router_answers_for_it(it: Associated) -> None:
    before = it.shown()
    assert before[0] == "DOWN"
    assert it.hear(Status.ACTIVE) == "ACTIVE"
    assert it.shown()[1] == before[1]
    assert it.hear(Status.DOWN, "other") == "ACTIVE"
    assert it.hear(Status.ERROR) == "ERROR"
    assert it.hear(Status.ACTIVE, "other") == "ACTIVE"


def test_only_reports_of_responsible_hosts_count(it: Associated) -> None:
    assert it.hear(Status.ACTIVE, "stranger") == "DOWN"
    assert it.hear(Status.ACTIVE, older=1) == "DOWN"
    assert it.hear(Status.ACTIVE, "vm") == "ACTIVE"


def test_reports_of_another_association_do_not_count(it: Associated) -> None:
    assert it.hear(Status.ACTIVE) == "ACTIVE"
    it.core.update("floatingip", it.id, description="the same")
    assert it.shown()[0] == "ACTIVE"
    it.core.update("floatingip", it.id, port_id=None)
    assert it.shown()[0] == "DOWN"
    assert it.hear(Status.ACTIVE) == "DOWN"
    it.core.update("floatingip", it.id, port_id=it.port)
    assert it.hear(Status.DOWN, "other") == "DOWN"
    assert it.hear(Status.ACTIVE) == "ACTIVE"
    it.core.delete("port", it.port)
    assert it.shown()[0] == "DOWN"


def test_a_floating_ip_that_is_gone_is_no_matter(it: Associated) -> None:
    revision = it.shown()[1]
    it.core.delete("floatingip", it.id)
    report = StatusReport(
        ref=Ref(Kind.FLOATING_IP, UUID(it.id)),
        revision=revision,
        host="l3",
        service=Service.L3,
        status=Status.ACTIVE,
    )
    it.core.plugin("network").handle_reports([report])
    assert it.core.find("floatingip") == []
