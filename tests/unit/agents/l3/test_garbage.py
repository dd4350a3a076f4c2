"""The L3 agent removes what is not desired, once it knows that, and as far as it can."""

import pytest

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendBroken, BackendLocked, BackendUnavailable
from netfw.model.values.ids import RouterId
from tests.unit.agents.l3.environment import (
    EDGE,
    INNER,
    OUTSIDE,
    assigned,
    environments,
    floating_ip,
    router,
)

ONE = floating_ip(20, EDGE)


@pytest.fixture
def environment():
    with environments() as make:
        yield make


@pytest.mark.spec("L3-05")
def test_garbage_is_removed_only_once_the_full_state_is_known(environment):
    found = environment(ONE)
    unknown = RouterKey(RouterId(OUTSIDE.id))
    for driver in (found.router, found.metadata):
        driver.machine.present[unknown] = "old"
    found.metadata.machine.present.pop(unknown)
    found.source.away = True
    snapshot = found.source.snapshot
    found.source.snapshot = _raise_unavailable
    found.turn()
    assert unknown in found.machine.present
    found.source.away, found.source.snapshot = False, snapshot
    found.ready(pace=1.0)
    assert unknown not in found.machine.present
    assert found.machine.history[0] == f"remove {unknown}"


@pytest.mark.spec("L3-05", "L3-12")
def test_garbage_that_cannot_be_removed_is_degraded_and_blocks_nothing_else(environment):
    found = environment(ONE)
    stuck, other = RouterKey(router(30).id), RouterKey(router(31).id)
    found.machine.present |= dict.fromkeys((stuck, other), "old")
    found.machine.unremovable[stuck] = "it is in use"
    found.until(lambda status: found.interface.initialized == {Service.L3})
    status = found.until(lambda status: found.report(ONE) == ("ACTIVE", ""))
    assert status.degraded["garbage"] == f"{stuck}: it is in use"
    assert stuck in found.machine.present
    assert other not in found.machine.present
    found.machine.unremovable.clear()
    found.ready(pace=1.0)
    assert stuck not in found.machine.present


@pytest.mark.spec("L3-05")
def test_router_whose_proxy_cannot_be_removed_stays_until_it_is(environment):
    # The fake refuses to remove a namespace before its proxy.
    found = environment()
    found.ready()
    found.agent.close()
    found.source.remove(assigned(EDGE))
    found.metadata.machine.unremovable[RouterKey(EDGE.id)] = "it does not end"
    found.begin()
    status = found.until(lambda status: bool(status.degraded))
    assert "it does not end" in status.degraded["garbage"]
    assert found.router.routers().keys() == {EDGE.id, INNER.id}
    found.metadata.machine.unremovable.clear()
    found.ready(pace=1.0)
    assert found.router.routers().keys() == {INNER.id}


@pytest.mark.spec("L3-05")
def test_error_of_one_piece_of_garbage_is_not_that_of_the_others(environment):
    found = environment()
    stuck, other = RouterKey(router(30).id), RouterKey(router(31).id)
    found.machine.present |= dict.fromkeys((stuck, other), "old")
    observe = found.router.observe

    def fail_for_stuck(scope):
        if scope is None or scope.complete or stuck in scope.drop:
            raise BackendBroken("a namespace cannot be read")
        return observe(scope)

    found.router.observe = fail_for_stuck
    status = found.until(lambda status: bool(status.degraded))
    assert status.degraded["garbage"] == f"{stuck}: a namespace cannot be read"
    assert other not in found.machine.present


def test_agent_that_finds_the_machine_locked_reports_nothing_until_it_is_free(environment):
    found = environment(ONE)
    found.router.machine.present[FloatingIpKey(ONE.id)] = "another agent's"
    converge = found.router.converge
    found.router.converge = _raise_locked
    status = found.until(lambda status: bool(status.errors))
    assert (status.errors, status.degraded) == (
        {"the lock against a second agent": "process 7 works here"},
        {},
    )
    assert found.turn(after=1.0).waiting == {}
    assert (found.report(EDGE), found.report(ONE)) == (None, None)
    assert not found.source.heartbeats()
    found.router.converge = converge
    found.ready(pace=1.0)
    assert found.report(ONE) == ("ACTIVE", "")


def _raise_locked(update):
    raise BackendLocked("process 7 works here")


def _raise_unavailable(subscription):
    raise BackendUnavailable("unavailable")
