"""The L2 agent: its heartbeat, the settings that it refuses, the statuses that it reports."""

import sys
from typing import Any

import pytest
from attrs import evolve

from netfw.agents.common.loop import Intervals
from netfw.agents.l2.agent import L2Agent, L2AgentConfig
from netfw.drivers.switch import SwitchCapability
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.drivers.values.switch_values import (
    Endpoint,
    FloodKey,
    SwitchDevice,
    SwitchFacts,
)
from netfw.errors import ConfigError
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.testing.fakes.switch import FakeSwitch
from tests.unit.agents.common.environment import L2AgentEnvironment
from tests.unit.agents.l2.environment import (
    AGENT_THERE,
    FACTS,
    HERE,
    NET,
    ONE,
    SEGMENT,
    THERE,
    TWO,
    Marker,
    address_prefix,
    port,
    uuid,
)


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
        "routing_mac": None,
        "extensions": ["marker"],
        "datapath_type": "netdev",
        "integration_bridge": "br-int",
        "ovs_capabilities": [],
        "vhostuser_socket_dir": None,
        "ovs_hybrid_plug": False,
        "firewall_capabilities": [],
        "resource_provider_bandwidths": {},
        "resource_versions": {},
        "devices": 1,
    }
    backlog = {"degraded": 0, "lag_seconds": 0, "waiting": 0}
    assert beat.counts == {"devices": 1, "ports": 1, "unbound_devices": 0, **backlog}


@pytest.mark.spec("L2-07", "L2-30")
def test_what_one_agent_announces_is_what_others_tunnel_to():
    env = L2AgentEnvironment(NET, SEGMENT)
    env.turn()
    (beat,) = env.source.heartbeats()
    other = L2AgentEnvironment(beat.agent)
    other.switch.reported_facts = SwitchFacts(
        endpoints=frozenset({Endpoint(next(iter(FACTS.endpoints)).type, address_prefix(ONE)[0])})
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
    reasons = {r.ref.id: (r.status, r.reason) for r in env.reports if hasattr(r, "ref")}
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


@pytest.mark.slow
def test_one_port_costs_the_same_among_ten_and_a_thousand():
    # The cost is counted in calls of Python functions, which no other load of the machine changes.
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


class _Slow(FakeSwitch):
    """A switch that records what was reported when each of its passes began."""

    reports: list[Any]

    def converge(self, update):
        self.seen = [report.status for report in self.reports if hasattr(report, "ref")]
        return super().converge(update)


def _environment_with_slow_switch(*resources):
    env = L2AgentEnvironment(NET, SEGMENT, *resources)
    env.switch = _Slow(FACTS)
    env.machine = env.switch.machine
    env.switch.reports = env.reports
    env.begin()
    env.switch.plug(ONE.id, quiet=True)
    env.turn()
    env.reports.clear()
    return env


@pytest.mark.spec("L2-14")
def test_an_unplugged_port_is_reported_down_before_the_switch_removes_it():
    env = _environment_with_slow_switch(ONE)
    env.switch.unplug(ONE.id)
    env.turn()
    assert env.switch.seen == [Status.DOWN]
    assert [report.status for report in env.reports] == [Status.DOWN], "once"
    env.switch.plug(ONE.id)
    env.turn()
    assert env.switch.seen == [Status.DOWN], "a port is reported active after its wiring"
    assert env.source.status(ref(ONE)).status is Status.ACTIVE


def test_ports_are_wired_before_the_unplugging_of_others_is_reported():
    env = _environment_with_slow_switch(ONE, TWO)
    env.switch.unplug(ONE.id)
    env.switch.plug(TWO.id)
    env.turn()
    assert env.switch.seen == [], "the source may be slow to answer"
    assert env.source.status(ref(ONE)).status is Status.DOWN


def test_an_unplugged_port_is_removed_at_once_while_the_source_is_away():
    env = _environment_with_slow_switch(ONE, TWO)
    env.source.away = True
    env.switch.unplug(ONE.id)
    env.turn()
    assert PortKey(ONE.id) not in env.machine.present
    env.switch.seen, attempts = None, env.source.reporting
    env.switch.plug(TWO.id)
    env.turn()
    env.switch.unplug(TWO.id)
    env.turn()
    assert env.source.reporting == attempts, "the source is known to be away"
    env.source.away = False
    env.turn(after=60)
    for each in (ONE, TWO):
        assert env.source.status(ref(each)).status is Status.DOWN


@pytest.mark.spec("ML2-14")
@pytest.mark.parametrize("vif_type", ["hw_veb", "hostdev_physical"])
def test_the_status_of_a_network_card_is_not_reported(vif_type):
    card = evolve(TWO, binding=evolve(TWO.binding, vif_type=vif_type))
    env = L2AgentEnvironment(NET, SEGMENT, ONE, card)
    env.switch.plug(ONE.id, quiet=True)
    assert env.turn().ready
    reported = {each.ref for each in env.reports if isinstance(each, StatusReport)}
    assert ref(ONE) in reported
    assert ref(card) not in reported
