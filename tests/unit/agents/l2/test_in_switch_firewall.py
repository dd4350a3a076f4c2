"""Ports behind a firewall inside the switch."""

import pytest

from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.events import FeedLost
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.drivers.values.switch_values import Admission
from netfw.errors import ConfigError
from netfw.testing.fakes.switch import FakeSwitch
from tests.unit.agents.l2.environment import HERE, NET, port
from tests.unit.agents.l2.firewall_samples import (
    GROUP,
    GUARDED,
    PORT,
    AdmissionRecorder,
    firewall,
    make_environment,
)


@pytest.mark.spec("FW-01", "FW-07")
def test_ports_behind_a_firewall_in_the_switch_are_wired_as_filtered():
    trusted = port(2, NET, port_security=False)
    env = make_environment(firewall(FirewallCapability.IN_SWITCH), trusted)
    env.switch.plug(trusted.id, quiet=True)
    assert env.turn().ready
    assert env.machine.present[PORT].filtered
    assert not env.machine.present[PortKey(trusted.id)].filtered


def test_a_firewall_elsewhere_or_one_that_filters_nothing_leaves_the_switch_alone():
    for driver in (firewall(), firewall(FirewallCapability.IN_SWITCH, filtering=False), None):
        env = make_environment(driver)
        assert env.turn().ready
        assert not env.machine.present[PORT].filtered


@pytest.mark.spec("FW-09")
def test_a_port_is_left_to_the_firewall_in_the_switch_when_its_filters_are_there():
    env = make_environment(None)
    env.turn()
    driver = firewall(FirewallCapability.IN_SWITCH)
    driver.machine.refused[PORT] = "no room"
    env.begin(driver)
    env.turn()
    assert (env.switch.live(), env.machine.present[PORT].filtered) == ({GUARDED.id}, False)
    driver.machine.refused.clear()
    assert env.turn(1).ready
    assert (env.switch.live(), env.machine.present[PORT].filtered) == ({GUARDED.id}, True)


def test_a_firewall_inside_the_switch_needs_a_switch_that_lets_it():
    class Closed(FakeSwitch):
        CAPABILITIES = (HostCapability.PLAN,)

    with pytest.raises(ConfigError, match="choose another firewall_driver"):
        L2Agent(L2AgentConfig(host=HERE), Closed(), firewall=firewall(FirewallCapability.IN_SWITCH))
    L2Agent(L2AgentConfig(host=HERE), Closed(), firewall=firewall())


NEW = port(5, NET, port_security=True, security_groups=frozenset({GROUP.id}))
NEW_KEY = PortKey(NEW.id)


def converged(env, *drivers):
    """Return a list that records each converge of the new port: the driver and the admission."""
    calls = []

    def recorded(name, converge):
        def record(update):
            value = update.put.get(NEW_KEY)
            if value is not None:
                calls.append((name, getattr(value, "admission", None)))
            return converge(update)

        return record

    for name, driver in (("switch", env.switch), *(("firewall", each) for each in drivers)):
        driver.converge = recorded(name, driver.converge)
    return calls


def plug_new(env):
    env.source.put(NEW)
    env.switch.plug(NEW.id)


@pytest.mark.spec("L2-13")
@pytest.mark.parametrize("capabilities", [(), (FirewallCapability.IN_SWITCH,)])
def test_new_port_is_held_then_filtered_then_live(capabilities):
    env = make_environment(driver := firewall(*capabilities))
    env.turn()
    calls = converged(env, driver)
    plug_new(env)
    assert env.turn().ready
    assert calls == [("switch", Admission.HOLD), ("firewall", None), ("switch", Admission.LIVE)]


@pytest.mark.spec("L2-13")
def test_new_port_without_a_number_is_held():
    env = make_environment(driver := firewall(FirewallCapability.IN_SWITCH))
    env.turn()
    calls = converged(env, driver)
    env.source.put(NEW)
    env.switch.plug(NEW.id, ofport=None)
    env.turn()
    assert calls == [("switch", Admission.HOLD)]


@pytest.mark.spec("L2-13")
def test_new_port_whose_filters_are_refused_is_held_and_retried():
    env = make_environment(driver := firewall(FirewallCapability.IN_SWITCH))
    env.turn()
    driver.machine.refused[NEW_KEY] = "no room"
    plug_new(env)
    env.turn()
    assert env.status.degraded == {str(NEW_KEY): "no room"}
    assert env.machine.present[NEW_KEY].admission is Admission.HOLD
    driver.machine.refused.clear()
    assert env.turn(1).ready
    assert env.machine.present[NEW_KEY].admission is Admission.LIVE
    assert NEW_KEY in driver.machine.present


def lose_everything(env, driver):
    """Restart the switch, which has the filters as well."""
    driver.machine.present.clear()
    env.machine.restart()


@pytest.mark.spec("L2-41")
def test_a_switch_that_lost_all_flows_is_filtered_and_then_wired_once():
    env = make_environment(driver := firewall(FirewallCapability.IN_SWITCH))
    env.turn()
    recorder = AdmissionRecorder(env.switch, driver)
    lose_everything(env, driver)
    assert env.turn().ready
    assert recorder.seen == [("firewall", True), ("switch", Admission.LIVE)]
    assert driver.machine.present.keys() >= {PORT, GroupKey(GROUP.id)}


@pytest.mark.spec("L2-13", "L2-41")
def test_a_port_whose_filters_are_refused_after_a_loss_is_held():
    env = make_environment(driver := firewall(FirewallCapability.IN_SWITCH))
    env.turn()
    driver.machine.refused[PORT] = "no room"
    lose_everything(env, driver)
    env.turn()
    assert (env.switch.live(), env.status.degraded) == (frozenset(), {str(PORT): "no room"})
    driver.machine.refused.clear()
    assert env.turn(1).ready
    assert env.switch.live() == {GUARDED.id}


@pytest.mark.spec("L2-13", "L2-41")
@pytest.mark.parametrize("case", ["a firewall elsewhere", "a new port", "nothing is lost"])
def test_ports_are_held_first_unless_only_the_flows_are_lost(case):
    in_switch = case != "a firewall elsewhere"
    env = make_environment(driver := firewall(*(FirewallCapability.IN_SWITCH,) * in_switch))
    env.turn()
    recorder = AdmissionRecorder(env.switch, driver)
    if case == "nothing is lost":
        env.machine.notify(FeedLost("the connection was lost"))
    else:
        lose_everything(env, driver)
    if case == "a new port":
        env.source.put(NEW)
        env.switch.plug(NEW.id, quiet=True)
    assert env.turn().ready
    assert [step for step, _ in recorder.seen] == ["switch", "firewall", "switch"]
    assert recorder.seen[0] == ("switch", Admission.HOLD)
