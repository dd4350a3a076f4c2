"""The loop of every agent, on a clock that the test sets."""

import json
import time

import pytest
from attrs import evolve

from netfw.agents.common.agent import Counts
from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.agents.common.status import StatusFile
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import BackendUnavailable, ConfigError, Conflict, DriverCrashed
from netfw.model.binding import Binding
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.plan import Outcome
from netfw.state.memory_source import MemorySource
from tests.unit.agents.common.environment import L2AgentEnvironment, in_another_thread
from tests.unit.agents.common.loop_samples import ALL, ONE, THREE, TWO, reported
from tests.unit.agents.l2.environment import HERE, NET, OTHER, SEGMENT, THERE, port


@pytest.mark.spec("L2-44")
def test_it_is_ready_when_everything_has_converged(env):
    assert not env.status.ready
    status = env.turn()
    assert status.ready
    assert status.last == Counts(added=3)
    assert env.switch.live() == {ONE.id, TWO.id, THREE.id}
    assert env.pause() is None


@pytest.mark.spec("L2-14")
def test_active_ports_are_reported_in_one_message_with_revision_and_host(env):
    messages = []
    report = env.source.report
    env.source.report = lambda reports: messages.append(reports) or report(reports)
    env.turn()
    statuses = [m for m in messages if any(hasattr(r, "ref") for r in m)]
    assert len(statuses) == 1
    assert {(r.ref.id, r.revision, r.host, r.status) for r in statuses[0]} == {
        (each.id, 1, HERE, Status.ACTIVE) for each in (ONE, TWO, THREE)
    }
    env.switch.unplug(ONE.id)
    env.turn()
    assert [r.status for r in messages[-1]] == [Status.DOWN]


def test_a_turn_without_news_does_nothing(env):
    env.turn()
    passes, pulls = env.status.passes, env.source.pulls
    env.turn(3600)
    assert (env.status.passes, env.source.pulls) == (passes, pulls)


@pytest.mark.spec("L2-40")
def test_nothing_is_removed_before_everything_is_known(env):
    stale = NetworkKey(NET.id)
    env.machine.present[stale] = "left by a former run"
    env.source.away = True
    env.turn()
    assert not env.status.ready
    assert env.machine.present == {stale: "left by a former run"}
    assert env.machine.history == []
    env.source.remove(*(ref(each) for each in ALL))
    env.source.away = False
    env.turn(1)
    assert env.status.ready
    assert env.machine.present == {}


@pytest.mark.spec("L2-40")
def test_a_new_agent_on_an_unchanged_host_changes_nothing(env):
    env.turn()
    done = list(env.machine.history)
    env.begin()
    assert env.turn().ready
    assert env.machine.history == done


@pytest.mark.spec("L2-16")
def test_a_port_that_fails_is_tried_again_with_growing_pauses_for_ever(env):
    key = PortKey(ONE.id)
    env.machine.refused[key] = "no room"
    status = env.turn()
    assert status.degraded == {str(key): "no room"}
    assert not status.ready
    assert reported(env) == {
        ONE.id: Status.DEGRADED, TWO.id: Status.ACTIVE, THREE.id: Status.ACTIVE,
    }  # fmt: skip
    pauses = []
    for _ in range(6):
        start = env.clock.time
        tries = env.status.passes
        while env.status.passes == tries:
            env.turn(env.pause())
        pauses.append(env.clock.time - start)
    assert pauses == [1, 2, 4, 8, 8, 8]
    assert env.status.lag == sum(pauses)
    del env.machine.refused[key]
    assert env.turn(8).ready
    assert reported(env)[ONE.id] is Status.ACTIVE


@pytest.mark.spec("L2-16")
def test_a_port_that_fails_causes_no_work_for_others(env):
    env.machine.refused[PortKey(ONE.id)] = "no room"
    env.turn()
    done = list(env.machine.history)
    for _ in range(5):
        env.turn(8)
    assert env.status.last == Counts(failed=1)
    assert env.machine.history == done


@pytest.mark.spec("L2-16", "DRV-05")
def test_a_crash_over_one_port_is_contained_to_it(env):
    env.machine.crashing.add(PortKey(ONE.id))
    status = env.turn()
    assert env.switch.live() == {TWO.id, THREE.id}
    assert status.degraded.keys() == {str(PortKey(ONE.id))}
    assert "makes the driver crash" in status.degraded[str(PortKey(ONE.id))]


def test_a_changed_value_is_tried_at_once_although_the_former_one_failed(env):
    env.machine.refused[PortKey(ONE.id)] = "no room"
    env.turn()
    env.turn(1)
    del env.machine.refused[PortKey(ONE.id)]
    env.source.put(evolve(ONE, mac="fa:16:3e:00:00:99"))
    assert env.turn().ready


def test_the_noise_of_a_failing_attempt_does_not_make_the_loop_spin(env):
    key = PortKey(ONE.id)
    env.machine.refused[key] = "no room"
    env.turn()
    for _ in range(10):
        env.machine.notify(KeysChanged("an echo", {key}))
        env.turn(0.1)
    assert env.status.total.failed == 1 + 1


