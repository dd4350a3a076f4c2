"""The L2 agent: extensions, filters before traffic, what it says of itself, what it refuses."""

import sys
from ipaddress import ip_network

import pytest
from attrs import evolve

from netfw.agents.common.loop import Intervals
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.base import DriverInfo
from netfw.drivers.firewall import Member, Rules
from netfw.drivers.l2_extension import L2Extension
from netfw.drivers.switch import SwitchCapability
from netfw.drivers.values.contribution import SwitchContribution
from netfw.drivers.values.events import FeedLost, KeysChanged
from netfw.drivers.values.keys import ExtensionKey, GroupKey, NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.subscription import Service, Subscription
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    FloodKey,
    SwitchDevice,
    SwitchFacts,
)
from netfw.errors import ConfigError, Conflict, NotSupported
from netfw.flows import Flow, Match
from netfw.model.common_fields import Status
from netfw.model.ids import SecurityGroupId, SecurityGroupRuleId
from netfw.model.resource import ref
from netfw.model.security_group import Direction, SecurityGroup, SecurityGroupRule
from netfw.testing.fakes.switch import FakeFirewall, FakeSwitch
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import (
    AGENT_THERE,
    FACTS,
    HERE,
    NET,
    SEGMENT,
    THERE,
    port,
    uuid,
)

ONE, TWO = port(1, NET), port(2, NET)


class Marker(L2Extension):
    """Adds a flow to each port, as a test tells it."""

    VERSION = 2

    def __init__(self, owner="marker"):
        self.owner, self.level, self.calls, self.error = owner, 1, [], {}
        self.sink = None

    @classmethod
    def from_conf(cls, options, host):
        return cls()

    def describe(self):
        return DriverInfo(self.owner)

    def grant_request(self):
        return GrantRequest(
            owner=self.owner, tables=(TableRequest(name="mark", hook=PipelineHook.FROM_PORT),)
        )

    def contribute(self, key, value, grant):
        self.calls.append(key)
        if key in self.error:
            raise self.error[key]
        return self.addition(grant, value.port.name)

    def addition(self, grant, _name=""):
        table = grant.tables["mark"].number
        flow = Flow(table=table, priority=self.level, match=Match(), cookie=grant.cookie)
        return SwitchContribution(owner=self.owner, flows=(flow,))

    def contribute_base(self, grant):
        return SwitchContribution(owner=self.owner)

    def watch(self, sink):
        self.sink = sink


def extended(*extensions):
    env = L2AgentEnvironment(NET, SEGMENT, ONE, TWO, extensions=extensions)
    for each in (ONE, TWO):
        env.switch.plug(each.id, quiet=True)
    env.turn()
    return env


def levels(env, port):
    additions = env.machine.present[PortKey(port.id)].contributions
    return {each.owner: each.flows[0].priority for each in additions}


@pytest.mark.spec("L2-25")
def test_what_extensions_add_goes_with_the_port_in_the_order_of_the_configuration():
    env = extended(Marker("b"), Marker("a"))
    assert env.status.ready
    assert list(levels(env, ONE)) == ["b", "a"]
    assert {ExtensionKey("a"), ExtensionKey("b")} <= env.machine.present.keys()
    tables = {flow.table for each in env.machine.present[PortKey(ONE.id)].contributions
              for flow in each.flows}  # fmt: skip
    assert len(tables) == 2


def test_an_extension_is_called_when_what_it_is_shown_has_changed_and_only_then():
    marker = Marker()
    env = extended(marker)
    assert sorted(marker.calls) == [ONE.id, TWO.id]
    env.machine.disturb(PortKey(ONE.id))
    env.loop.resync()
    env.turn()
    assert len(marker.calls) == 2
    env.source.put(evolve(ONE, name="renamed", revision=2))
    env.turn()
    assert marker.calls[2:] == [ONE.id]


