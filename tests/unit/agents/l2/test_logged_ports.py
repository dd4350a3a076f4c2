"""Views of ports that are logged: the logs of a port, and the rules that explain it."""

from uuid import UUID

import pytest
from attrs import evolve

from netfw.model.packet_log import PacketLog
from netfw.model.resource import ref
from netfw.model.security_group import Direction, SecurityGroup, SecurityGroupRule
from netfw.model.values.ids import PacketLogId, SecurityGroupId, SecurityGroupRuleId
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import NET, ONE, SEGMENT, TWO, learn
from tests.unit.agents.l2.switch_samples import desired

pytestmark = pytest.mark.spec("FW-14")

WEB, MAIL = (SecurityGroup(id=SecurityGroupId(UUID(int=n))) for n in (901, 902))
FIRST = evolve(ONE, project_id="alice", port_security=True, security_groups=(WEB.id,))
SECOND = evolve(TWO, project_id="bob", port_security=True, security_groups=(WEB.id, MAIL.id))


def rule(number, group=WEB):
    return SecurityGroupRule(
        id=SecurityGroupRuleId(UUID(int=number)),
        security_group_id=group.id,
        direction=Direction.INGRESS,
    )


def log(**attributes):
    return PacketLog(id=PacketLogId(UUID(int=911)), **attributes)


def start(*more):
    cloud = (NET, SEGMENT, WEB, MAIL, FIRST, SECOND, rule(921), rule(922, MAIL), *more)
    found = desired(*cloud, plugged=(FIRST, SECOND))
    found.take_touched()
    return found


def shown(found, port):
    return [each for each in found.extended(port.id).related
            if isinstance(each, PacketLog | SecurityGroupRule)]  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "first", "second"),
    [
        ({"project_id": "alice"}, True, False),
        ({"project_id": "bob"}, False, True),
        ({"resource_id": WEB.id}, True, True),
        ({"resource_id": MAIL.id}, False, True),
        ({"target_id": FIRST.id}, True, False),
        ({"target_id": SECOND.id, "resource_id": MAIL.id}, False, True),
        ({"target_id": FIRST.id, "resource_id": MAIL.id}, False, False),
    ],
)
def test_a_port_is_shown_with_its_logs_and_its_rules(attributes, first, second):
    found = start()
    assert shown(found, FIRST) == shown(found, SECOND) == []
    made = log(**attributes)
    learn(found, [made])
    rules = {FIRST.id: [rule(921)], SECOND.id: [rule(921), rule(922, MAIL)]}
    for port, logged in ((FIRST, first), (SECOND, second)):
        expected = {made, *rules[port.id]} if logged else set()
        assert set(shown(found, port)) == expected
    learn(found, [evolve(made, enabled=False, revision=2)])
    assert shown(found, FIRST) == shown(found, SECOND) == []
    learn(found, [made])
    learn(found, drop=[ref(made)])
    assert shown(found, FIRST) == shown(found, SECOND) == []


def test_a_log_concerns_its_ports_alone():
    found = start()
    learn(found, [log(target_id=FIRST.id)])
    assert found.take_touched() == {FIRST.id}
    learn(found, [rule(923, MAIL)])
    assert found.take_touched() == {SECOND.id}
    learn(found, [rule(924)])
    assert rule(924) in shown(found, FIRST)


def test_rules_concern_no_view_while_nothing_is_logged():
    found = start()
    learn(found, [rule(923, MAIL)])
    assert found.take_touched() == frozenset()


def test_a_host_without_the_extension_warns_of_its_logged_ports():
    env = L2AgentEnvironment(NET, SEGMENT, WEB, MAIL, FIRST, SECOND, log(target_id=FIRST.id))
    for each in (FIRST, SECOND):
        env.switch.plug(each.id, quiet=True)
    env.turn()
    assert "packets of 1 port should be logged" in env.status.warnings["packet logs"]
    env.source.put(log(target_id=FIRST.id, enabled=False, revision=2))
    env.turn()
    assert "packet logs" not in env.status.warnings