@pytest.mark.spec("L2-11")
def test_a_port_without_a_number_waits_and_goes_on_when_it_comes(env):
    env.switch.plug(ONE.id, ofport=None, quiet=True)
    status = env.turn()
    assert status.waiting == {str(PortKey(ONE.id)): "its ofport"}
    assert not status.ready
    assert env.switch.live() == {TWO.id, THREE.id}
    env.switch.plug(ONE.id)
    assert env.turn().ready
    assert reported(env)[ONE.id] is Status.ACTIVE


def test_a_port_whose_network_failed_goes_on_with_the_network(env):
    env.machine.refused[NetworkKey(OTHER.id)] = "no VLAN is left"
    assert env.turn().waiting == {str(PortKey(THREE.id)): "its network"}
    env.machine.refused.clear()
    env.source.put(evolve(OTHER, mtu=1300))
    assert env.turn().ready  # although the port itself would be tried only later


@pytest.mark.spec("L2-10")
def test_a_port_that_is_plugged_later_is_wired_by_its_event_alone(env):
    env.turn()
    late = port(4, NET)
    env.source.put(late)
    env.turn()
    passes = env.status.passes
    in_another_thread(env.switch.plug, late.id)
    env.turn()
    assert late.id in env.switch.live()
    assert env.status.last == Counts(added=1)
    assert env.status.passes == passes + 1


@pytest.mark.spec("L2-11")
def test_drift_is_repaired(env):
    env.turn()
    env.machine.disturb(PortKey(TWO.id))
    env.turn()
    assert env.switch.live() == {ONE.id, TWO.id, THREE.id}
    assert env.status.last == Counts(updated=1)


@pytest.mark.spec("L2-08", "L2-12")
def test_a_port_deleted_at_the_source_is_cut_off_though_it_is_plugged(env):
    env.turn()
    env.source.remove(ref(ONE))
    env.turn()
    assert env.switch.live() == {TWO.id, THREE.id}
    assert env.status.last == Counts(removed=1)


@pytest.mark.spec("L2-12")
def test_unbound_device_is_dropped_when_it_is_plugged(env):
    env.turn()
    stray = port(9, NET)
    asked = []
    converge = env.switch.converge
    env.switch.converge = lambda update: (asked.append(update), converge(update))[1]
    env.switch.plug(stray.id)
    env.turn()
    assert [update.drop for update in asked] == [{PortKey(stray.id)}]
    assert env.status.ready
    assert env.status.counts == {"devices": 4, "ports": 3, "unbound_devices": 1}
    env.source.put(stray)
    env.turn()
    assert env.status.counts == {"devices": 4, "ports": 4, "unbound_devices": 0}


def test_an_audit_reads_the_machine_once_in_a_while():
    env = L2AgentEnvironment(*ALL, timing=Intervals(report=0, audit=600, pull=0))
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    env.machine.present.pop(PortKey(ONE.id))
    env.turn(599)
    assert (env.machine.rereads, env.switch.live()) == (0, set())
    env.turn(1)
    assert (env.machine.rereads, env.switch.live()) == (1, {ONE.id})
    assert env.pause() == 600


def test_an_audit_goes_on_without_a_driver_that_cannot_read_the_machine(caplog):
    env = L2AgentEnvironment(*ALL, timing=Intervals(report=0, audit=0, pull=0))
    env.switch.plug(ONE.id)
    env.turn()
    observe = env.switch.observe

    def crash(scope):
        if scope is None:
            raise ValueError("an odd object")
        return observe(scope)

    env.switch.observe = crash
    env.machine.present.pop(PortKey(ONE.id))
    env.loop.resync()
    env.turn()
    assert env.switch.live() == {ONE.id}
    assert "ValueError: an odd object" in env.status.errors["a complete pass"]
    assert (env.status.ready, env.status.degraded) == (False, {})
    assert "Traceback" in caplog.text
    env.turn(1)
    assert "a complete pass" in env.status.errors, "it is repeated, with a pause"
    assert caplog.messages.count("audit: fake: ValueError: an odd object") == 1
    del env.switch.observe
    env.turn(2)
    assert (env.status.ready, env.status.errors, env.machine.rereads) == (True, {}, 1)


def test_polling_finds_what_no_event_announced():
    env = L2AgentEnvironment(*ALL, timing=Intervals(report=0, audit=0, pull=0, poll=2))
    env.turn()
    env.switch.plug(ONE.id, quiet=True)
    env.turn(2)
    assert env.switch.live() == {ONE.id}


def test_events_that_cannot_be_looked_at_have_all_devices_looked_at(env):
    env.turn()
    hear = env.work.handle_events

    def unanswered(events):
        env.work.handle_events = hear
        raise BackendUnavailable("the switch does not answer")

    env.work.handle_events = unanswered
    env.switch.unplug(ONE.id)
    env.turn()
    assert env.switch.live() == {TWO.id, THREE.id}
    assert reported(env)[ONE.id] is Status.DOWN