@pytest.mark.spec("L2-16", "L2-25")
@pytest.mark.parametrize("error", [Conflict("no mark is left"), RuntimeError("a defect")])
def test_a_raising_extension_degrades_its_part_of_that_port_alone(error):
    marker, other = Marker(), Marker("other")
    marker.error[ONE.id] = error
    env = extended(marker, other)
    assert env.switch.live() == {ONE.id, TWO.id}
    assert levels(env, ONE) == {"other": 1}
    assert levels(env, TWO) == {"marker": 1, "other": 1}
    (what,) = env.status.degraded
    assert what == f"extension marker on port {ONE.id}"
    assert str(error) in env.status.degraded[what]
    marker.error.clear()
    calls = len(marker.calls)
    assert env.turn(1).ready
    assert len(marker.calls) == calls + 1
    assert levels(env, ONE) == {"marker": 1, "other": 1}


@pytest.mark.spec("L2-16", "L2-25")
@pytest.mark.parametrize(
    "nonsense",
    [
        "a text",
        SwitchContribution(owner="other"),
        SwitchContribution(owner="marker", flows=("a text",)),
        SwitchContribution(owner="marker", flows=[]),
        SwitchContribution(owner="marker", qos=("a text",)),
    ],
)
def test_an_extension_that_returns_nonsense_degrades_its_part_alone(nonsense):
    marker, other = Marker(), Marker("other")
    contribute = marker.contribute
    marker.contribute = lambda key, value, grant: (
        nonsense if key == ONE.id else contribute(key, value, grant)
    )
    env = extended(marker, other)
    assert env.switch.live() == {ONE.id, TWO.id}
    assert levels(env, ONE) == {"other": 1}
    assert levels(env, TWO) == {"marker": 1, "other": 1}
    assert list(env.status.degraded) == [f"extension marker on port {ONE.id}"]


def test_what_an_extension_added_before_stays_while_it_fails():
    marker = Marker()
    env = extended(marker)
    marker.error[ONE.id], marker.level = Conflict("not now"), 2
    marker.sink(KeysChanged("the operator wants another level", {ONE.id, TWO.id}))
    env.turn()
    assert (levels(env, ONE), levels(env, TWO)) == ({"marker": 1}, {"marker": 2})
    assert not env.status.ready
    marker.error.clear()
    assert env.turn(1).ready
    assert levels(env, ONE) == {"marker": 2}


def test_extension_that_lost_its_feed_is_called_for_every_port():
    marker = Marker()
    env = extended(marker)
    marker.level = 3
    marker.sink(FeedLost("its store was restarted"))
    env.turn()
    assert (levels(env, ONE), levels(env, TWO)) == ({"marker": 3}, {"marker": 3})
    assert env.status.ready


def test_a_port_that_goes_and_a_switch_that_restarts_need_nothing_from_an_extension():
    marker = Marker()
    env = extended(marker)
    calls = len(marker.calls)
    env.machine.restart()
    env.switch.unplug(TWO.id)
    env.turn()
    assert levels(env, ONE) == {"marker": 1}
    assert len(marker.calls) == calls


def test_an_extension_that_the_switch_cannot_serve_stops_the_agent():
    env = L2AgentEnvironment(extensions=[Marker()])

    def grant(claim):
        raise NotSupported("this switch has no tables")

    env.switch.grant = grant
    with pytest.raises(ConfigError, match="this switch has no tables"):
        env.turn()


# Filters before traffic.

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


class Witness:
    """What switch and firewall were asked for, in one order."""

    def __init__(self, switch, firewall):
        self.seen = []
        for name, driver in (("switch", switch), ("firewall", firewall)):
            driver.converge = self.wrapped(name, driver.converge)

    def wrapped(self, name, converge):
        def seen(update):
            value = update.put.get(PortKey(GUARDED.id))
            self.seen.append((name, getattr(value, "admission", value is not None)))
            return converge(update)

        return seen


def filtered():
    firewall = FakeFirewall()
    env = L2AgentEnvironment(NET, SEGMENT, GUARDED, GROUP, RULE, MEMBER, firewall=firewall)
    env.switch.plug(GUARDED.id, quiet=True)
    return env, firewall, Witness(env.switch, firewall)


