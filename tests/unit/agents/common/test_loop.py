"""The loop that every agent has, with time in the test's hand."""

import json
import time

import pytest
from attrs import evolve

from netfw.agents.common.agent import Counts
from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.agents.common.status import AgentStatus, StatusFile
from netfw.drivers.events import FeedLost, KeysChanged
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.errors import BackendUnavailable, ConfigError, Conflict, DriverCrashed
from netfw.model.binding import Binding
from netfw.model.common_fields import Status
from netfw.model.resource import ref
from netfw.plan import Outcome
from netfw.state.memory_source import MemorySource
from tests.unit.agents.common.environment import World, in_another_thread
from tests.unit.agents.l2.environment import HERE, NET, OTHER, OTHER_SEGMENT, SEGMENT, THERE, port

ONE, TWO, THREE = port(1, NET), port(2, NET), port(3, OTHER)
ALL = (NET, SEGMENT, OTHER, OTHER_SEGMENT, ONE, TWO, THREE)


@pytest.fixture
def world():
    world = World(*ALL)
    for each in (ONE, TWO, THREE):
        world.switch.plug(each.id, quiet=True)
    return world


def reported(world):
    """The newest word on each port."""
    return {report.ref.id: report.status for report in world.said if hasattr(report, "ref")}


@pytest.mark.spec("L2-44")
def test_it_is_ready_when_everything_has_converged(world):
    assert not world.status.ready
    status = world.turn()
    assert status.ready
    assert status.last == Counts(added=3)
    assert world.switch.live() == {ONE.id, TWO.id, THREE.id}
    assert world.pause() is None


@pytest.mark.spec("L2-14")
def test_active_ports_are_reported_in_one_message_with_revision_and_host(world):
    messages = []
    report = world.source.report
    world.source.report = lambda reports: messages.append(reports) or report(reports)
    world.turn()
    statuses = [m for m in messages if any(hasattr(r, "ref") for r in m)]
    assert len(statuses) == 1
    assert {(r.ref.id, r.revision, r.host, r.status) for r in statuses[0]} == {
        (each.id, 1, HERE, Status.ACTIVE) for each in (ONE, TWO, THREE)
    }
    world.switch.unplug(ONE.id)
    world.turn()
    assert [r.status for r in messages[-1]] == [Status.DOWN]


def test_a_turn_without_news_does_nothing(world):
    world.turn()
    passes, pulls = world.status.passes, world.source.pulls
    world.turn(3600)
    assert (world.status.passes, world.source.pulls) == (passes, pulls)


@pytest.mark.spec("L2-40")
def test_nothing_is_removed_before_everything_is_known(world):
    stale = NetworkKey(NET.id)
    world.machine.present[stale] = "left by a former run"
    world.source.away = True
    world.turn()
    assert not world.status.ready
    assert world.machine.present == {stale: "left by a former run"}
    assert world.machine.history == []
    world.source.remove(*(ref(each) for each in ALL))
    world.source.away = False
    world.turn(1)
    assert world.status.ready
    assert world.machine.present == {}


@pytest.mark.spec("L2-40")
def test_a_new_agent_on_an_unchanged_host_changes_nothing(world):
    world.turn()
    done = list(world.machine.history)
    world.begin()
    assert world.turn().ready
    assert world.machine.history == done


@pytest.mark.spec("L2-16")
def test_a_port_that_fails_is_tried_again_with_growing_pauses_for_ever(world):
    key = PortKey(ONE.id)
    world.machine.refused[key] = "no room"
    status = world.turn()
    assert status.degraded == {str(key): "no room"}
    assert not status.ready
    assert reported(world) == {
        ONE.id: Status.DEGRADED, TWO.id: Status.ACTIVE, THREE.id: Status.ACTIVE,
    }  # fmt: skip
    pauses = []
    for _ in range(6):
        start = world.clock.time
        tries = world.status.passes
        while world.status.passes == tries:
            world.turn(world.pause())
        pauses.append(world.clock.time - start)
    assert pauses == [1, 2, 4, 8, 8, 8]
    assert world.status.lag == sum(pauses)
    del world.machine.refused[key]
    assert world.turn(8).ready
    assert reported(world)[ONE.id] is Status.ACTIVE


