"""The one index of an agent's resources, and what is built on it."""

import gc

import pytest
from attrs import evolve

from netfw.agents.common.changed_values import ChangedValues
from netfw.agents.common.resource_index import ResourceChange, ResourceIndex
from netfw.model.port import Port
from netfw.model.resource import Ref, ref
from netfw.model.security_group import Direction, SecurityGroup, SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId, SecurityGroupRuleId
from netfw.testing.fakes.switch import FakeFirewall
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.dhcp import environment as dhcp
from tests.unit.agents.l2.environment import NET, OTHER, SEGMENT, THERE, port, uuid

ONE = port(1, NET)


@pytest.fixture
def index():
    return ResourceIndex()


def by_host(index):
    return index.declare(Port, lambda port: (port.binding.host,) if port.binding.host else ())


def test_apply_returns_what_differs_before_and_after(index):
    renamed = evolve(ONE, name="web")
    assert index.apply({ref(ONE): ONE}) == (ResourceChange(ref(ONE), None, ONE),)
    assert index.apply({ref(ONE): ONE}) == ()
    assert index.apply({ref(ONE): renamed}) == (ResourceChange(ref(ONE), ONE, renamed),)
    assert index.apply({ref(ONE): None}) == (ResourceChange(ref(ONE), renamed, None),)
    assert index.apply({ref(ONE): None}) == ()
    assert not index


def test_secondary_index_follows_a_resource_whose_key_changes(index):
    hosts = by_host(index)
    index.apply({ref(ONE): ONE})
    assert hosts.refs("here") == {ref(ONE)}
    index.apply({ref(ONE): port(1, NET, THERE)})
    assert (hosts.refs("here"), hosts.refs(THERE)) == (frozenset(), {ref(ONE)})
    index.apply({ref(ONE): port(1, NET, "")})
    assert list(hosts) == []


def test_secondary_index_costs_only_resources_of_its_type(index):
    calls = []
    index.declare(Port, lambda port: calls.append(port) or ())
    index.apply({ref(NET): NET, ref(SEGMENT): SEGMENT})
    assert calls == []
    index.apply({ref(ONE): ONE, ref(port(2, OTHER)): port(2, OTHER)})
    assert len(calls) == 2


def test_clear_empties_the_secondary_indexes(index):
    hosts = by_host(index)
    index.apply({ref(ONE): ONE})
    index.clear()
    assert (len(index), list(hosts)) == (0, [])


def test_changed_values_marks_a_key_only_when_its_value_differs():
    values = ChangedValues()
    values.set("a", 1)
    assert values.take_changed() == {"a"}
    values.set("a", 1)
    values.set("b", None)
    assert values.take_changed() == frozenset()
    values.set("a", None)
    assert values.take_changed() == {"a"}
    assert values == {}


def maps_by_ref(loop, resource):
    """Return the dicts in which the agent and its replica store *resource* by its reference."""
    gc.collect()
    found, seen = [], set()
    pending = [loop._agent, loop._replica]
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            if any(isinstance(key, Ref | type(resource.id)) and value is resource
                   for key, value in item.items()):  # fmt: skip
                found.append(item)
            pending.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            pending.extend(item)
        elif type(item).__module__.startswith("netfw.agents"):
            pending.extend(gc.get_referents(item))
    return found


GROUP = SecurityGroup(id=SecurityGroupId(uuid(40)), revision=1)
RULE = SecurityGroupRule(
    id=SecurityGroupRuleId(uuid(41)),
    security_group_id=GROUP.id,
    direction=Direction.INGRESS,
    revision=1,
)


def test_l2_agent_stores_each_resource_once():
    filtered = port(1, NET, port_security=True, security_groups=frozenset({GROUP.id}))
    env = L2AgentEnvironment(NET, SEGMENT, GROUP, RULE, filtered, firewall=FakeFirewall())
    env.switch.plug(filtered.id, quiet=True)
    assert env.turn().ready
    for resource in (NET, SEGMENT, GROUP, RULE, filtered):
        stored = env.work.resources[ref(resource)]
        assert maps_by_ref(env.loop, stored) == [env.work.resources._resources]


def test_dhcp_agent_stores_each_resource_once():
    served = dhcp.port(11, dhcp.NET)
    env = dhcp.DhcpAgentEnvironment(dhcp.NET, dhcp.SUBNET, dhcp.assigned(dhcp.NET), served)
    env.ready()
    for resource in (dhcp.NET, dhcp.SUBNET, served):
        stored = env.agent.resources[ref(resource)]
        assert maps_by_ref(env.loop, stored) == [env.agent.resources._resources]
    env.agent.close()
