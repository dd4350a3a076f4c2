"""The agent loop while the switch restarts, is dead or does not answer."""

import pytest

from netfw.drivers.values.events import BackendRecovered, FeedLost
from netfw.drivers.values.keys import NetworkKey
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.common.loop_samples import ONE, THREE, TWO
from tests.unit.agents.l2.environment import NET


@pytest.mark.spec("L2-41")
def test_a_restarted_switch_is_rebuilt(env):
    env.turn()
    before = dict(env.machine.present)
    env.machine.restart()
    env.turn()
    assert env.machine.present == before
    assert env.status.ready


@pytest.mark.spec("L2-41")
def test_while_the_switch_is_dead_the_agent_waits_and_says_so(env):
    env.turn()
    env.machine.online = False
    env.machine.restart()
    status = env.turn()
    assert status.errors == {"a complete pass": "the machine does not answer"}
    assert not status.ready
    env.turn(1)
    env.machine.online = True
    env.turn(env.pause())
    assert env.status.ready
    assert env.switch.live() == {ONE.id, TWO.id, THREE.id}


def test_connections_that_the_first_pass_sets_up_cause_no_warning(env, caplog):
    caplog.set_level("INFO")
    devices = env.switch.devices

    def reconnect():
        env.machine.notify(FeedLost("br-int does not answer"))
        env.switch.devices = devices
        return devices()

    env.switch.devices = reconnect
    env.turn()
    env.turn()
    env.machine.notify(FeedLost("br-int does not answer"))
    env.turn()
    lost = [each.levelname for each in caplog.records if "change feed lost" in each.message]
    assert lost == ["INFO", "WARNING"]


def test_a_switch_that_keeps_saying_that_it_is_dead_does_not_make_the_loop_spin(env):
    env.turn()
    env.machine.online = False
    asked = []
    devices = env.switch.devices
    env.switch.devices = lambda: (asked.append(env.clock.time), devices())[1]
    for _ in range(20):
        env.machine.notify(FeedLost("the machine does not answer"))
        env.turn(0.1)
    assert len(asked) <= 3
    env.machine.online = True
    assert env.turn(8).ready


@pytest.mark.spec("L2-41")
def test_a_switch_that_answers_again_is_rebuilt_before_the_pause_of_the_failed_pass(env):
    env.turn()
    env.machine.online = False
    env.machine.restart()
    assert not env.turn().ready
    env.machine.online = True
    env.machine.notify(BackendRecovered("the machine answers again"))
    env.turn(0.02)
    assert env.turn(env.pause()).ready
    assert env.clock.time < 1000.1
    assert env.switch.live() == {ONE.id, TWO.id, THREE.id}


def test_a_switch_that_keeps_answering_and_failing_does_not_make_the_loop_spin(env):
    env.turn()
    env.machine.online = False
    asked = []
    devices = env.switch.devices
    env.switch.devices = lambda: (asked.append(env.clock.time), devices())[1]
    for _ in range(100):
        env.machine.notify(BackendRecovered("the machine answers again"))
        env.turn(0.01)
    assert len(asked) <= 21


def test_locks_of_a_host_that_answers_again_are_acquired_before_the_pause(env):
    env.machine.online = False
    assert env.turn().errors
    env.machine.online = True
    env.machine.notify(BackendRecovered("the machine answers again"))
    env.turn()
    assert env.turn(env.pause()).ready
    assert env.clock.time < 1000.1


def test_a_host_that_does_not_answer_at_the_start_is_waited_for(env):
    env.machine.online = False
    status = env.turn()
    assert status.errors == {"the lock against a second agent": "the machine does not answer"}
    env.machine.online = True
    assert env.turn(1).ready


def test_garbage_is_removed_although_the_switch_was_away_when_there_was_nothing_to_put():
    env = L2AgentEnvironment()
    env.machine.present[NetworkKey(NET.id)] = "garbage"
    converge, env.switch.converge = env.switch.converge, None
    env.turn()
    assert not env.status.ready
    env.switch.converge = converge
    env.turn(8)
    assert env.machine.present == {}
    assert env.status.ready