@pytest.mark.spec("L2-16")
def test_a_port_that_fails_causes_no_work_for_others(world):
    world.machine.refused[PortKey(ONE.id)] = "no room"
    world.turn()
    done = list(world.machine.history)
    for _ in range(5):
        world.turn(8)
    assert world.status.last == Counts(failed=1)
    assert world.machine.history == done


@pytest.mark.spec("L2-16", "DRV-05")
def test_a_crash_over_one_port_is_contained_to_it(world):
    world.machine.crashing.add(PortKey(ONE.id))
    status = world.turn()
    assert world.switch.live() == {TWO.id, THREE.id}
    assert status.degraded.keys() == {str(PortKey(ONE.id))}
    assert "makes the driver crash" in status.degraded[str(PortKey(ONE.id))]


def test_a_changed_value_is_tried_at_once_although_the_former_one_failed(world):
    world.machine.refused[PortKey(ONE.id)] = "no room"
    world.turn()
    world.turn(1)
    del world.machine.refused[PortKey(ONE.id)]
    world.source.put(evolve(ONE, mac="fa:16:3e:00:00:99"))
    assert world.turn().ready


def test_the_noise_of_a_failing_attempt_does_not_make_the_loop_spin(world):
    key = PortKey(ONE.id)
    world.machine.refused[key] = "no room"
    world.turn()
    for _ in range(10):
        world.machine.tell(KeysChanged("an echo", {key}))
        world.turn(0.1)
    assert world.status.total.failed == 1 + 1


@pytest.mark.spec("L2-11")
def test_a_port_without_a_number_waits_and_goes_on_when_it_comes(world):
    world.switch.plug(ONE.id, ofport=None, quiet=True)
    status = world.turn()
    assert status.waiting == {str(PortKey(ONE.id)): "its ofport"}
    assert not status.ready
    assert world.switch.live() == {TWO.id, THREE.id}
    world.switch.plug(ONE.id)
    assert world.turn().ready
    assert reported(world)[ONE.id] is Status.ACTIVE


def test_a_port_whose_network_failed_goes_on_with_the_network(world):
    world.machine.refused[NetworkKey(OTHER.id)] = "no VLAN is left"
    assert world.turn().waiting == {str(PortKey(THREE.id)): "its network"}
    world.machine.refused.clear()
    world.source.put(evolve(OTHER, mtu=1300))
    assert world.turn().ready  # although the port itself would be tried only later


@pytest.mark.spec("L2-10")
def test_a_port_that_is_plugged_later_is_wired_by_its_event_alone(world):
    world.turn()
    late = port(4, NET)
    world.source.put(late)
    world.turn()
    passes = world.status.passes
    in_another_thread(world.switch.plug, late.id)
    world.turn()
    assert late.id in world.switch.live()
    assert world.status.last == Counts(added=1)
    assert world.status.passes == passes + 1


@pytest.mark.spec("L2-11")
def test_drift_is_repaired(world):
    world.turn()
    world.machine.disturb(PortKey(TWO.id))
    world.turn()
    assert world.switch.live() == {ONE.id, TWO.id, THREE.id}
    assert world.status.last == Counts(updated=1)


@pytest.mark.spec("L2-08", "L2-12")
def test_a_port_deleted_at_the_source_is_cut_off_though_it_is_plugged(world):
    world.turn()
    world.source.remove(ref(ONE))
    world.turn()
    assert world.switch.live() == {TWO.id, THREE.id}
    assert world.status.last == Counts(removed=1)


@pytest.mark.spec("L2-12")
def test_unbound_device_is_dropped_when_it_is_plugged(world):
    world.turn()
    stray = port(9, NET)
    asked = []
    converge = world.switch.converge
    world.switch.converge = lambda update: (asked.append(update), converge(update))[1]
    world.switch.plug(stray.id)
    world.turn()
    assert [update.drop for update in asked] == [{PortKey(stray.id)}]
    assert world.status.ready
    assert world.status.counts == {"devices": 4, "ports": 3, "unbound_devices": 1}
    world.source.put(stray)
    world.turn()
    assert world.status.counts == {"devices": 4, "ports": 4, "unbound_devices": 0}


