"""The DHCP agent on drivers in memory: what it orders, in what order, and what it says."""

import threading
from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.drivers.agent_requests import EnsureDhcpPort, ReleaseDhcpPort
from netfw.drivers.events import FeedLost, KeysChanged, ProcessDied
from netfw.drivers.keys import NetworkKey, PortKey, RouterKey
from netfw.drivers.metadata import MetadataProxy
from netfw.drivers.subscription import Service, Subscription
from netfw.errors import AgentMustEnd, BackendUnavailable, ConfigError
from netfw.model.common_fields import Status
from netfw.model.ids import RouterId
from netfw.model.resource import ref
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE, dhcp_device_id
from netfw.testing.fakes.dhcp import FakeDhcp
from tests.unit.agents.dhcp.environment import (  # fmt: skip
    CLOUD,
    HERE,
    NET,
    OTHER,
    OTHER_SUBNET,
    SUBNET,
    World,
    assigned,
    port,
    router_interface,
    server_port,
    subnet,
)

ONE, TWO, THREE = port(11, NET), port(12, NET), port(11, OTHER)
ISOLATED = MetadataPolicy(isolated=True)


def world(*more, **kwargs):
    world = World(*CLOUD, ONE, TWO, THREE, *more, **kwargs)
    world.ready()
    return world


@pytest.mark.spec("DHCP-04", "DHCP-05")
def test_what_is_assigned_is_served_and_what_is_not_is_not():
    down = evolve(NET, admin_up=False)
    found = world()
    assert found.served() == {1: {11, 12}, 2: {11}}
    found.source.put(down)
    assert found.ready().counts == {"networks": 1, "subnets": 1, "ports": 1}
    assert found.served() == {2: {11}}
    found.source.put(NET)
    found.source.remove(assigned(OTHER))
    found.ready()
    assert found.served() == {1: {11, 12}}
    found.source.put(evolve(SUBNET, enable_dhcp=False))
    found.ready()
    assert found.served() == {}
    assert not found.machine.present


@pytest.mark.spec("DHCP-20")
def test_server_port_is_requested_once_and_released():
    found = world()
    first = found.dhcp.networks()[NET.id].server
    assert len(found.asked(EnsureDhcpPort)) == 2
    assert len(found.dhcp.calls) == 3  # one sweep, and each network once
    found.source.put(port(13, NET))
    found.ready()
    assert len(found.asked(EnsureDhcpPort)) == 2
    found.source.put(subnet(NET, 7))
    found.ready()
    server = found.dhcp.networks()[NET.id].server
    assert server.id == first.id
    assert len(server.addresses) == 2
    found.source.remove(assigned(NET))
    found.ready()
    assert found.asked(ReleaseDhcpPort) == [ReleaseDhcpPort(network=NET.id, host=HERE)]


@pytest.mark.spec("DHCP-20")
def test_a_port_that_a_dead_agent_left_is_adopted():
    left = server_port(2, NET, device_id=RESERVED_DHCP_DEVICE)
    found = world(left)
    assert found.dhcp.networks()[NET.id].server.id == left.id
    adopted = found.source.resources()[ref(left)]
    assert (adopted.binding.host, adopted.device_id) == (HERE, dhcp_device_id(HERE, NET.id))


@pytest.mark.spec("DHCP-80", "DHCP-06")
def test_one_port_more_is_one_port_to_the_driver():
    found = world(*(port(number, NET) for number in range(20, 120)))
    found.turn()
    before = len(found.dhcp.calls)
    found.source.put(port(13, NET))
    found.ready()
    (call,) = found.dhcp.calls[before:]
    assert (set(call.put), call.drop, call.complete) == ({PortKey(port(13, NET).id)}, set(), False)
    found.source.remove(ref(port(13, NET)))
    found.ready()
    assert found.dhcp.calls[-1].drop == {PortKey(port(13, NET).id)}
    assert len(found.dhcp.calls) == before + 2