@pytest.mark.parametrize("error", [BackendUnavailable("no answer"), RuntimeError("a defect")])
def test_a_source_that_cannot_be_watched_is_tried_again(error):
    env = L2AgentEnvironment(*ALL)
    watch, tries = env.source.watch, []

    def fails_twice(interest, hint):
        tries.append(interest)
        if len(tries) < 3:
            raise error
        return watch(interest, hint)

    env.source.watch = fails_twice
    timing = Intervals(report=0, audit=0, pull=0, pauses=RetryBackoff(0.01, 0.02))
    loop = Loop(env.source, env.work, lambda: timing)
    env.switch.plug(ONE.id, quiet=True)
    with run_in_thread(loop):
        assert loop.wait_for(lambda status: status.ready and not status.errors, 10)
        assert len(tries) == 3
        env.source.put(evolve(ONE, binding=Binding(host=THERE)))
        assert loop.wait_for(lambda status: status.total.removed == 1, 10)


def test_a_configuration_that_the_host_contradicts_ends_the_loop(env):
    def facts():
        raise ConfigError("bridge br-ex does not exist: ovs-vsctl add-br br-ex")

    env.switch.host_facts = facts
    with pytest.raises(ConfigError, match="add-br"), run_in_thread(env.loop):
        pass


def test_a_defect_in_learning_begins_anew(env):
    env.turn()
    learn = env.work.apply_delta
    env.work.apply_delta = lambda change: 1 / 0
    env.source.put(evolve(ONE, admin_up=False))
    assert "ZeroDivisionError" in env.turn().errors["the source"]
    env.work.apply_delta = learn
    env.source.remove(ref(TWO))
    assert env.turn(1).ready
    assert env.switch.live() == {THREE.id}


def test_what_is_gone_since_a_defect_in_learning_is_removed(env):
    env.turn()
    learn = env.work.apply_delta
    env.work.apply_delta = lambda change: 1 / 0
    env.source.remove(ref(THREE))
    env.turn()
    env.work.apply_delta = learn
    assert env.turn(1).ready
    assert {NetworkKey(OTHER.id), PortKey(THREE.id)}.isdisjoint(env.machine.present)


@pytest.mark.spec("DRV-48")
def test_a_turn_that_hangs_can_be_seen_from_outside(env):
    busy = []
    changes = env.source.changes

    def hang(subscription, since):
        env.clock.time += 400
        busy.append(env.loop.busy_for())
        return changes(subscription, since)

    env.source.changes = hang
    env.turn()
    assert busy == [400]
    assert env.loop.busy_for() == 0


def test_the_loop_runs_in_a_thread_until_it_is_stopped(tmp_path):
    env = L2AgentEnvironment(*ALL)
    path = tmp_path / "status" / "agent.json"
    loop = Loop(env.source, env.work, Intervals, publish=StatusFile(path))
    with run_in_thread(loop):
        assert loop.wait_for(lambda status: status.ready, 10)
        env.switch.plug(ONE.id)
        assert loop.wait_for(lambda status: status.total.added == 1, 10)
        env.source.put(evolve(ONE, binding=Binding(host=THERE)))
        assert loop.wait_for(lambda status: status.total.removed == 1, 10)
        deadline = time.monotonic() + 60
        while json.loads(path.read_text())["total"]["removed"] != 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert env.switch.plugged  # it leaves everything as it is


def test_retry_queue_keeps_since_when_a_key_differs():
    agenda = RetryQueue(RetryBackoff(1, 60))
    agenda.add(["a"], 10)
    agenda.record(Outcome(failed={"a": Conflict("no")}), 11)
    agenda.add(["a"], 20)
    assert (agenda.oldest(), agenda.due(20), agenda.degraded) == (10, {"a"}, {})
    agenda.record(Outcome(done=frozenset({"a"})), 21)
    assert (agenda.oldest(), len(agenda)) == (None, 0)


def test_pauses_do_not_grow_beyond_the_longest():
    assert [RetryBackoff(1, 60).after(n) for n in (1, 2, 7, 10_000)] == [1, 2, 60, 60]


def test_every_failure_is_an_error_of_ours(env):
    env.machine.crashing.add(PortKey(ONE.id))
    env.turn()
    error = env.loop._retries._pending[PortKey(ONE.id)].error
    assert isinstance(error, DriverCrashed)


def test_two_agents_in_one_process_do_not_know_each_other():
    first, second = L2AgentEnvironment(*ALL), L2AgentEnvironment(NET, SEGMENT, ONE)
    for each in (first, second):
        each.switch.plug(ONE.id, quiet=True)
        each.turn()
    first.source.remove(ref(ONE))
    first.turn()
    second.turn()
    assert (first.switch.live(), second.switch.live()) == (set(), {ONE.id})
    assert isinstance(first.source, MemorySource)