@pytest.mark.spec("L2-17")
def test_late_doubled_and_empty_notifications_are_harmless(world):
    world.turn()
    done = list(world.machine.history)
    for _ in range(3):
        world.loop.notify()
        world.turn()
    assert world.machine.history == done
    assert world.source.pulls == 1 + 3  # the first one completes the snapshot


def test_lost_notification_costs_only_time():
    world = World(*ALL, timing=Intervals(report=0, audit=0, pull=30))
    world.switch.plug(ONE.id, quiet=True)
    world.turn()
    world.source._watches.clear()
    world.source.put(evolve(ONE, admin_up=False))
    world.turn()
    assert world.switch.live() == {ONE.id}
    world.turn(world.pause())
    assert world.switch.live() == set()


@pytest.mark.spec("L2-43")
def test_while_the_source_is_away_local_events_are_handled_from_the_cache(world):
    world.switch.unplug(ONE.id)
    world.turn()
    world.source.away = True
    world.loop.notify()
    status = world.turn()
    assert status.errors == {"the source": "the source does not answer"}
    assert status.ready
    world.switch.plug(ONE.id)
    world.switch.unplug(TWO.id)
    world.turn()
    assert world.switch.live() == {ONE.id, THREE.id}
    assert world.status.unsent == 2


@pytest.mark.spec("L2-43")
def test_reports_are_kept_and_caught_up_later(world):
    world.turn()
    world.source.away = True
    for _ in range(3):
        world.switch.unplug(TWO.id)
        world.turn(1)
        world.switch.plug(TWO.id)
        world.turn(1)
    world.switch.unplug(TWO.id)
    world.turn(1)
    world.said.clear()
    world.source.away = False
    world.turn(world.pause())
    assert [(r.ref.id, r.status) for r in world.said] == [(TWO.id, Status.DOWN)]
    assert world.status.unsent == 0
    assert world.status.errors == {}


def test_source_outage_is_retried_with_back_off(world):
    world.source.away = True
    pauses = []
    for _ in range(5):
        world.turn(pauses[-1] if pauses else 0)
        pauses.append(world.loop._tasks.next_due(started=True, known=False) - world.clock.time)
    assert pauses == [1, 2, 4, 8, 8]


def test_a_lost_cursor_means_a_snapshot_and_a_comparison(world):
    world.turn()
    done = list(world.machine.history)
    world.source.put(evolve(ONE, admin_up=False))
    world.source.remove(ref(TWO))
    world.source.forget_history()
    world.turn()
    assert world.switch.live() == {THREE.id}
    assert len(world.machine.history) == len(done) + 3  # the network of both goes too


def test_reports_are_resent_to_a_restored_source(world):
    world.turn()
    world.said.clear()
    world.source.restore(*ALL)
    world.turn()
    assert reported(world).keys() == {ONE.id, TWO.id, THREE.id}


@pytest.mark.spec("L2-45")
def test_a_resync_compares_everything_and_changes_nothing(world):
    world.turn()
    done = list(world.machine.history)
    pulls = world.source.pulls
    in_another_thread(world.loop.resync)
    assert world.turn().ready
    assert world.machine.history == done
    assert world.machine.rereads == 1
    assert world.source.pulls == pulls + 1
    assert reported(world).keys() == {ONE.id, TWO.id, THREE.id}


@pytest.mark.spec("L2-45")
def test_a_resync_finds_what_no_feed_announced(world):
    world.turn()
    world.machine.present.pop(PortKey(ONE.id))
    world.machine.present[NetworkKey(port(99, NET).id)] = "garbage"
    world.loop.resync()
    world.turn()
    assert world.switch.live() == {ONE.id, TWO.id, THREE.id}
    assert len(world.machine.present) == 5


@pytest.mark.spec("L2-45", "DHCP-08")
def test_agent_considered_dead_compares_everything():
    world = World(*ALL, timing=Intervals(report=30, audit=0, pull=0))
    world.switch.plug(ONE.id, quiet=True)
    world.turn()
    world.machine.present.pop(PortKey(ONE.id))
    pulls = world.source.pulls
    world.turn(after=31.0)
    world.turn()
    assert (world.machine.rereads, world.source.pulls) == (0, pulls), "not considered dead"
    world.source.considered_dead = True
    world.turn(after=31.0)
    assert world.turn().ready
    assert (world.machine.rereads, world.source.pulls) == (1, pulls + 1)
    assert world.switch.live() == {ONE.id}


