"""Statuses and counts that the L3 agent reports again."""

import threading

import pytest

from tests.unit.agents.l3.environment import EDGE, assigned, environments, floating_ip

ONE = floating_ip(20, EDGE)


@pytest.fixture
def environment():
    with environments() as make:
        yield make


@pytest.mark.spec("L3-10")
@pytest.mark.parametrize("turns", [0, 1])
def test_router_that_is_put_back_before_it_is_removed_is_reported_again(environment, turns):
    found = environment(ONE, wait_timeout=0.0)
    found.ready()
    gate = found.router.gates[EDGE.id] = threading.Event()
    found.source.remove(assigned(EDGE))
    for _ in range(turns):
        found.turn()
    found.source.put(assigned(EDGE))
    found.turn()
    gate.set()
    found.ready()
    assert found.report(EDGE) == found.report(ONE) == ("ACTIVE", "")


@pytest.mark.spec("L3-13")
def test_counts_are_reported_as_soon_as_the_first_routers_are_made(environment):
    found = environment(ONE, wait_timeout=0.0)
    gate = found.router.gates[EDGE.id] = threading.Event()
    found.until(lambda status: found.router.at_gate == {EDGE.id})
    gate.set()
    found.until(lambda status: status.ready)
    found.turn()
    (beat,) = found.source.heartbeats()
    assert (beat.counts["routers"], beat.counts["floating_ips"], beat.start) == (2, 1, False)