@pytest.mark.spec("DHCP-07")
def test_ports_are_said_to_be_ready_at_their_revision():
    found = World(*CLOUD, ONE, TWO)
    found.machine.refused[PortKey(TWO.id)] = "no"
    found.until(lambda status: status.degraded and not found.loop._events.ready.is_set())
    assert found.status_of(ONE) is Status.ACTIVE
    assert found.status_of(TWO) is Status.DEGRADED
    assert found.source.status(ref(TWO), Service.DHCP).reason == "no"
    calls = len(found.dhcp.calls)
    renamed = evolve(ONE, name="another", revision=5)
    found.source.put(renamed)
    found.turn()
    assert found.source.status(ref(ONE), Service.DHCP).revision == 5
    assert len(found.dhcp.calls) == calls


def test_nothing_is_said_of_a_port_before_it_was_tried_as_it_is_now():
    found = world(patience=0.0)
    gate = found.dhcp.gates[NET.id] = threading.Event()
    changed = evolve(ONE, mac="fa:16:3e:99:99:99", revision=2)
    found.source.put(changed)
    assert found.turn().waiting == {f"port {ONE.id}": "its job"}
    assert found.source.status(ref(ONE), Service.DHCP).revision == 1
    gate.set()
    found.ready()
    assert found.source.status(ref(ONE), Service.DHCP).revision == 2


@pytest.mark.spec("DHCP-03")
def test_what_fails_is_a_matter_of_its_network_or_port_alone():
    found = World(*CLOUD, ONE, TWO, THREE)
    found.machine.crashing.add(NetworkKey(NET.id))
    found.machine.refused[PortKey(THREE.id)] = "a name that cannot be"
    status = found.until(lambda status: len(status.degraded) == 2)
    assert found.served() == {2: set()}
    assert "a name" in status.degraded[f"port {THREE.id}"]
    assert set(status.waiting) == {f"port {ONE.id}", f"port {TWO.id}"}
    found.machine.crashing.clear()
    found.machine.refused.clear()
    found.turn(after=1.0)
    found.ready()
    assert found.served() == {1: {11, 12}, 2: {11}}


def test_ports_that_waited_for_their_network_come_with_it():
    found = World(*CLOUD, ONE)
    found.machine.refused[NetworkKey(NET.id)] = "no"
    found.until(lambda status: status.degraded)
    for _ in range(5):
        found.turn(after=8.0)
    assert found.loop.status.waiting == {f"port {ONE.id}": "its network"}
    found.machine.refused.clear()
    found.machine.tell(KeysChanged("it can be had now", {NetworkKey(NET.id)}))
    found.turn(after=1.0)  # long before the port itself would be tried again
    found.ready()
    assert found.status_of(ONE) is Status.ACTIVE


def test_what_is_gone_when_the_source_is_read_from_the_beginning_goes():
    found = world()
    found.loop._replica.reset()
    found.source.commit(remove=(assigned(NET), ref(THREE)))
    found.ready()
    assert found.served() == {2: set()}
    assert len(found.machine.present) == 1


def test_source_outage_does_not_affect_served_networks():
    found = world()
    found.source.away = True
    found.source.put(subnet(NET, 7), port(13, NET))
    status = found.until(lambda status: status.degraded)
    assert set(status.degraded) == {f"network {NET.id}"}
    assert found.served()[1] == {11, 12, 13}
    assert len(found.dhcp.networks()[NET.id].subnets) == 1
    found.source.away = False
    found.turn(after=1.0)
    found.ready()
    assert len(found.dhcp.networks()[NET.id].subnets) == 2


@pytest.mark.spec("DHCP-06", "DHCP-04")
def test_slow_network_delays_no_other():
    found = World(*CLOUD, ONE, THREE, patience=0.0)
    gate = found.dhcp.gates[NET.id] = threading.Event()
    found.until(lambda status: 2 in found.served() and found.status_of(THREE) is not None)
    found.until(lambda status: found.dhcp.at_gate == {NET.id})
    found.source.put(port(12, OTHER))
    found.until(lambda status: found.served() == {2: {11, 12}})
    status = found.turn()
    assert not status.ready
    assert status.waiting[f"network {NET.id}"] == "its job"
    # Meanwhile much happens to the slow one; only the last of it is done.
    calls = len(found.dhcp.calls)
    for mtu in (1400, 1300, 1200):
        found.source.put(evolve(NET, mtu=mtu), evolve(ONE, name=str(mtu)))
        found.turn()
    found.source.put(port(12, NET))
    found.source.remove(ref(ONE))
    found.turn()
    gate.set()
    found.ready()
    assert found.dhcp.networks()[NET.id].mtu == 1200
    assert found.served() == {1: {12}, 2: {11, 12}}
    assert len(found.dhcp.calls) == calls + 1


