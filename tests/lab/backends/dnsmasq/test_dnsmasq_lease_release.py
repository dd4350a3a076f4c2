"""Leases that are given back, and leases that are kept."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.drivers.values.events import ProcessDied
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import a_subnet6, make_network
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


@pytest.mark.spec("DHCP-46")
def test_the_lease_of_a_dropped_port_is_given_back(host: DnsmasqHost) -> None:
    net = make_network()
    former, keeper = net.tenant(20), net.tenant(30)
    assert host.put(net, former, keeper).ok
    assert host.lease(former) is not None
    assert host.lease(keeper) is not None
    pid = host.pid(net)
    assert host.drop(former).ok
    left = host.leases(net)
    assert str(former.ip) not in left
    assert str(keeper.ip) in left
    successor = net.tenant(20)
    assert host.put(successor).ok
    lease = host.lease(successor)
    assert lease is not None
    assert lease.ip == former.ip
    assert host.lease(former, 1.5) is None
    assert host.pid(net) == pid


@pytest.mark.spec("DHCP-46")
def test_a_lease_that_a_killed_driver_kept_is_given_back_by_the_next(host: DnsmasqHost) -> None:
    net = make_network()
    former = net.tenant(20)
    assert host.put(net, former).ok
    assert host.lease(former) is not None
    drop: Update = Update(drop=frozenset({former.key}))
    plan = host.driver.plan(drop, host.driver.observe(drop))
    assert [stage.backend for stage in plan.stages] == [f"files/{net.id}", f"leases/{net.id}"]
    host.driver.apply(evolve(plan, stages=plan.stages[:1]), lambda stage: None)
    host.restart()
    assert str(former.ip) in host.leases(net)
    assert host.drop(former).ok
    assert str(former.ip) not in host.leases(net)
    assert host.drop(former).ok


@pytest.mark.spec("DHCP-46")
def test_an_ipv6_lease_is_given_back(host: DnsmasqHost) -> None:
    net = make_network(a_subnet6(Ipv6Mode.STATEFUL))
    former = net.tenant(20)
    assert host.put(net, former).ok
    lease = host.lease6(former)
    assert lease is not None
    assert former.ip6 in lease.addresses
    assert f" {former.ip6} " in host.leases(net)
    assert host.drop(former).ok
    assert f" {former.ip6} " not in host.leases(net)


@pytest.mark.spec("DHCP-46")
def test_a_port_with_options_of_its_own_costs_no_lease_when_files_are_read_anew(
    host: DnsmasqHost,
) -> None:
    # SIGHUP would kill this dnsmasq: it is started again instead.
    net = make_network()
    special = net.tenant(20, options=(DhcpOption(name="42", value="10.0.0.9"),))
    other = net.tenant(30)
    assert host.put(net, special, other).ok
    client = host.client(special)
    before = client.lease()
    assert before is not None
    pid = host.pid(net)
    moved = evolve(other.value.fixed_ips[0], address=other.ip + 5)
    assert host.put(other.but(fixed_ips=(moved,))).ok
    assert host.pid(net) != pid
    again = client.renew()
    assert again is not None
    assert again.ip == before.ip
    lease = host.lease(other)
    assert lease is not None
    assert lease.ip == other.ip + 5
    assert not [event for event in host.events if isinstance(event, ProcessDied)]


@pytest.mark.spec("DHCP-44")
def test_lease_from_another_host_is_kept(host: DnsmasqHost) -> None:
    # The network moves to this host: the lease file is filled before dnsmasq starts.
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    client = host.client(port)
    before = client.lease()
    assert before is not None
    assert host.drop(net).ok
    assert host.put(net, port).ok
    assert f"{port.mac} {port.ip} " in host.leases(net)
    again = client.renew()
    assert again is not None
    assert again.ip == before.ip


@pytest.mark.spec("DHCP-44")
def test_leases_that_are_there_are_kept_when_dnsmasq_is_started_otherwise(
    host: DnsmasqHost,
) -> None:
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    client = host.client(port)
    assert client.lease() is not None
    (line,) = host.leases(net).splitlines()
    assert host.put(net.but(mtu=1400)).ok
    assert line in host.leases(net).splitlines()
    assert client.renew() is not None
