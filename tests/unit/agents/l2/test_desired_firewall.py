"""The L2 agent and its firewall driver: capabilities, order, drift, drivers that come and go."""

from ipaddress import ip_network

import pytest
from attrs import evolve

from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.agents.l2.port_wiring import sources
from netfw.drivers.firewall import FirewallCapability, Member, Rules
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.events import FeedLost
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.drivers.values.switch_values import Admission
from netfw.errors import ConfigError
from netfw.model.ids import AddressGroupId, SecurityGroupId, SecurityGroupRuleId
from netfw.model.resource import ref
from netfw.model.security_group import AddressGroup, Direction, SecurityGroup, SecurityGroupRule
from netfw.testing.fakes.switch import FakeFirewall, FakeSwitch
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import HERE, NET, SEGMENT, THERE, port, uuid

OFFICE = AddressGroup(
    id=AddressGroupId(uuid(45)), addresses=frozenset({ip_network("192.0.2.0/24")}), revision=1
)
GROUP = SecurityGroup(id=SecurityGroupId(uuid(40)), revision=1)
KEY, OFFICE_MEMBER = (
    GroupKey(GROUP.id),
    Member(AddressGroupKey(OFFICE.id), ip_network("192.0.2.0/24")),
)


def rule(number, **kwargs):
    return SecurityGroupRule(
        id=SecurityGroupRuleId(uuid(number)),
        security_group_id=GROUP.id,
        direction=Direction.INGRESS,
        revision=1,
        **kwargs,
    )


PLAIN, BY_OFFICE = rule(41), rule(42, remote_address_group_id=OFFICE.id)
GUARDED = port(1, NET, port_security=True, security_groups=frozenset({GROUP.id}))
PORT = PortKey(GUARDED.id)


def firewall(*capabilities, filtering=True):
    made = FakeFirewall()
    known = (
        (HostCapability.PLAN, FirewallCapability.FILTERING) if filtering else (HostCapability.PLAN,)
    )
    made.CAPABILITIES = (*known, *capabilities)
    return made


def make_environment(driver, *items, **kwargs):
    env = L2AgentEnvironment(NET, SEGMENT, GUARDED, GROUP, PLAIN, *items, firewall=driver, **kwargs)
    env.switch.plug(GUARDED.id, quiet=True)
    return env


class Witness:
    """What became of the port, in which order, on switch and firewall."""

    def __init__(self, switch, firewall):
        self.seen = []
        for name, driver in (("switch", switch), ("firewall", firewall)):
            driver.converge = self.wrapped(name, driver.converge)

    def wrapped(self, name, converge):
        def seen(update):
            value = update.put.get(PORT)
            self.seen.append((name, getattr(value, "admission", value is not None)))
            return converge(update)

        return seen


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
        str(KEY): "the firewall driver 'fake' has no address groups, so 1 of its rules allow "
        "nothing: name prefixes in them, or choose another firewall_driver"
    }
    assert unable.machine.present.keys() == {PORT, KEY}
    assert unable.machine.present[KEY] == Rules(frozenset({PLAIN}))
    assert env.switch.live() == {GUARDED.id}
    env.source.remove(ref(BY_OFFICE))
    assert env.turn().ready


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
    witness = Witness(env.switch, driver)
    env.turn()
    witness.seen.clear()
    env.source.put(evolve(GUARDED, port_security=False, security_groups=(), revision=2))
    assert env.turn().ready
    assert witness.seen == [("switch", Admission.LIVE), ("firewall", True)]
    witness.seen.clear()
    env.source.put(evolve(GUARDED, revision=3))
    assert env.turn().ready
    held, filters, live = witness.seen
    assert (held, filters) == (("switch", Admission.HOLD), ("firewall", True))
    assert live == ("switch", Admission.LIVE)


@pytest.mark.spec("FW-05")
def test_port_on_hold_has_the_sources_of_its_filter_as_guard():
    env = make_environment(firewall())
    told, converge = [], env.switch.converge
    env.switch.converge = lambda update: told.append(update.put.get(PORT)) or converge(update)
    assert env.turn().ready
    held, live = told
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
    env.machine.tell(FeedLost("everything anew"))
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
    witness = Witness(env.switch, driver)
    env.begin(driver)
    assert env.turn().ready
    assert witness.seen == [
        ("switch", Admission.HOLD), ("firewall", True), ("switch", Admission.LIVE),
    ]  # fmt: skip
    assert "remove" not in str(env.machine.history)
    assert driver.machine.present.keys() == {KEY, PORT}


# Firewalls inside the switch.


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


# Drivers that are not used any more.


@pytest.mark.spec("FW-09")
def test_what_a_retired_driver_left_is_removed_once_the_ports_are_wired():
    old, new = firewall(), firewall()
    env = make_environment(old)
    env.turn()
    env.begin(new, retired=[old])
    new.machine.refused[PORT] = "no room"
    env.turn()
    assert old.machine.present.keys() == {PORT, KEY}
    assert env.status.warnings == {
        "retired firewall driver fake": "its filters are still there until all ports are wired"
    }
    new.machine.refused.clear()
    env.turn(1)
    env.loop.resync()
    assert env.turn().ready
    assert old.machine.present == {}
    assert new.machine.present.keys() == {PORT, KEY}
    assert env.status.warnings == {}


def test_failed_removal_by_a_retired_driver_is_retried():
    old = firewall()
    env = make_environment(old)
    env.turn()
    old.machine.online = False
    env.begin(None, retired=[old])
    assert env.turn().ready
    assert "machine does not answer" in env.status.warnings["retired firewall driver fake"]
    old.machine.online = True
    env.loop.resync()
    env.turn()
    assert old.machine.present == {}


def test_a_dry_run_shows_filters_what_is_refused_and_what_is_retired():
    old, new = firewall(), firewall()
    env = make_environment(old)
    env.turn()
    env.source.put(
        evolve(GROUP, stateful=False, revision=2),
        port(2, NET, THERE, port_security=True, security_groups={GROUP.id}),
    )
    env.begin(new, retired=[old])
    env.turn()
    old.machine.present[PORT] = GUARDED
    parts = {part.name: part for part in env.work.everything()}
    assert set(parts) == {"switch", "firewall"}
    assert parts["firewall"].update.put.keys() == {PORT}
    assert parts["firewall"].update.complete
    assert set(parts["firewall"].refused) == {KEY}


def test_a_dry_run_names_what_retired_drivers_would_remove():
    old = firewall()
    env = make_environment(old)
    env.turn()
    env.begin(None, retired=[old])
    env.work.start()
    parts = {part.name: part for part in env.work.everything()}
    part = parts["retired firewall fake"]
    plan = old.plan(part.update, old.observe(None))
    assert {operation.text for operation in plan} == {f"remove {KEY}", f"remove {PORT}"}


# New ports behind a firewall in the switch.

NEW = port(5, NET, port_security=True, security_groups=frozenset({GROUP.id}))
NEW_KEY = PortKey(NEW.id)


def converged(env, *drivers):
    """What each converge puts for the new port: the driver, and the admission or the filter."""
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
