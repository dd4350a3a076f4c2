"""The L2 agent and its firewall driver: capabilities, order, drift, a firewall that goes."""

import pytest
from attrs import evolve

from netfw.agents.l2.port_wiring import sources
from netfw.drivers.firewall import FirewallCapability, Rules
from netfw.drivers.values.events import FeedLost
from netfw.drivers.values.switch_values import Admission
from netfw.model.resource import ref
from netfw.model.values.protocol import UDPLITE
from tests.unit.agents.l2.firewall_samples import (
    BY_OFFICE,
    GROUP,
    GUARDED,
    KEY,
    OFFICE,
    OFFICE_MEMBER,
    PLAIN,
    PORT,
    AdmissionRecorder,
    firewall,
    make_environment,
    rule,
)


@pytest.mark.spec("FW-02")
def test_a_stateless_group_needs_a_driver_that_has_them():
    env = make_environment(unable := firewall(), evolve(GROUP, stateful=False, revision=2))
    env.turn()
    assert not env.status.ready
    assert env.status.degraded == {
        str(KEY): "the firewall driver 'fake' has no stateless groups, so this one allows nothing: "
        "make it stateful, or choose another firewall_driver"
    }
    assert unable.machine.present.keys() == {PORT}
    assert env.switch.live() == {GUARDED.id}
    env.source.put(evolve(GROUP, stateful=True, revision=3))
    assert env.turn().ready
    env.source.put(evolve(GROUP, stateful=False, revision=4))
    env.turn()
    assert KEY not in unable.machine.present  # what it allowed before ends as well


@pytest.mark.spec("FW-02")
def test_stateless_and_address_groups_go_to_a_driver_that_has_them():
    able = firewall(FirewallCapability.STATELESS_GROUPS, FirewallCapability.ADDRESS_GROUPS)
    stateless = evolve(GROUP, stateful=False, revision=2)
    assert make_environment(able, stateless, BY_OFFICE, OFFICE).turn().ready
    assert able.machine.present[KEY] == Rules(frozenset({PLAIN, BY_OFFICE}), stateful=False)
    assert OFFICE_MEMBER in able.machine.present


@pytest.mark.spec("FW-02")
def test_without_address_groups_the_other_rules_of_a_group_are_in_force():
    env = make_environment(unable := firewall(), BY_OFFICE, OFFICE)
    env.turn()
    assert env.status.degraded == {
        str(KEY): f"rule {BY_OFFICE.id}: the firewall has no address groups: name a prefix instead"
    }
    assert unable.machine.present.keys() == {PORT, KEY}
    assert unable.machine.present[KEY] == Rules(frozenset({PLAIN}))
    assert env.switch.live() == {GUARDED.id}
    env.source.remove(ref(BY_OFFICE))
    assert env.turn().ready


def test_rule_that_a_driver_cannot_enforce_leaves_the_changes_of_others_in_force():
    # A driver that would refuse the whole group because of the rule never gets it.
    ported = rule(43, protocol=UDPLITE, port_min=7, port_max=9)
    env = make_environment(unable := firewall(), ported)
    env.turn()
    assert unable.machine.present[KEY] == Rules(frozenset({PLAIN}))
    assert list(env.status.degraded) == [str(KEY)]
    assert str(ported.id) in env.status.degraded[str(KEY)]
    env.source.remove(ref(PLAIN))
    env.turn()
    assert unable.machine.present[KEY] == Rules()
    able = firewall(FirewallCapability.UDPLITE_PORTS)
    assert make_environment(able, ported).turn().ready
    assert able.machine.present[KEY] == Rules(frozenset({PLAIN, ported}))


def test_driver_without_filtering_causes_a_warning_and_refuses_nothing():
    env = make_environment(
        noop := firewall(filtering=False), evolve(GROUP, stateful=False, revision=2)
    )
    assert env.turn().ready
    assert KEY in noop.machine.present
    assert env.status.warnings == {
        "firewall_driver fake": "security groups of 1 port are not enforced; set another "
        "firewall_driver of [agent]"
    }
    assert [part.name for part in env.work.everything()] == ["switch"]


