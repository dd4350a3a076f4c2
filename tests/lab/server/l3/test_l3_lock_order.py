"""Lock order of routers, ports and floating IPs: transactions wait, and never deadlock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.errors import Conflict, NotFound
from netfw.model.resource import Kind
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.l3.environment import ADMIN, ANNA
from tests.lab.server.l3.meeting import Meeting, meeting_at, no_retries

pytestmark = pytest.mark.spec("API-06", "API-07", "ML2-11")


@pytest.fixture(params=SERVER_PARAMETERS)
def meeting(
    request: pytest.FixtureRequest,
    database_servers: DatabaseServers,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Meeting]:
    with no_retries(caplog), meeting_at(Meeting, database_servers.filled(request.param)) as made:
        yield made


def test_a_floating_ip_keeps_the_router_of_a_forwarding_created_meanwhile(meeting: Meeting) -> None:
    meeting.forward(meeting.port, 80)
    with meeting.stopped(meeting.forward, meeting.other, 81) as creation:
        deletion = meeting.start(meeting.core.delete, "port", meeting.port)
    creation.result(60)
    deletion.result(60)
    shown = meeting.core.show("floatingip", meeting.floating)
    assert [each["external_port"] for each in shown["port_forwardings"]] == [81]
    assert shown["router_id"] == meeting.router


def test_an_association_and_a_reassignment_take_turns(meeting: Meeting) -> None:
    update = meeting.core.update
    update("floatingip", meeting.floating, ANNA, port_id=meeting.other)
    with meeting.locked(Kind.PORT, meeting.port):
        change = {"port_id": meeting.port}
        association = meeting.start(lambda: update("floatingip", meeting.floating, ANNA, **change))
        reassignment = meeting.start(meeting.reassign)
    assert association.result(60)["router_id"] == meeting.router
    reassignment.result(60)


def test_a_port_forwarding_and_a_reassignment_take_turns(meeting: Meeting) -> None:
    meeting.forward(meeting.other, 80)
    with meeting.locked(Kind.PORT, meeting.port):
        creation = meeting.start(meeting.forward, meeting.port, 81)
        reassignment = meeting.start(meeting.reassign)
    creation.result(60)
    reassignment.result(60)


def test_a_port_forwarding_and_the_deletion_of_its_port_take_turns(meeting: Meeting) -> None:
    meeting.forward(meeting.port, 80)
    with meeting.stopped(meeting.core.delete, "port", meeting.port) as deletion:
        creation = meeting.start(meeting.forward, meeting.port, 81)
    deletion.result(60)
    with pytest.raises(NotFound):
        creation.result(60)
    shown = meeting.core.show("floatingip", meeting.floating)
    assert (shown["port_forwardings"], shown["router_id"]) == ([], None)


def test_an_interface_keeps_the_address_that_an_association_needs(meeting: Meeting) -> None:
    core, change = meeting.core, {"port_id": meeting.port}
    (interface,) = core.find("port", device_owner="network:router_interface")
    with meeting.stopped(lambda: core.update("floatingip", meeting.floating, ANNA, **change)):
        update = meeting.start(lambda: core.update("port", interface["id"], ADMIN, fixed_ips=[]))
    with pytest.raises(Conflict, match="needs its interface"):
        update.result(60)
    assert core.show("floatingip", meeting.floating)["router_id"] == meeting.router
