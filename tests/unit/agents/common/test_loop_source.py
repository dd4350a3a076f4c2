"""The agent loop and its source: notifications, outages, snapshots, resyncs, reports."""

import pytest
from attrs import evolve

from netfw.agents.common.loop import Intervals
from netfw.agents.common.loop_tasks import LoopTask, LoopTaskSchedule
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import BackendUnavailable
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from tests.unit.agents.common.environment import L2AgentEnvironment, in_another_thread
from tests.unit.agents.common.loop_samples import ALL, ONE, THREE, TWO, reported
from tests.unit.agents.l2.environment import NET, port


@pytest.mark.spec("L2-17")
def test_late_doubled_and_empty_notifications_are_harmless(env):
    env.turn()
    done = list(env.machine.history)
    for _ in range(3):
        env.loop.notify()
        env.turn()
    assert env.machine.history == done
    assert env.source.pulls == 1 + 3  # the first one completes the snapshot


def test_lost_notification_costs_only_time():
    env = L2AgentEnvironment(*ALL, timing=Intervals(report=0, audit=0, pull=30))
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    env.source._watches.clear()
    env.source.put(evolve(ONE, admin_up=False))
    env.turn()
    assert env.switch.live() == {ONE.id}
    env.turn(env.pause())
    assert env.switch.live() == set()


@pytest.mark.spec("L2-43")
def test_while_the_source_is_away_local_events_are_handled_from_the_cache(env):
    env.switch.unplug(ONE.id)
    env.turn()
    env.source.away = True
    env.loop.notify()
    status = env.turn()
    assert status.errors == {"the source": "the source does not answer"}
    assert status.ready
    env.switch.plug(ONE.id)
    env.switch.unplug(TWO.id)
    env.turn()
    assert env.switch.live() == {ONE.id, THREE.id}
    assert env.status.unsent == 2


@pytest.mark.spec("L2-43")
def test_reports_are_kept_and_caught_up_later(env):
    env.turn()
    env.source.away = True
    for _ in range(3):
        env.switch.unplug(TWO.id)
        env.turn(1)
        env.switch.plug(TWO.id)
        env.turn(1)
    env.switch.unplug(TWO.id)
    env.turn(1)
    env.reports.clear()
    env.source.away = False
    env.turn(env.pause())
    assert [(r.ref.id, r.status) for r in env.reports] == [(TWO.id, Status.DOWN)]
    assert env.status.unsent == 0
    assert env.status.errors == {}


@pytest.mark.spec("L2-43")
def test_reports_are_sent_as_soon_as_the_source_answers_again(env):
    env.turn()
    env.source.away = True
    env.switch.unplug(TWO.id)
    for _ in range(5):
        env.turn(8)
    env.source.away = False
    env.reports.clear()
    env.loop.notify()
    env.turn(1)
    assert [(r.ref.id, r.status) for r in env.reports] == [(TWO.id, Status.DOWN)]
    assert env.status.errors == {}


def test_source_outage_is_retried_with_back_off_every_few_seconds():
    tasks = LoopTaskSchedule(RetryBackoff(1, 60))
    for task in (LoopTask.LOCK, LoopTask.START):
        tasks.record(task, None, 0.0)
    pauses = []
    for _ in range(8):
        tasks.record(LoopTask.PULL, BackendUnavailable("the source does not answer"), 100.0)
        pauses.append(tasks.next_due(started=True, known=True) - 100.0)
    assert pauses[:2] == [1, 2]
    assert all(2 <= pause <= 4 for pause in pauses[2:])
    assert len(set(pauses[3:])) > 1, "all agents of a site retry at the same time"


def test_a_lost_cursor_means_a_snapshot_and_a_comparison(env):
    env.turn()
    done = list(env.machine.history)
    env.source.put(evolve(ONE, admin_up=False))
    env.source.remove(ref(TWO))
    env.source.forget_history()
    env.turn()
    assert env.switch.live() == {THREE.id}
    assert len(env.machine.history) == len(done) + 3  # the network of both goes too


def test_reports_are_resent_to_a_restored_source(env):
    env.turn()
    env.reports.clear()
    env.source.restore(*ALL)
    env.turn()
    assert reported(env).keys() == {ONE.id, TWO.id, THREE.id}


@pytest.mark.spec("L2-45")
def test_a_resync_compares_everything_and_changes_nothing(env):
    env.turn()
    done = list(env.machine.history)
    pulls = env.source.pulls
    in_another_thread(env.loop.resync)
    assert env.turn().ready
    assert env.machine.history == done
    assert env.machine.rereads == 1
    assert env.source.pulls == pulls + 1
    assert reported(env).keys() == {ONE.id, TWO.id, THREE.id}


@pytest.mark.spec("L2-45")
def test_a_resync_finds_what_no_feed_announced(env):
    env.turn()
    env.machine.present.pop(PortKey(ONE.id))
    env.machine.present[NetworkKey(port(99, NET).id)] = "garbage"
    env.loop.resync()
    env.turn()
    assert env.switch.live() == {ONE.id, TWO.id, THREE.id}
    assert len(env.machine.present) == 5


@pytest.mark.spec("L2-45", "DHCP-08")
def test_agent_considered_dead_compares_everything():
    env = L2AgentEnvironment(*ALL, timing=Intervals(report=30, audit=0, pull=0))
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    env.machine.present.pop(PortKey(ONE.id))
    pulls = env.source.pulls
    env.turn(after=31.0)
    env.turn()
    assert (env.machine.rereads, env.source.pulls) == (0, pulls), "not considered dead"
    env.source.considered_dead = True
    env.turn(after=31.0)
    assert env.turn().ready
    assert (env.machine.rereads, env.source.pulls) == (1, pulls + 1)
    assert env.switch.live() == {ONE.id}


def test_changes_are_kept_when_the_errors_of_the_source_cannot_be_read(env, monkeypatch):
    env.turn()
    env.source.put(evolve(ONE, admin_up=False))

    def errors() -> tuple[str, ...]:
        raise BackendUnavailable("the source has no errors now")

    with monkeypatch.context() as patched:
        patched.setattr(env.source, "errors", errors)
        env.turn()
    env.turn(10.0)
    assert ONE.id not in env.switch.live()
    assert env.status.ready