@pytest.mark.spec("DHCP-09")
def test_what_a_former_agent_left_is_removed_before_anything_is_served():
    found = World(*CLOUD, ONE)
    stray, proxy = NetworkKey(server_port(1, NET).id), NetworkKey(NET.id)
    found.machine.present[stray] = found.machine.present[PortKey(TWO.id)] = "old"
    place = found.dhcp.location(NET.id, server_port(2, NET))
    found.metadata.machine.present[proxy] = MetadataProxy(netns=place.netns)
    found.ready()
    assert found.served() == {1: {11}, 2: set()}
    assert all(line.startswith("remove") for line in found.machine.history[:2])
    assert stray not in found.machine.present
    assert not found.metadata.machine.present
    assert ReleaseDhcpPort(network=stray.network, host=HERE) in found.source.asked


def raise_unavailable():
    raise BackendUnavailable("unavailable")


def test_garbage_that_cannot_be_removed_is_degraded_and_delays_nothing():
    found = World(*CLOUD, ONE)
    stray = NetworkKey(server_port(1, NET).id)
    found.machine.present[stray] = "old"
    found.dhcp.present = raise_unavailable
    status = found.until(lambda status: status.degraded)
    assert status.degraded == {"garbage": "unavailable"}
    assert found.served() == {1: {11}, 2: set()}
    del found.dhcp.present
    found.turn(after=1.0)
    found.ready()
    assert stray not in found.machine.present


def test_a_complete_pass_waits_for_what_is_at_work_and_comes_alone():
    found = world(patience=0.0)
    gate = found.dhcp.gates[NET.id] = threading.Event()
    calls = len(found.dhcp.calls)
    found.source.put(port(13, NET))
    found.turn()
    found.until_called(calls + 1)
    found.machine.present[NetworkKey(server_port(1, NET).id)] = "old"
    found.loop.resync()
    assert "garbage" in found.turn().waiting
    found.source.put(port(12, OTHER))
    found.turn()
    gate.set()
    found.ready()
    assert found.served() == {1: {11, 12, 13}, 2: {11, 12}}
    assert found.machine.present.keys() == {
        NetworkKey(NET.id), NetworkKey(OTHER.id), PortKey(port(12, OTHER).id),
        *(PortKey(each.id) for each in (ONE, TWO, THREE, port(13, NET))),
    }  # fmt: skip


def test_garbage_waits_for_a_slow_network_and_delays_nothing():
    found = world(patience=0.0, pause=0.0)
    gate = found.dhcp.gates[NET.id] = threading.Event()
    calls = len(found.dhcp.calls)
    found.source.put(port(13, NET))
    found.turn()
    found.until_called(calls + 1)
    stray = NetworkKey(server_port(1, NET).id)
    found.machine.present[stray] = "old"
    found.loop.resync()
    found.source.put(port(12, OTHER))
    status = found.until(lambda status: 12 in found.served()[2])
    assert "is running" in status.degraded["garbage"]
    gate.set()
    found.ready(pace=1.0)
    assert stray not in found.machine.present


def test_a_restart_changes_nothing():
    found = world()
    found.turn()
    held, history = dict(found.machine.present), list(found.machine.history)
    found.agent.close()
    found.begin()
    status = found.ready()
    assert (found.machine.present, found.machine.history) == (held, history)
    assert status.counts == {"networks": 2, "subnets": 2, "ports": 3}
    assert found.status_of(ONE) is Status.ACTIVE


def test_what_vanishes_is_put_back_by_what_the_driver_says_or_by_a_resync():
    found = world()
    found.machine.disturb(PortKey(ONE.id))
    found.ready()
    found.machine.restart()
    found.ready()
    assert found.served() == {1: {11, 12}, 2: {11}}
    found.machine.present.clear()
    found.loop.resync()
    found.ready()
    assert found.served() == {1: {11, 12}, 2: {11}}
    assert found.machine.rereads


