"""Hosts of floating IPs whose association meets a change of what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.l3.distributed.samples import floating_ip
from tests.lab.server.l3.environment import ADMIN
from tests.lab.server.l3.ha_samples import l3_agent
from tests.lab.server.l3.meeting import Meeting, meeting_at, no_retries
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-19")


@pytest.fixture(params=SERVER_PARAMETERS)
def meeting(
    request: pytest.FixtureRequest,
    database_servers: DatabaseServers,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Meeting]:
    distributed = partial(Meeting, distributed=True)
    url = database_servers.filled(request.param)
    with no_retries(caplog), meeting_at(distributed, url) as made:
        for host in ("one", "two"):
            l3_agent(made.core, host, mode="dvr")
            made.core.core.agent_services.agents([beat(host)])
        made.core.update("port", made.port, ADMIN, **{"binding:host_id": "one"})
        assert made.core.show("port", made.port)["binding:vif_type"] == "ovs"
        yield made


def associate(meeting: Meeting) -> None:
    meeting.core.update("floatingip", meeting.floating, ADMIN, port_id=meeting.port)


def add_pair(meeting: Meeting) -> None:
    (fixed,) = meeting.core.show("port", meeting.port)["fixed_ips"]
    pairs = [{"ip_address": fixed["ip_address"]}]
    meeting.core.update("port", meeting.other, ADMIN, allowed_address_pairs=pairs)


def change_mode(meeting: Meeting) -> None:
    l3_agent(meeting.core, "one", mode="dvr_no_external")


def move_port(meeting: Meeting) -> None:
    meeting.core.update("port", meeting.port, ADMIN, **{"binding:host_id": "two"})


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(
    ("change", "host"), [(add_pair, None), (change_mode, None), (move_port, "two")]
)
def test_an_association_meets_a_change(
    meeting: Meeting, change: Callable[[Meeting], Any], host: str | None, is_first: bool
) -> None:
    first, second = (change, associate) if is_first else (associate, change)
    with meeting.stopped(first, meeting) as stopped:
        other = meeting.start(second, meeting)
    stopped.result(60)
    other.result(60)
    assert floating_ip(meeting.core, meeting.floating).host == host
