"""The DHCP agent on drivers in memory: jobs, their order, reports."""

import threading

import pytest
from attrs import evolve

from netfw.drivers.values.agent_requests import EnsureDhcpPort, ReleaseDhcpPort
from netfw.drivers.values.events import FeedLost, KeysChanged, ProcessDied
from netfw.drivers.values.keys import NetworkKey, PortKey, RouterKey
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import AgentMustEnd
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE, dhcp_device_id
from tests.unit.agents.dhcp.environment import (  # fmt: skip
    CLOUD,
    HERE,
    ISOLATED,
    NET,
    ONE,
    OTHER,
    OTHER_SUBNET,
    SUBNET,
    THREE,
    TWO,
    DhcpAgentEnvironment,
    assigned,
    make_environment,
    port,
    server_port,
    subnet,
)


@pytest.mark.spec("DHCP-04", "DHCP-05")
def test_what_is_assigned_is_served_and_what_is_not_is_not():
    down = evolve(NET, admin_up=False)
    env = make_environment()
    assert env.served() == {1: {11, 12}, 2: {11}}
    env.source.put(down)
    assert env.ready().counts == {"networks": 1, "subnets": 1, "ports": 1}
    assert env.served() == {2: {11}}
    env.source.put(NET)
    env.source.remove(assigned(OTHER))
    env.ready()
    assert env.served() == {1: {11, 12}}
    env.source.put(evolve(SUBNET, enable_dhcp=False))
    env.ready()
    assert env.served() == {}
    assert not env.machine.present


@pytest.mark.spec("DHCP-20")
def test_server_port_is_requested_once_and_released():
    env = make_environment()
    first = env.dhcp.networks()[NET.id].server
    assert len(env.asked(EnsureDhcpPort)) == 2
    assert len(env.dhcp.calls) == 3  # one sweep, and each network once
    env.source.put(port(13, NET))
    env.ready()
    assert len(env.asked(EnsureDhcpPort)) == 2
    env.source.put(subnet(NET, 7))
    env.ready()
    server = env.dhcp.networks()[NET.id].server
    assert server.id == first.id
    assert len(server.addresses) == 2
    env.source.remove(assigned(NET))
    env.ready()
    assert env.asked(ReleaseDhcpPort) == [ReleaseDhcpPort(network=NET.id, host=HERE)]


@pytest.mark.spec("DHCP-20")
def test_a_port_that_a_dead_agent_left_is_adopted():
    left = server_port(2, NET, device_id=RESERVED_DHCP_DEVICE)
    env = make_environment(left)
    assert env.dhcp.networks()[NET.id].server.id == left.id
    adopted = env.source.resources()[ref(left)]
    assert (adopted.binding.host, adopted.device_id) == (HERE, dhcp_device_id(HERE, NET.id))


@pytest.mark.spec("DHCP-80", "DHCP-06")
def test_one_port_more_is_one_port_to_the_driver():
    env = make_environment(*(port(number, NET) for number in range(20, 120)))
    env.turn()
    before = len(env.dhcp.calls)
    env.source.put(port(13, NET))
    env.ready()
    (call,) = env.dhcp.calls[before:]
    assert (set(call.put), call.drop, call.complete) == ({PortKey(port(13, NET).id)}, set(), False)
    env.source.remove(ref(port(13, NET)))
    env.ready()
    assert env.dhcp.calls[-1].drop == {PortKey(port(13, NET).id)}
    assert len(env.dhcp.calls) == before + 2


@pytest.mark.spec("DHCP-07")
def test_ports_are_said_to_be_ready_at_their_revision():
    env = DhcpAgentEnvironment(*CLOUD, ONE, TWO)
    env.machine.refused[PortKey(TWO.id)] = "no"
    env.until_failed()
    assert env.status_of(ONE) is Status.ACTIVE
    assert env.status_of(TWO) is Status.DEGRADED
    assert env.source.status(ref(TWO), Service.DHCP).reason == "no"
    calls = len(env.dhcp.calls)
    renamed = evolve(ONE, name="another", revision=5)
    env.source.put(renamed)
    env.turn()
    assert env.source.status(ref(ONE), Service.DHCP).revision == 5
    assert len(env.dhcp.calls) == calls


def test_nothing_is_said_of_a_port_before_it_was_tried_as_it_is_now():
    env = make_environment(wait_timeout=0.0)
    gate = env.dhcp.gates[NET.id] = threading.Event()
    changed = evolve(ONE, mac="fa:16:3e:99:99:99", revision=2)
    env.source.put(changed)
    assert env.turn().waiting == {f"port {ONE.id}": "its job"}
    assert env.source.status(ref(ONE), Service.DHCP).revision == 1
    gate.set()
    env.ready()
    assert env.source.status(ref(ONE), Service.DHCP).revision == 2