def test_events_about_strangers_cause_nothing():
    found = world()
    calls = len(found.dhcp.calls)
    stranger = server_port(77, NET)
    keys = {NetworkKey(stranger.id), PortKey(stranger.id), RouterKey(stranger.id)}
    found.machine.tell(KeysChanged("something", keys))
    assert found.turn().ready
    assert len(found.dhcp.calls) == calls


def test_a_network_that_fails_is_not_tried_again_for_the_noise_that_its_own_attempt_makes():
    found = World(*CLOUD, ONE, patience=0.0)
    converge = found.dhcp.converge

    def noisy(update):
        found.machine.tell(KeysChanged("a device was plugged", {NetworkKey(NET.id)}))
        try:
            return converge(update)
        finally:
            found.machine.tell(KeysChanged("and unplugged", {NetworkKey(NET.id)}))

    found.dhcp.converge = noisy
    found.machine.refused[NetworkKey(NET.id)] = "no such file"
    found.until(lambda status: status.degraded and not found.loop._events.ready.is_set())
    calls = len(found.dhcp.calls)
    for _ in range(10):
        status = found.turn()
    assert status.degraded == {f"network {NET.id}": "no such file"}
    assert len(found.dhcp.calls) == calls
    for _ in range(3):
        found.turn(after=1.0)
        found.until(lambda status: status.degraded and not found.loop._events.ready.is_set())
    assert len(found.dhcp.calls) <= calls + 3
    found.machine.refused.clear()
    found.dhcp.converge = converge
    found.ready(pace=1.0)
    assert found.served()[1] == {11}


def test_what_is_spoilt_while_it_is_made_is_looked_at_again():
    found = world(patience=0.0)
    gate = found.dhcp.gates[NET.id] = threading.Event()
    found.source.put(port(13, NET))
    found.until(lambda status: found.dhcp.at_gate == {NET.id})
    found.machine.tell(KeysChanged("somebody did something", {PortKey(port(13, NET).id)}))
    found.turn()
    calls = len(found.dhcp.calls)
    gate.set()
    found.ready()
    assert len(found.dhcp.calls) == calls + 1


def test_a_port_that_comes_back_on_another_network_moves():
    found = world()
    moved = evolve(port(12, OTHER), id=ONE.id)
    found.source.put(moved)
    found.ready()
    assert found.served() == {1: {12}, 2: {11, 12}}


def test_a_server_process_that_dies_is_looked_after_or_is_the_end():
    found = world()
    found.machine.present.pop(NetworkKey(NET.id))
    found.machine.tell(ProcessDied("dnsmasq ended", {NetworkKey(NET.id)}))
    found.ready()
    assert 1 in found.served()
    found.machine.tell(ProcessDied("dnsmasq of network 1 ended", {NetworkKey(NET.id)}, True))
    with pytest.raises(AgentMustEnd, match="dnsmasq of network 1 ended"):
        found.turn()


@pytest.mark.spec("DHCP-08")
def test_the_agent_says_what_operators_know():
    found = world(rules=ISOLATED, availability_zone="north", lease_duration=86400)
    beat = found.agent.heartbeat(start=True)
    assert (beat.agent.agent_type, beat.agent.binary) == ("DHCP agent", "netfw-dhcp-agent")
    assert (beat.agent.topic, beat.agent.availability_zone) == ("dhcp_agent", "north")
    said = beat.agent.configurations.content()
    assert said["dhcp_driver"] == "fake"
    assert said["dhcp_lease_duration"] == 86400
    assert beat.counts == {"networks": 2, "subnets": 2, "ports": 3}
    assert found.agent.subscription == Subscription(HERE, {Service.DHCP})


# Metadata


def proxies(found):
    return dict(found.metadata.machine.present)


@pytest.mark.spec("DHCP-60", "DHCP-61")
def test_a_proxy_comes_after_its_network_and_goes_before_it():
    found = world(rules=ISOLATED)
    proxy = proxies(found)[NetworkKey(NET.id)]
    assert proxy.netns == f"qdhcp-{NET.id}"
    assert proxy.device == found.dhcp.location(NET.id, found.dhcp.networks()[NET.id].server).device
    assert found.dhcp.networks()[NET.id].metadata_for == {SUBNET.id}
    found.source.put(router_interface(1, NET))
    found.ready()
    assert set(proxies(found)) == {NetworkKey(OTHER.id)}
    assert found.dhcp.networks()[NET.id].metadata_for == frozenset()
    found.source.remove(assigned(OTHER))
    found.ready()
    assert not proxies(found)


