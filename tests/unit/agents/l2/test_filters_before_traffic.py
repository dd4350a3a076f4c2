"""Filters come before traffic: a port lives only behind its filters."""

import pytest

from netfw.drivers.firewall import Member, Rules
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
)
from netfw.model.resource import ref
from netfw.model.security_group import Direction, SecurityGroup, SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId, SecurityGroupRuleId
from netfw.testing.fakes.switch import FakeFirewall
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import (
    NET,
    SEGMENT,
    THERE,
    address_prefix,
    port,
    uuid,
)
from tests.unit.agents.l2.firewall_samples import AdmissionRecorder

GROUP = SecurityGroup(id=SecurityGroupId(uuid(40)))
RULE = SecurityGroupRule(
    id=SecurityGroupRuleId(uuid(41)),
    security_group_id=GROUP.id,
    direction=Direction.INGRESS,
    remote_group_id=GROUP.id,
    revision=1,
)
GUARDED = port(1, NET, port_security=True, security_groups=frozenset({GROUP.id}))
MEMBER = port(2, NET, THERE, port_security=True, security_groups=frozenset({GROUP.id}))


def filtered():
    firewall = FakeFirewall()
    env = L2AgentEnvironment(NET, SEGMENT, GUARDED, GROUP, RULE, MEMBER, firewall=firewall)
    env.switch.plug(GUARDED.id, quiet=True)
    return env, firewall, AdmissionRecorder(env.switch, firewall)


@pytest.mark.spec("L2-13")
def test_a_port_is_held_then_filtered_then_let_live():
    env, firewall, recorder = filtered()
    assert env.turn().ready
    assert recorder.seen == [
        ("switch", Admission.HOLD), ("firewall", True), ("switch", Admission.LIVE),
    ]  # fmt: skip
    assert firewall.machine.present.keys() == {
        PortKey(GUARDED.id), GroupKey(GROUP.id),
        Member(GroupKey(GROUP.id), address_prefix(GUARDED)),
        Member(GroupKey(GROUP.id), address_prefix(MEMBER)),
    }  # fmt: skip
    assert firewall.machine.present[GroupKey(GROUP.id)] == Rules(frozenset({RULE}))
    assert env.machine.present[PortKey(GUARDED.id)].guard is None  # the firewall guards


@pytest.mark.spec("L2-13")
def test_a_port_whose_filters_are_refused_does_not_live():
    env, firewall, _ = filtered()
    firewall.machine.refused[PortKey(GUARDED.id)] = "no conjunction is left"
    env.turn()
    assert env.switch.live() == set()
    assert env.status.degraded == {str(PortKey(GUARDED.id)): "no conjunction is left"}
    firewall.machine.refused.clear()
    assert env.turn(1).ready
    assert env.switch.live() == {GUARDED.id}


@pytest.mark.spec("L2-13")
def test_while_the_firewall_does_not_answer_nothing_new_lives_and_what_lives_goes_on():
    env, firewall, _ = filtered()
    env.turn()
    firewall.machine.online = False
    new = port(3, NET, port_security=True, security_groups=frozenset({GROUP.id}))
    env.source.put(new)
    env.switch.plug(new.id)
    env.turn()
    assert env.switch.live() == {GUARDED.id}
    firewall.machine.online = True
    env.turn(1)
    assert env.switch.live() == {GUARDED.id, new.id}


def test_a_restarted_switch_is_filtered_before_it_lives_again():
    env, firewall, recorder = filtered()
    env.turn()
    recorder.seen.clear()
    firewall.machine.present.clear()
    env.machine.restart()
    env.turn()
    assert [step for step, _ in recorder.seen] == ["switch", "firewall", "switch"]
    assert recorder.seen[0] == ("switch", Admission.HOLD)
    assert PortKey(GUARDED.id) in firewall.machine.present


def test_a_member_that_comes_costs_one_key_and_does_not_touch_the_switch():
    env, firewall, recorder = filtered()
    env.turn()
    recorder.seen.clear()
    done = len(firewall.machine.history)
    env.source.put(port(4, NET, THERE, port_security=True, security_groups={GROUP.id}))
    env.turn()
    assert recorder.seen == [("firewall", False)]
    assert len(firewall.machine.history) == done + 1


@pytest.mark.spec("L2-08")
def test_the_filters_of_a_port_that_was_deleted_are_removed():
    env, firewall, _ = filtered()
    env.turn()
    env.source.remove(ref(GUARDED))
    env.turn()
    assert firewall.machine.present == {}
    assert env.switch.live() == set()