@pytest.mark.spec("L2-13")
def test_a_port_is_held_then_filtered_then_let_live():
    env, firewall, witness = filtered()
    assert env.turn().ready
    assert witness.seen == [
        ("switch", Admission.HOLD), ("firewall", True), ("switch", Admission.LIVE),
    ]  # fmt: skip
    assert firewall.machine.present.keys() == {
        PortKey(GUARDED.id), GroupKey(GROUP.id),
        Member(GroupKey(GROUP.id), _prefix(GUARDED)), Member(GroupKey(GROUP.id), _prefix(MEMBER)),
    }  # fmt: skip
    assert firewall.machine.present[GroupKey(GROUP.id)] == Rules(frozenset({RULE}))
    assert env.machine.present[PortKey(GUARDED.id)].guard is None  # the firewall guards


def _prefix(of):
    return ip_network(str(of.fixed_ips[0].address))


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
    env, firewall, witness = filtered()
    env.turn()
    witness.seen.clear()
    firewall.machine.present.clear()
    env.machine.restart()
    env.turn()
    assert [step for step, _ in witness.seen] == ["switch", "firewall", "switch"]
    assert witness.seen[0] == ("switch", Admission.HOLD)
    assert PortKey(GUARDED.id) in firewall.machine.present


def test_a_member_that_comes_costs_one_key_and_does_not_touch_the_switch():
    env, firewall, witness = filtered()
    env.turn()
    witness.seen.clear()
    done = len(firewall.machine.history)
    env.source.put(port(4, NET, THERE, port_security=True, security_groups={GROUP.id}))
    env.turn()
    assert witness.seen == [("firewall", False)]
    assert len(firewall.machine.history) == done + 1


@pytest.mark.spec("L2-08")
def test_the_filters_of_a_port_that_was_deleted_are_removed():
    env, firewall, _ = filtered()
    env.turn()
    env.source.remove(ref(GUARDED))
    env.turn()
    assert firewall.machine.present == {}
    assert env.switch.live() == set()


# What it says and refuses.


@pytest.mark.spec("L2-07")
def test_the_heartbeat_says_what_the_host_offers():
    env = L2AgentEnvironment(
        NET, SEGMENT, ONE, extensions=[Marker()], population=True, arp_responder=True
    )
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    (beat,) = env.source.heartbeats()
    assert beat.start
    assert (beat.agent.host, beat.agent.binary) == (HERE, "netfw-ovs-agent")
    assert beat.agent.configurations.content() == {
        "bridge_mappings": {"physnet1": "br-ex"},
        "tunnel_types": ["vxlan"],
        "tunneling_ip": "192.0.2.1",
        "l2_population": True,
        "arp_responder_enabled": True,
        "enable_distributed_routing": False,
        "in_distributed_mode": False,
        "extensions": ["marker"],
        "datapath_type": "netdev",
        "integration_bridge": "br-int",
        "ovs_capabilities": [],
        "vhostuser_socket_dir": None,
        "ovs_hybrid_plug": False,
        "resource_versions": {},
        "devices": 1,
    }
    assert beat.counts == {"devices": 1, "ports": 1, "unbound_devices": 0}


@pytest.mark.spec("L2-07", "L2-30")
def test_what_one_agent_announces_is_what_others_tunnel_to():
    env = L2AgentEnvironment(NET, SEGMENT)
    env.turn()
    (beat,) = env.source.heartbeats()
    other = L2AgentEnvironment(beat.agent)
    other.switch.reported_facts = SwitchFacts(
        endpoints=frozenset({Endpoint(next(iter(FACTS.endpoints)).type, _prefix(ONE)[0])})
    )
    other.work._settings = L2AgentConfig(host=THERE)
    other.turn()
    assert other.machine.present.keys() == FACTS.endpoints


