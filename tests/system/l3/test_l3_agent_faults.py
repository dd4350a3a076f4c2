"""Faults of agents, under pings every 10 ms and TCP connections through a router."""

from __future__ import annotations

import pytest

from tests.system.l3.edge_site import EdgeSite

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("L3-11")
def test_a_stopped_and_started_agent_interrupts_nothing(edge: EdgeSite) -> None:
    with edge.undisturbed():
        assert edge.l3.stop() == 0
        edge.l3.start()
        assert edge.plan() == []
