"""Firewall groups whose ports leave their routers at the same time, on real databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from netfw.errors.ports import PortNotFound
from netfw.server.db import Database
from netfw.server.firewalls.groups import FirewallPlugin
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.l3.meeting import Meeting, meeting_at

pytestmark = pytest.mark.spec("API-07", "ML2-11")
GROUP = {
    "name": "",
    "shared": False,
    "admin_state_up": True,
    "ingress_firewall_policy_id": None,
    "egress_firewall_policy_id": None,
}


class FirewallMeeting(Meeting):
    """A router with an interface that a firewall group may have."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor) -> None:
        super().__init__(database, pool)
        self.core.plugins = (*self.core.plugins, FirewallPlugin(self.core.context))  # type: ignore[assignment]
        owner = "network:router_interface"
        (interface,) = self.core.find("port", device_id=self.router, device_owner=owner)
        self.interface = interface["id"]

    def make_group(self, *ports: str) -> dict[str, Any]:
        return self.core.create("firewall_group", **GROUP, ports=list(ports))

    def disconnect(self) -> None:
        self.core.act(self.router, "remove_router_interface", port_id=self.interface)


@pytest.fixture(params=SERVER_PARAMETERS)
def meeting(
    request: pytest.FixtureRequest, database_servers: DatabaseServers
) -> Iterator[FirewallMeeting]:
    with meeting_at(FirewallMeeting, database_servers.filled(request.param)) as made:
        yield made


def test_a_new_group_has_no_port_that_leaves_its_router_meanwhile(
    meeting: FirewallMeeting,
) -> None:
    with meeting.stopped(meeting.disconnect) as removal:
        creation = meeting.start(meeting.make_group, meeting.interface)
    removal.result(60)
    assert isinstance(creation.exception(60), PortNotFound)
    assert meeting.core.find("firewall_group") == []


def test_a_changed_group_gets_no_port_that_leaves_its_router_meanwhile(
    meeting: FirewallMeeting,
) -> None:
    group = meeting.make_group()["id"]
    with meeting.stopped(meeting.disconnect) as removal:
        change = meeting.start(
            lambda: meeting.core.update("firewall_group", group, ports=[meeting.interface])
        )
    removal.result(60)
    assert isinstance(change.exception(60), PortNotFound)
    assert meeting.core.show("firewall_group", group)["ports"] == []