def test_population_is_subscribed_and_used():
    env = L2AgentEnvironment(NET, SEGMENT, ONE, port(2, NET, THERE), AGENT_THERE, population=True)
    assert env.work.subscription == Subscription(HERE, {Service.L2, Service.POPULATION})
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    assert any(isinstance(key, FloodKey) for key in env.machine.present)


class Plain(FakeSwitch):
    CAPABILITIES = ()


@pytest.mark.spec("L2-01")
@pytest.mark.parametrize(
    ("settings", "switch", "sentence"),
    [
        ({"arp_responder": True}, FakeSwitch, "arp_responder needs l2_population"),
        ({"population": True}, Plain, "set l2_population = false"),
        ({"distributed": True}, FakeSwitch, "set enable_distributed_routing = false"),
    ],
)
def test_impossible_settings_are_refused_with_a_sentence(settings, switch, sentence):
    with pytest.raises(ConfigError, match=sentence):
        L2Agent(L2AgentConfig(host=HERE, **settings), switch())


@pytest.mark.spec("L2-01")
def test_distributed_routing_over_tunnels_needs_population():
    class Distributed(FakeSwitch):
        CAPABILITIES = (*FakeSwitch.CAPABILITIES, SwitchCapability.DISTRIBUTED)

    agent = L2Agent(L2AgentConfig(host=HERE, distributed=True), Distributed(FACTS))
    with pytest.raises(ConfigError, match="set l2_population = true"):
        agent.start()


@pytest.mark.spec("L2-12", "L2-14")
def test_what_is_down_is_reported_with_the_reason():
    env = L2AgentEnvironment(NET, SEGMENT, evolve(ONE, admin_up=False), TWO)
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    reasons = {r.ref.id: (r.status, r.reason) for r in env.said if hasattr(r, "ref")}
    assert reasons == {
        ONE.id: (Status.DOWN, "it is administratively down"),
        TWO.id: (Status.DOWN, "it is not plugged on this host"),
    }


@pytest.mark.spec("L2-14")
def test_a_new_revision_is_reported_though_nothing_had_to_be_done():
    env = L2AgentEnvironment(NET, SEGMENT, ONE)
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    passes = env.status.passes
    env.source.put(evolve(ONE, name="renamed", revision=2))
    env.turn()
    assert env.status.passes == passes
    assert env.source.status(ref(ONE)).revision == 2


@pytest.mark.spec("L2-05")
def test_the_status_of_ancillary_ports_is_reported_and_nothing_else():
    env = L2AgentEnvironment(NET, SEGMENT, ONE)
    env.switch.plugged[ONE.id] = SwitchDevice(name="tap1", ofport=1, ancillary=True)
    env.turn()
    assert env.machine.present == {}
    assert env.source.status(ref(ONE)).status is Status.ACTIVE


def test_a_port_whose_network_does_not_reach_the_host_is_degraded_with_the_reason():
    env = L2AgentEnvironment(NET, ONE)
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    assert "reaches this host" in env.status.degraded[str(PortKey(ONE.id))]
    assert env.source.status(ref(ONE)).status is Status.DEGRADED
    env.source.put(SEGMENT)
    assert env.turn().ready


def test_one_port_costs_the_same_among_ten_and_a_thousand():
    """Counted in calls of Python functions, which no other load of the machine changes."""
    assert _calls_of_one_more(1000) <= _calls_of_one_more(10) * 1.05


def _calls_of_one_more(number):
    ports = [evolve(ONE, id=uuid(10_000 + n)) for n in range(number)]
    env = L2AgentEnvironment(NET, SEGMENT, *ports, timing=Intervals(report=0, audit=0, pull=0))
    for each in ports:
        env.switch.plug(each.id, quiet=True)
    env.turn()
    env.switch.observe = lambda scope: {
        key: env.machine.present[key]
        for key in [*scope.put, NetworkKey(NET.id)]
        if key in env.machine.present
    }
    env.source.put(TWO)
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    env.switch.plug(TWO.id)
    sys.setprofile(count)
    env.turn()
    sys.setprofile(None)
    assert TWO.id in env.switch.live()
    return calls
