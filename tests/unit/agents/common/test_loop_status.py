"""The agent loop's heartbeats and status file."""

import json

from netfw.agents.common.loop import Intervals
from netfw.agents.common.status import AgentStatus, StatusFile
from netfw.drivers.values.keys import PortKey
from netfw.errors import BackendUnavailable
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.common.loop_samples import ONE


def test_heartbeats_come_in_time_and_only_the_first_says_start():
    env = L2AgentEnvironment(timing=Intervals(report=30, audit=0, pull=0))
    for _ in range(3):
        env.turn(30)
    assert [beat.start for beat in env.reports] == [True, False, False]


def test_first_delivered_heartbeat_has_start():
    env = L2AgentEnvironment(timing=Intervals(report=30, audit=0, pull=0))
    env.source.away = True
    env.turn()
    env.source.away = False
    env.turn(30)
    assert [beat.start for beat in env.reports] == [True]


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


def test_the_status_is_written_once_a_second_at_most_but_ready_at_once(env):
    env.source.away = True
    env.turn()
    env.source.away = False
    env.turn(1)
    assert [status.ready for status in env.published[-2:]] == [False, True]
    written = len(env.published)
    for _ in range(10):
        env.machine.disturb(PortKey(ONE.id))
        env.turn(0.01)
    assert len(env.published) == written
    env.turn(env.pause())
    assert env.published[-1] == env.status


def test_an_agent_that_starts_has_a_status_before_its_source_answers(env, monkeypatch):
    # A call to a source that is away takes its whole timeout.
    written = []

    def fail():
        written.append(env.published[-1].errors if env.published else None)
        raise BackendUnavailable("the source does not answer")

    monkeypatch.setattr(env.source, "_answers", fail)
    env.turn()
    assert written == [{}, {"the source": "the source does not answer"}]


def test_a_new_error_is_written_at_once(env):
    # The loop may then wait long for a source that does not answer.
    env.turn()
    assert env.published[-1].ready
    env.source.away = True
    env.loop.notify()
    env.turn(0.01)
    assert env.published[-1].errors == {"the source": "the source does not answer"}