@pytest.mark.spec("DHCP-03")
def test_what_fails_is_a_matter_of_its_network_or_port_alone():
    env = DhcpAgentEnvironment(*CLOUD, ONE, TWO, THREE)
    env.machine.crashing.add(NetworkKey(NET.id))
    env.machine.refused[PortKey(THREE.id)] = "a name that cannot be"
    status = env.until(lambda status: len(status.degraded) == 2)
    assert env.served() == {2: set()}
    assert "a name" in status.degraded[f"port {THREE.id}"]
    assert set(status.waiting) == {f"port {ONE.id}", f"port {TWO.id}"}
    env.machine.crashing.clear()
    env.machine.refused.clear()
    env.turn(after=1.0)
    env.ready()
    assert env.served() == {1: {11, 12}, 2: {11}}


def test_ports_that_waited_for_their_network_come_with_it():
    env = DhcpAgentEnvironment(*CLOUD, ONE)
    env.machine.refused[NetworkKey(NET.id)] = "no"
    env.until(lambda status: status.degraded)
    for _ in range(5):
        env.turn(after=8.0)
    assert env.loop.status.waiting == {f"port {ONE.id}": "its network"}
    env.machine.refused.clear()
    env.machine.notify(KeysChanged("it can be had now", {NetworkKey(NET.id)}))
    env.turn(after=1.0)  # long before the port itself would be tried again
    env.ready()
    assert env.status_of(ONE) is Status.ACTIVE


def test_what_is_gone_when_the_source_is_read_from_the_beginning_goes():
    env = make_environment()
    env.loop._replica.reset()
    env.source.commit(remove=(assigned(NET), ref(THREE)))
    env.ready()
    assert env.served() == {2: set()}
    assert len(env.machine.present) == 1


def test_source_outage_does_not_affect_served_networks():
    env = make_environment()
    env.source.away = True
    env.source.put(subnet(NET, 7), port(13, NET))
    status = env.until(lambda status: status.degraded)
    assert set(status.degraded) == {f"network {NET.id}"}
    assert env.served()[1] == {11, 12, 13}
    assert len(env.dhcp.networks()[NET.id].subnets) == 1
    env.source.away = False
    env.turn(after=1.0)
    env.ready()
    assert len(env.dhcp.networks()[NET.id].subnets) == 2


@pytest.mark.spec("DHCP-06", "DHCP-04")
def test_slow_network_delays_no_other():
    env = DhcpAgentEnvironment(*CLOUD, ONE, THREE, wait_timeout=0.0)
    gate = env.dhcp.gates[NET.id] = threading.Event()
    env.until(lambda status: 2 in env.served() and env.status_of(THREE) is not None)
    env.until(lambda status: env.dhcp.at_gate == {NET.id})
    env.source.put(port(12, OTHER))
    env.until(lambda status: env.served() == {2: {11, 12}})
    status = env.turn()
    assert not status.ready
    assert status.waiting[f"network {NET.id}"] == "its job"
    # Meanwhile much happens to the slow one; only the last of it is done.
    calls = len(env.dhcp.calls)
    for mtu in (1400, 1300, 1200):
        env.source.put(evolve(NET, mtu=mtu), evolve(ONE, name=str(mtu)))
        env.turn()
    env.source.put(port(12, NET))
    env.source.remove(ref(ONE))
    env.turn()
    gate.set()
    env.ready()
    assert env.dhcp.networks()[NET.id].mtu == 1200
    assert env.served() == {1: {12}, 2: {11, 12}}
    assert len(env.dhcp.calls) == calls + 1


def test_a_restart_changes_nothing():
    env = make_environment()
    env.turn()
    held, history = dict(env.machine.present), list(env.machine.history)
    env.agent.close()
    env.begin()
    status = env.ready()
    assert (env.machine.present, env.machine.history) == (held, history)
    assert status.counts == {"networks": 2, "subnets": 2, "ports": 3}
    assert env.status_of(ONE) is Status.ACTIVE


def test_what_vanishes_is_put_back_by_what_the_driver_says_or_by_a_resync():
    env = make_environment()
    env.machine.disturb(PortKey(ONE.id))
    env.ready()
    env.machine.restart()
    env.ready()
    assert env.served() == {1: {11, 12}, 2: {11}}
    env.machine.present.clear()
    env.loop.resync()
    env.ready()
    assert env.served() == {1: {11, 12}, 2: {11}}
    assert env.machine.rereads


