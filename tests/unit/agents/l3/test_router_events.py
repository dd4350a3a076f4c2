"""Events of routers for extensions: before and after each change."""

import pytest
from attrs import evolve

from netfw.drivers.support.router_directory import RouterAction, RouterDirectory, RouterPhase
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from tests.unit.agents.l3.environment import (
    EDGE,
    INNER,
    assigned,
    environments,
    floating_ip,
    router,
)

ONE = floating_ip(20, EDGE)
CREATED = (RouterAction.CREATE, RouterPhase.AFTER)
UPDATING, UPDATED = ((RouterAction.UPDATE, phase) for phase in RouterPhase)
DELETING, DELETED = ((RouterAction.DELETE, phase) for phase in RouterPhase)


@pytest.fixture
def environment():
    with environments() as make:
        yield make


class Observed:
    """An agent, the events of its router EDGE, and whether the router was there at each."""

    def __init__(self, make, *items):
        self.events, self.there = [], []
        directory = RouterDirectory()
        directory.watch(self.handle)
        self.agent = make(*items, directory=directory)

    def handle(self, event):
        if event.router == EDGE.id:
            self.events.append((event.action, event.phase))
            self.there.append(EDGE.id in self.agent.router.routers())

    def take(self):
        events, self.events = self.events, []
        there, self.there = self.there, []
        return list(zip(events, there, strict=True))


@pytest.mark.spec("L3-07")
def test_each_change_of_a_router_has_its_events(environment):
    observed = Observed(environment)
    found = observed.agent
    found.ready()
    assert observed.take() == [(CREATED, True)]
    for change in (evolve(EDGE, name="new", revision=2), ONE):
        found.source.put(change)
        found.ready()
    assert observed.take() == [(UPDATING, True), (UPDATED, True)], "a name changes nothing"
    found.source.remove(assigned(EDGE))
    found.ready()
    assert observed.take() == [(DELETING, True), (DELETED, False)]
    found.source.put(assigned(EDGE))
    found.ready()
    assert observed.take() == [(CREATED, True)]


@pytest.mark.spec("L3-07")
def test_failed_change_has_no_event_after_it(environment):
    observed = Observed(environment, ONE)
    found = observed.agent
    found.machine.refused[RouterKey(EDGE.id)] = "no"
    found.until(lambda status: status.degraded)
    assert observed.take() == []
    found.machine.refused = {FloatingIpKey(ONE.id): "no"}
    found.until(lambda status: EDGE.id in found.router.routers(), pace=1.0)
    assert observed.take() == [(CREATED, True)], "a floating IP fails alone"


@pytest.mark.spec("L3-07")
def test_listener_that_fails_disturbs_neither_the_router_nor_others(environment, caplog):
    directory = RouterDirectory()
    directory.watch(lambda event: 1 / 0)
    seen = []
    directory.watch(seen.append)
    found = environment(directory=directory)
    found.ready()
    assert {event.router for event in seen} == {EDGE.id, INNER.id}
    assert "ZeroDivisionError" in caplog.text


def test_garbage_has_no_events(environment):
    directory = RouterDirectory()
    seen = []
    directory.watch(seen.append)
    found = environment(directory=directory)
    found.machine.present[RouterKey(router(30).id)] = "old"
    found.ready()
    assert router(30).id not in {event.router for event in seen}
