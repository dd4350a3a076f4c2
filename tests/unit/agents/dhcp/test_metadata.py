"""Metadata proxies of the DHCP agent."""

from uuid import UUID

import pytest

from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.errors import ConfigError
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import RouterId
from netfw.testing.fakes.dhcp import FakeDhcp
from tests.unit.agents.dhcp.environment import (  # fmt: skip
    CLOUD,
    HERE,
    ISOLATED,
    NET,
    ONE,
    OTHER,
    SUBNET,
    THREE,
    DhcpAgentEnvironment,
    assigned,
    make_environment,
    router_interface,
    subnet,
)


def proxies(env):
    return dict(env.metadata.machine.present)


@pytest.mark.spec("DHCP-60", "DHCP-61")
def test_a_proxy_comes_after_its_network_and_goes_before_it():
    env = make_environment(rules=ISOLATED)
    proxy = proxies(env)[NetworkKey(NET.id)]
    assert proxy.netns == f"qdhcp-{NET.id}"
    assert proxy.device == env.dhcp.location(NET.id, env.dhcp.networks()[NET.id].server).device
    assert env.dhcp.networks()[NET.id].metadata_for == {SUBNET.id}
    env.source.put(router_interface(1, NET))
    env.ready()
    assert set(proxies(env)) == {NetworkKey(OTHER.id)}
    assert env.dhcp.networks()[NET.id].metadata_for == frozenset()
    env.source.remove(assigned(OTHER))
    env.ready()
    assert not proxies(env)


@pytest.mark.spec("DHCP-60")
def test_a_network_that_is_served_in_part_has_its_proxy():
    bad = subnet(NET, 7, cidr="fd77::/64", gateway="::1")
    env = DhcpAgentEnvironment(*CLOUD, bad, ONE, rules=ISOLATED)
    status = env.until(lambda status: status.degraded)
    assert "subnets[1].gateway" in status.degraded[f"network {NET.id}"]
    assert NetworkKey(NET.id) in proxies(env)
    assert env.served() == {1: {11}, 2: set()}
    assert env.status_of(ONE) is Status.ACTIVE
    assert status.counts["networks"] == 2


@pytest.mark.spec("DHCP-60")
def test_a_proxy_that_cannot_run_degrades_its_network_and_not_dhcp():
    env = DhcpAgentEnvironment(*CLOUD, ONE, THREE, rules=ISOLATED)
    env.metadata.machine.refused[NetworkKey(NET.id)] = "no haproxy"
    status = env.until(lambda status: status.degraded)
    assert status.degraded == {f"network {NET.id}": "no haproxy"}
    assert env.served() == {1: {11}, 2: {11}}
    assert env.status_of(ONE) is Status.ACTIVE
    assert set(proxies(env)) == {NetworkKey(OTHER.id)}
    env.metadata.machine.refused.clear()
    env.turn(after=1.0)
    env.ready()
    assert NetworkKey(NET.id) in proxies(env)


@pytest.mark.spec("DHCP-05")
def test_a_network_that_cannot_be_served_has_no_proxy_either():
    env = DhcpAgentEnvironment(*CLOUD, ONE, THREE, rules=ISOLATED)
    env.machine.refused[NetworkKey(NET.id)] = "no room"
    status = env.until(lambda status: status.degraded)
    assert status.degraded == {f"network {NET.id}": "no room"}
    assert set(proxies(env)) == {NetworkKey(OTHER.id)}
    env.machine.refused.clear()
    env.turn(after=1.0)
    env.ready()
    assert set(proxies(env)) == {NetworkKey(NET.id), NetworkKey(OTHER.id)}


@pytest.mark.spec("DHCP-60")
def test_the_proxy_of_a_metadata_network_is_its_routers():
    inside = subnet(NET, cidr="169.254.0.0/16", gateway="169.254.0.1")
    door = router_interface(1, NET, on=inside)
    router = RouterKey(RouterId(UUID(door.device_id)))
    cloud = (NET, inside, assigned(NET), door)
    env = DhcpAgentEnvironment(*cloud, rules=MetadataPolicy(network=True))
    env.ready()
    assert set(proxies(env)) == {router}
    env.agent.close()
    env.begin()
    env.ready()
    assert set(proxies(env)) == {router}
    second = router_interface(2, NET, 10, on=inside)
    env.source.put(second)
    status = env.until(lambda status: status.degraded)
    assert "remove all but one" in status.degraded[f"network {NET.id}"]
    assert not proxies(env)
    assert 1 in env.served()
    env.source.remove(ref(second))
    env.ready()
    assert set(proxies(env)) == {router}
    env.metadata.machine.disturb(router)
    env.ready()
    assert set(proxies(env)) == {router}


def test_one_router_has_one_metadata_network():
    def inside(of):
        return subnet(of, cidr="169.254.0.0/16", gateway="169.254.0.1")

    items = [
        each
        for of in (NET, OTHER)
        for each in (of, inside(of), assigned(of), router_interface(1, of, 9, on=inside(of)))
    ]
    env = DhcpAgentEnvironment(*items, rules=MetadataPolicy(network=True))
    status = env.until(lambda status: status.degraded)
    (reason,) = status.degraded.values()
    assert "one metadata network only" in reason
    assert len(proxies(env)) == 1
    holder = NET if str(OTHER.id) in next(iter(status.degraded)) else OTHER
    env.source.remove(assigned(holder))
    env.until(lambda status: holder.id not in env.dhcp.networks())
    env.turn(after=8.0)
    env.ready()
    assert len(proxies(env)) == 1


def test_without_a_metadata_driver_nothing_that_needs_one_is_taken():
    env = DhcpAgentEnvironment()
    with pytest.raises(ConfigError, match="metadata_driver"):
        DhcpAgent(DhcpAgentConfig(host=HERE, metadata=ISOLATED), env.source, FakeDhcp())