@pytest.mark.spec("DHCP-60")
def test_a_proxy_that_cannot_run_degrades_its_network_and_not_dhcp():
    found = World(*CLOUD, ONE, THREE, rules=ISOLATED)
    found.metadata.machine.refused[NetworkKey(NET.id)] = "no haproxy"
    status = found.until(lambda status: status.degraded)
    assert status.degraded == {f"network {NET.id}": "no haproxy"}
    assert found.served() == {1: {11}, 2: {11}}
    assert found.status_of(ONE) is Status.ACTIVE
    assert set(proxies(found)) == {NetworkKey(OTHER.id)}
    found.metadata.machine.refused.clear()
    found.turn(after=1.0)
    found.ready()
    assert NetworkKey(NET.id) in proxies(found)


@pytest.mark.spec("DHCP-05")
def test_a_network_that_cannot_be_served_has_no_proxy_either():
    found = World(*CLOUD, ONE, THREE, rules=ISOLATED)
    found.machine.refused[NetworkKey(NET.id)] = "no room"
    status = found.until(lambda status: status.degraded)
    assert status.degraded == {f"network {NET.id}": "no room"}
    assert set(proxies(found)) == {NetworkKey(OTHER.id)}
    found.machine.refused.clear()
    found.turn(after=1.0)
    found.ready()
    assert set(proxies(found)) == {NetworkKey(NET.id), NetworkKey(OTHER.id)}


@pytest.mark.spec("DHCP-60")
def test_the_proxy_of_a_metadata_network_is_its_routers():
    inside = subnet(NET, cidr="169.254.0.0/16", gateway="169.254.0.1")
    door = router_interface(1, NET, on=inside)
    router = RouterKey(RouterId(UUID(door.device_id)))
    cloud = (NET, inside, assigned(NET), door)
    found = World(*cloud, rules=MetadataPolicy(network=True))
    found.ready()
    assert set(proxies(found)) == {router}
    found.agent.close()
    found.begin()
    found.ready()
    assert set(proxies(found)) == {router}
    second = router_interface(2, NET, 10, on=inside)
    found.source.put(second)
    status = found.until(lambda status: status.degraded)
    assert "remove all but one" in status.degraded[f"network {NET.id}"]
    assert not proxies(found)
    assert 1 in found.served()
    found.source.remove(ref(second))
    found.ready()
    assert set(proxies(found)) == {router}
    found.metadata.machine.disturb(router)
    found.ready()
    assert set(proxies(found)) == {router}


def test_one_router_has_one_metadata_network():
    def inside(of):
        return subnet(of, cidr="169.254.0.0/16", gateway="169.254.0.1")

    items = [
        each
        for of in (NET, OTHER)
        for each in (of, inside(of), assigned(of), router_interface(1, of, 9, on=inside(of)))
    ]
    found = World(*items, rules=MetadataPolicy(network=True))
    status = found.until(lambda status: status.degraded)
    (reason,) = status.degraded.values()
    assert "one metadata network only" in reason
    assert len(proxies(found)) == 1
    holder = NET if str(OTHER.id) in next(iter(status.degraded)) else OTHER
    found.source.remove(assigned(holder))
    found.until(lambda status: holder.id not in found.dhcp.networks())
    found.turn(after=8.0)
    found.ready()
    assert len(proxies(found)) == 1


def test_without_a_metadata_driver_nothing_that_needs_one_is_taken():
    found = World()
    with pytest.raises(ConfigError, match="metadata_driver"):
        DhcpAgent(DhcpAgentConfig(host=HERE, metadata=ISOLATED), found.source, FakeDhcp())


def test_a_lost_feed_is_a_complete_pass():
    found = world()
    found.machine.present.pop(PortKey(ONE.id))
    found.machine.tell(FeedLost("gone"))
    found.ready()
    assert found.served() == {1: {11, 12}, 2: {11}}
    assert OTHER_SUBNET.id in {each.id for each in found.dhcp.networks()[OTHER.id].subnets}