@pytest.mark.spec("FW-09", "FW-07")
def test_the_switch_knows_first_of_a_port_that_is_not_filtered_any_more():
    env = make_environment(driver := firewall())
    recorder = AdmissionRecorder(env.switch, driver)
    env.turn()
    recorder.seen.clear()
    env.source.put(evolve(GUARDED, port_security=False, security_groups=(), revision=2))
    assert env.turn().ready
    assert recorder.seen == [("switch", Admission.LIVE), ("firewall", True)]
    recorder.seen.clear()
    env.source.put(evolve(GUARDED, revision=3))
    assert env.turn().ready
    held, filters, live = recorder.seen
    assert (held, filters) == (("switch", Admission.HOLD), ("firewall", True))
    assert live == ("switch", Admission.LIVE)


@pytest.mark.spec("FW-05")
def test_port_on_hold_has_the_sources_of_its_filter_as_guard():
    env = make_environment(firewall())
    updates, converge = [], env.switch.converge
    env.switch.converge = lambda update: updates.append(update.put.get(PORT)) or converge(update)
    assert env.turn().ready
    _, held, live = updates  # the first update acquires the lock
    assert (held.admission, live.admission) == (Admission.HOLD, Admission.LIVE)
    assert held.guard == sources(GUARDED)


@pytest.mark.spec("L2-13")
def test_filters_stay_while_the_switch_cannot_dismiss_the_port():
    env = make_environment(driver := firewall())
    env.turn()
    env.machine.crashing.add(PORT)
    env.source.remove(ref(GUARDED))
    env.turn()
    assert PORT in driver.machine.present
    env.machine.notify(FeedLost("everything anew"))
    env.turn(1)
    assert PORT in driver.machine.present
    env.machine.crashing.clear()
    env.turn(9)
    assert env.status.ready
    assert (env.switch.live(), driver.machine.present) == (set(), {})


@pytest.mark.spec("L2-11")
def test_removed_filters_are_restored():
    env = make_environment(driver := firewall())
    env.turn()
    for key in (KEY, PORT):
        driver.machine.disturb(key)
        assert env.turn().ready
        assert key in driver.machine.present
    driver.machine.restart()
    assert env.turn().ready
    assert driver.machine.present.keys() == {KEY, PORT}


@pytest.mark.spec("L2-13", "L2-44")
def test_an_agent_is_not_ready_before_its_filters_are_there():
    env = make_environment(driver := firewall())
    driver.machine.online = False
    assert not env.turn().ready
    assert env.switch.live() == set()
    driver.machine.online = True
    assert env.turn(1).ready
    assert env.switch.live() == {GUARDED.id}


@pytest.mark.spec("L2-13", "FW-09")
def test_a_firewall_that_goes_away_leaves_live_ports_as_they_are_over_a_restart_too():
    env = make_environment(driver := firewall())
    env.turn()
    driver.machine.online = False
    env.begin(driver)
    env.switch.machine.sinks.append(lambda event: None)
    assert not env.turn().ready
    assert env.switch.live() == {GUARDED.id}
    assert "does not answer" in str(env.status.degraded)


@pytest.mark.spec("FW-09")
def test_a_host_gets_a_firewall_and_its_ports_stay_live_all_the_time():
    env = make_environment(None)
    env.turn()
    driver = firewall()
    recorder = AdmissionRecorder(env.switch, driver)
    env.begin(driver)
    assert env.turn().ready
    assert recorder.seen == [
        ("switch", Admission.HOLD), ("firewall", True), ("switch", Admission.LIVE),
    ]  # fmt: skip
    assert "remove" not in str(env.machine.history)
    assert driver.machine.present.keys() == {KEY, PORT}