@pytest.mark.spec("L2-41")
def test_a_restarted_switch_is_rebuilt(world):
    world.turn()
    before = dict(world.machine.present)
    world.machine.restart()
    world.turn()
    assert world.machine.present == before
    assert world.status.ready


@pytest.mark.spec("L2-41")
def test_while_the_switch_is_dead_the_agent_waits_and_says_so(world):
    world.turn()
    world.machine.online = False
    world.machine.restart()
    status = world.turn()
    assert status.errors == {"a complete pass": "the machine does not answer"}
    assert not status.ready
    world.turn(1)
    world.machine.online = True
    world.turn(world.pause())
    assert world.status.ready
    assert world.switch.live() == {ONE.id, TWO.id, THREE.id}


def test_a_switch_that_keeps_saying_that_it_is_dead_does_not_make_the_loop_spin(world):
    world.turn()
    world.machine.online = False
    asked = []
    devices = world.switch.devices
    world.switch.devices = lambda: (asked.append(world.clock.time), devices())[1]
    for _ in range(20):
        world.machine.tell(FeedLost("the machine does not answer"))
        world.turn(0.1)
    assert len(asked) <= 3
    world.machine.online = True
    assert world.turn(8).ready


def test_a_host_that_does_not_answer_at_the_start_is_waited_for(world):
    world.machine.online = False
    status = world.turn()
    assert status.errors == {"the host": "the machine does not answer"}
    world.machine.online = True
    assert world.turn(1).ready


def test_garbage_is_removed_although_the_switch_was_away_when_there_was_nothing_to_put():
    world = World()
    world.machine.present[NetworkKey(NET.id)] = "garbage"
    converge, world.switch.converge = world.switch.converge, None
    world.turn()
    assert not world.status.ready
    world.switch.converge = converge
    world.turn(8)
    assert world.machine.present == {}
    assert world.status.ready


def test_an_audit_reads_the_machine_once_in_a_while():
    world = World(*ALL, timing=Intervals(report=0, audit=600, pull=0))
    world.switch.plug(ONE.id, quiet=True)
    world.turn()
    world.machine.present.pop(PortKey(ONE.id))
    world.turn(599)
    assert (world.machine.rereads, world.switch.live()) == (0, set())
    world.turn(1)
    assert (world.machine.rereads, world.switch.live()) == (1, {ONE.id})
    assert world.pause() == 600


def test_heartbeats_come_in_time_and_only_the_first_says_start():
    world = World(timing=Intervals(report=30, audit=0, pull=0))
    for _ in range(3):
        world.turn(30)
    assert [beat.start for beat in world.said] == [True, False, False]


def test_first_delivered_heartbeat_has_start():
    world = World(timing=Intervals(report=30, audit=0, pull=0))
    world.source.away = True
    world.turn()
    world.source.away = False
    world.turn(30)
    assert [beat.start for beat in world.said] == [True]


def test_polling_finds_what_no_event_announced():
    world = World(*ALL, timing=Intervals(report=0, audit=0, pull=0, poll=2))
    world.turn()
    world.switch.plug(ONE.id, quiet=True)
    world.turn(2)
    assert world.switch.live() == {ONE.id}


def test_events_that_cannot_be_looked_at_have_all_devices_looked_at(world):
    world.turn()
    hear = world.work.handle_events

    def unanswered(events):
        world.work.handle_events = hear
        raise BackendUnavailable("the switch does not answer")

    world.work.handle_events = unanswered
    world.switch.unplug(ONE.id)
    world.turn()
    assert world.switch.live() == {TWO.id, THREE.id}
    assert reported(world)[ONE.id] is Status.DOWN


@pytest.mark.parametrize("error", [BackendUnavailable("no answer"), RuntimeError("a defect")])
def test_a_source_that_cannot_be_watched_is_tried_again(error):
    world = World(*ALL)
    watch, tries = world.source.watch, []

    def fails_twice(interest, hint):
        tries.append(interest)
        if len(tries) < 3:
            raise error
        return watch(interest, hint)

    world.source.watch = fails_twice
    timing = Intervals(report=0, audit=0, pull=0, pauses=RetryBackoff(0.01, 0.02))
    loop = Loop(world.source, world.work, lambda: timing)
    world.switch.plug(ONE.id, quiet=True)
    with run_in_thread(loop):
        assert loop.wait_for(lambda status: status.ready and not status.errors, 10)
        assert len(tries) == 3
        world.source.put(evolve(ONE, binding=Binding(host=THERE)))
        assert loop.wait_for(lambda status: status.total.removed == 1, 10)


