"""Events with a delay: the backend is about to cause another one, and works until then."""

import pytest

from netfw.agents.common.agent import Counts
from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.errors import BackendError
from netfw.model.values.common_fields import Status
from netfw.plan import Outcome
from tests.unit.agents.common.loop_samples import ONE, reported
from tests.unit.agents.l2.environment import NET, port

LATE = port(4, NET)
KEY = PortKey(LATE.id)


@pytest.fixture
def plugged(env):
    """Return an agent that was notified of a port without an ofport and has not acted on it yet."""
    env.turn()
    env.source.put(LATE)
    env.turn()
    passes = env.status.passes
    env.reports.clear()
    env.switch.plugged[LATE.id] = SwitchDevice(name="tap4")
    env.machine.notify(KeysChanged("it was plugged", {KEY}, delay=5))
    assert not env.turn().ready
    env.turn(4.9)
    assert env.status.passes == passes
    assert env.reports == []
    return env


@pytest.mark.spec("L2-10")
def test_a_port_is_wired_in_one_pass_once_it_has_its_number(plugged):
    passes = plugged.status.passes
    plugged.switch.plug(LATE.id)
    assert plugged.turn().ready
    assert plugged.status.passes == passes + 1
    assert plugged.status.last == Counts(added=1)
    assert [report.status for report in plugged.reports] == [Status.ACTIVE]


@pytest.mark.spec("L2-11", "L2-14")
def test_a_port_that_gets_no_number_is_reported_with_the_reason_after_the_delay(plugged):
    assert plugged.pause() == pytest.approx(0.1)
    plugged.turn(0.1)
    assert plugged.status.waiting == {str(KEY): "its ofport"}
    assert reported(plugged)[LATE.id] is Status.DOWN


def test_a_delayed_event_does_not_delay_what_another_event_or_a_retry_is_due_for(env):
    env.turn()
    key = PortKey(ONE.id)
    env.machine.present.pop(key)
    env.machine.notify(KeysChanged("it was changed", {key}))
    env.machine.notify(KeysChanged("it will change", {key}, delay=5))
    assert env.turn().ready
    assert key in env.machine.present
    env.machine.refused[key] = "no room"
    env.machine.notify(KeysChanged("it was changed", {key}))
    env.turn()
    env.machine.refused.clear()
    env.machine.notify(KeysChanged("it will change", {key}, delay=50))
    assert env.turn(1).ready


def test_delayed_event_ends_a_longer_pause_between_retries():
    retries = RetryQueue(RetryBackoff(first=1, longest=60))
    for _ in range(7):
        retries.record(Outcome(failed={KEY: BackendError("no room")}), now=100)
    retries.add_later({KEY: 105}, now=101)
    assert retries.when(KEY) == 105
    retries.add_later({KEY: 300}, now=101)
    assert retries.when(KEY) == 105