def test_events_about_strangers_cause_nothing():
    env = make_environment()
    calls = len(env.dhcp.calls)
    stranger = server_port(77, NET)
    keys = {NetworkKey(stranger.id), PortKey(stranger.id), RouterKey(stranger.id)}
    env.machine.notify(KeysChanged("something", keys))
    assert env.turn().ready
    assert len(env.dhcp.calls) == calls


def test_a_network_that_fails_is_not_tried_again_for_the_noise_that_its_own_attempt_makes():
    env = DhcpAgentEnvironment(*CLOUD, ONE, wait_timeout=0.0)
    converge = env.dhcp.converge

    def noisy(update):
        env.machine.notify(KeysChanged("a device was plugged", {NetworkKey(NET.id)}))
        try:
            return converge(update)
        finally:
            env.machine.notify(KeysChanged("and unplugged", {NetworkKey(NET.id)}))

    env.dhcp.converge = noisy
    env.machine.refused[NetworkKey(NET.id)] = "no such file"
    env.until_failed()
    calls = len(env.dhcp.calls)
    for _ in range(10):
        status = env.turn()
    assert status.degraded == {f"network {NET.id}": "no such file"}
    assert len(env.dhcp.calls) == calls
    for _ in range(3):
        env.turn(after=1.0)
        env.until_failed()
    assert len(env.dhcp.calls) <= calls + 3
    env.machine.refused.clear()
    env.dhcp.converge = converge
    env.ready(pace=1.0)
    assert env.served()[1] == {11}


def test_what_is_spoilt_while_it_is_made_is_looked_at_again():
    env = make_environment(wait_timeout=0.0)
    gate = env.dhcp.gates[NET.id] = threading.Event()
    env.source.put(port(13, NET))
    env.until(lambda status: env.dhcp.at_gate == {NET.id})
    env.machine.notify(KeysChanged("somebody did something", {PortKey(port(13, NET).id)}))
    env.turn()
    calls = len(env.dhcp.calls)
    gate.set()
    env.ready()
    assert len(env.dhcp.calls) == calls + 1


def test_a_port_that_comes_back_on_another_network_moves():
    env = make_environment()
    moved = evolve(port(12, OTHER), id=ONE.id)
    env.source.put(moved)
    env.ready()
    assert env.served() == {1: {12}, 2: {11, 12}}


def test_a_server_process_that_dies_is_looked_after_or_is_the_end():
    env = make_environment()
    env.machine.present.pop(NetworkKey(NET.id))
    env.machine.notify(ProcessDied("dnsmasq ended", {NetworkKey(NET.id)}))
    env.ready()
    assert 1 in env.served()
    env.machine.notify(ProcessDied("dnsmasq of network 1 ended", {NetworkKey(NET.id)}, True))
    with pytest.raises(AgentMustEnd, match="dnsmasq of network 1 ended"):
        env.turn()


def test_a_server_process_that_dies_again_and_again_is_started_with_back_off():
    env = make_environment()
    calls, key = len(env.dhcp.calls), NetworkKey(NET.id)
    for _ in range(20):
        env.machine.present.pop(key, None)
        env.machine.notify(ProcessDied("dnsmasq ended", {key}))
        env.until(lambda status: not env.agent._jobs.is_busy)
    assert len(env.dhcp.calls) - calls < 3
    assert env.loop._pause() >= 1
    env.turn(after=120.0)
    env.ready()
    assert key in env.machine.present


@pytest.mark.spec("DHCP-08")
def test_the_agent_says_what_operators_know():
    env = make_environment(rules=ISOLATED, availability_zone="north", lease_duration=86400)
    beat = env.agent.heartbeat(start=True)
    assert (beat.agent.agent_type, beat.agent.binary) == ("DHCP agent", "netfw-dhcp-agent")
    assert (beat.agent.topic, beat.agent.availability_zone) == ("dhcp_agent", "north")
    configurations = beat.agent.configurations.content()
    assert configurations["dhcp_driver"] == "fake"
    assert configurations["dhcp_lease_duration"] == 86400
    assert beat.counts == {"networks": 2, "subnets": 2, "ports": 3}
    assert env.agent.subscription == Subscription(HERE, {Service.DHCP})


def test_a_lost_feed_is_a_complete_pass():
    env = make_environment()
    env.machine.present.pop(PortKey(ONE.id))
    env.machine.notify(FeedLost("gone"))
    env.ready()
    assert env.served() == {1: {11, 12}, 2: {11}}
    assert OTHER_SUBNET.id in {each.id for each in env.dhcp.networks()[OTHER.id].subnets}