def test_a_configuration_that_the_host_contradicts_ends_the_loop(world):
    def facts():
        raise ConfigError("bridge br-ex does not exist: ovs-vsctl add-br br-ex")

    world.switch.host_facts = facts
    with pytest.raises(ConfigError, match="add-br"), run_in_thread(world.loop):
        pass


def test_a_defect_in_learning_begins_anew(world):
    world.turn()
    learn = world.work.apply_delta
    world.work.apply_delta = lambda change: 1 / 0
    world.source.put(evolve(ONE, admin_up=False))
    assert "ZeroDivisionError" in world.turn().errors["the source"]
    world.work.apply_delta = learn
    world.source.remove(ref(TWO))
    assert world.turn(1).ready
    assert world.switch.live() == {THREE.id}


def test_the_loop_runs_in_a_thread_until_it_is_stopped(tmp_path):
    world = World(*ALL)
    path = tmp_path / "status" / "agent.json"
    loop = Loop(world.source, world.work, Intervals, publish=StatusFile(path))
    with run_in_thread(loop):
        assert loop.wait_for(lambda status: status.ready, 10)
        world.switch.plug(ONE.id)
        assert loop.wait_for(lambda status: status.total.added == 1, 10)
        world.source.put(evolve(ONE, binding=Binding(host=THERE)))
        assert loop.wait_for(lambda status: status.total.removed == 1, 10)
        deadline = time.monotonic() + 10
        while json.loads(path.read_text())["total"]["removed"] != 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert world.switch.plugged  # it leaves everything as it is


def test_the_status_file_says_what_a_monitor_needs(tmp_path, caplog):
    path = tmp_path / "agent.json"
    status = AgentStatus(binary="b", host="h", degraded={"port 1": "no room"}, lag=1.23456)
    StatusFile(path)(status)
    found = json.loads(path.read_text())
    assert found["degraded"] == {"port 1": "no room"}
    assert (found["ready"], found["lag"], found["total"]["added"]) == (False, 1.235, 0)
    assert list(tmp_path.iterdir()) == [path]
    StatusFile(path / "impossible")(status)
    assert "cannot be written" in caplog.text


def test_a_status_file_that_cannot_be_removed_is_complained_about_and_no_more(tmp_path, caplog):
    path = tmp_path / "there" / "agent.json"
    written = StatusFile(path)
    written(AgentStatus(binary="agent", host="host"))
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("")
    written.remove()
    assert "cannot be removed" in caplog.text


def test_an_agent_that_never_wrote_a_status_leaves_that_of_another(tmp_path):
    path = tmp_path / "agent.json"
    StatusFile(path)(AgentStatus(binary="agent", host="host"))
    StatusFile(path).remove()
    assert path.exists()


def test_the_status_is_written_once_a_second_at_most_but_ready_at_once(world):
    world.source.away = True
    world.turn()
    world.source.away = False
    world.turn(1)
    assert [status.ready for status in world.published] == [False, True]
    for _ in range(10):
        world.machine.disturb(PortKey(ONE.id))
        world.turn(0.01)
    assert len(world.published) == 2
    world.turn(world.pause())
    assert world.published[-1] == world.status


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


def test_every_failure_is_an_error_of_ours(world):
    world.machine.crashing.add(PortKey(ONE.id))
    world.turn()
    error = world.loop._retries._pending[PortKey(ONE.id)].error
    assert isinstance(error, DriverCrashed)


def test_two_agents_in_one_process_do_not_know_each_other():
    first, second = World(*ALL), World(NET, SEGMENT, ONE)
    for each in (first, second):
        each.switch.plug(ONE.id, quiet=True)
        each.turn()
    first.source.remove(ref(ONE))
    first.turn()
    second.turn()
    assert (first.switch.live(), second.switch.live()) == (set(), {ONE.id})
    assert isinstance(first.source, MemorySource)
