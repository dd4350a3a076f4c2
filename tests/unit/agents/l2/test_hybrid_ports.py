"""Ports that were plugged for a firewall on Linux bridges move to one in the switch."""

import pytest
from attrs import evolve

from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import SwitchDevice
from tests.unit.agents.l2.environment import NET, port
from tests.unit.agents.l2.firewall_samples import (
    GROUP,
    GUARDED,
    KEY,
    PORT,
    firewall,
    make_environment,
)

pytestmark = pytest.mark.spec("FW-13")

HYBRID = SwitchDevice(name="qvo1", ofport=1)
WARNING = "hybrid_firewall_driver fake"


def plug(env, device, of=GUARDED):
    env.switch.plugged[of.id] = device
    env.machine.notify(KeysChanged("it was plugged", {PortKey(of.id)}))


@pytest.fixture
def drivers():
    in_switch = firewall(FirewallCapability.IN_SWITCH, FirewallCapability.SPOOF_GUARD)
    bridges = firewall(FirewallCapability.HYBRID_PLUG, FirewallCapability.SPOOF_GUARD)
    return in_switch, bridges


@pytest.fixture
def env(drivers):
    """Return a host whose firewall driver changed and whose port still has the hybrid plug."""
    in_switch, bridges = drivers
    env = make_environment(bridges)
    plug(env, HYBRID)
    assert env.turn().ready
    env.begin(in_switch, hybrid=bridges)
    assert env.turn().ready
    return env


def test_a_hybrid_plug_stays_with_its_firewall_and_passes_that_of_the_switch(env, drivers):
    in_switch, bridges = drivers
    assert not bridges.machine.present[PORT].trusted
    assert in_switch.machine.present[PORT].trusted
    assert not env.machine.present[PORT].filtered
    assert env.switch.live() == {GUARDED.id}
    for driver in drivers:
        assert KEY in driver.machine.present
    assert "qvo1" in env.status.warnings[WARNING]


def test_a_port_moves_when_it_is_plugged_anew(env, drivers):
    in_switch, bridges = drivers
    in_switch.machine.refused[PORT] = "no room"
    env.switch.unplug(GUARDED.id)
    env.turn()
    plug(env, SwitchDevice(name="tap1", ofport=2))
    env.turn()
    assert env.switch.live() == frozenset()  # it has no filters yet
    in_switch.machine.refused.clear()
    assert env.turn(1).ready
    assert env.switch.live() == {GUARDED.id}
    assert not in_switch.machine.present[PORT].trusted
    assert env.machine.present[PORT].filtered
    assert PORT not in bridges.machine.present
    assert "no port has a hybrid plug any more" in env.status.warnings[WARNING]


def test_a_new_port_is_filtered_in_the_switch(env, drivers):
    in_switch, bridges = drivers
    new = port(2, NET, port_security=True, security_groups={GROUP.id})
    env.source.put(new)
    plug(env, SwitchDevice(name="tap2", ofport=2), new)
    assert env.turn().ready
    key = PortKey(new.id)
    assert not in_switch.machine.present[key].trusted
    assert env.machine.present[key].filtered
    assert bridges.machine.present.keys() == {PORT, KEY}


def test_a_hybrid_plug_without_its_filters_stays_on_hold(drivers):
    in_switch, bridges = drivers
    env = make_environment(in_switch)
    env.begin(in_switch, hybrid=bridges)
    bridges.machine.refused[PORT] = "no room"
    plug(env, HYBRID)
    env.turn()
    assert env.switch.live() == frozenset()
    bridges.machine.refused.clear()
    assert env.turn(1).ready
    assert env.switch.live() == {GUARDED.id}


def test_a_changed_group_changes_in_both_firewalls(env, drivers):
    env.source.put(evolve(GROUP, stateful=False, revision=2))
    for driver in drivers:
        driver.CAPABILITIES = (*driver.CAPABILITIES, FirewallCapability.STATELESS_GROUPS)
    assert env.turn().ready
    for driver in drivers:
        assert not driver.machine.present[KEY].stateful


def test_a_dry_run_shows_both_firewalls(env):
    parts = {part.name: part.update.put for part in env.work.everything()}
    assert set(parts) == {"switch", "hybrid firewall", "firewall"}
    assert (parts["hybrid firewall"][PORT].trusted, parts["firewall"][PORT].trusted) == (
        False,
        True,
    )
