"""What dnsmasq remembers in spite of its files never keeps a port from its address."""

from __future__ import annotations

import pytest

from netfw.drivers.values.events import KeysChanged, ProcessDied
from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import Tenant, make_network, wanted
from tests.lab.backends.dnsmasq.environment import DnsmasqHost

NTP = (DhcpOption(name="42", value="10.0.0.9"),)


def gets_its_own(host: DnsmasqHost, tenant: Tenant) -> bool:
    lease = host.lease(tenant)
    return lease is not None and lease.ip == tenant.ip


@pytest.mark.spec("DHCP-46")
def test_mac_address_returns_and_its_former_address_goes_to_another_port(
    host: DnsmasqHost,
) -> None:
    net = make_network()
    former = net.tenant(20)
    assert host.put(net, former).ok
    assert gets_its_own(host, former)
    assert host.drop(former).ok
    back = net.tenant(21, mac=former.mac)
    assert host.put(back).ok
    assert gets_its_own(host, back)
    successor = net.tenant(20)
    assert host.put(successor).ok
    assert gets_its_own(host, successor)


@pytest.mark.spec("DHCP-46")
def test_a_port_comes_back_changed_and_its_former_addresses_go_to_others(host: DnsmasqHost) -> None:
    # Its tombstone is not written over while dnsmasq remembers what is in it.
    net = make_network()
    former = net.tenant(20)
    assert host.put(net, former).ok
    assert host.drop(former).ok
    changed = net.tenant(21)
    assert host.put(former.but(mac=changed.mac, fixed_ips=changed.value.fixed_ips)).ok
    assert host.drop(former).ok
    successor, same_mac = net.tenant(20), net.tenant(22, mac=former.mac)
    assert host.put(successor, same_mac).ok
    assert gets_its_own(host, successor)
    assert gets_its_own(host, same_mac)


def test_dnsmasq_survives_changes_after_the_mac_address_of_a_special_port_came_back(
    host: DnsmasqHost,
) -> None:
    net = make_network()
    special, keeper = net.tenant(20, options=NTP), net.tenant(30)
    assert host.put(net, special, keeper).ok
    assert gets_its_own(host, special)
    assert host.drop(special).ok
    back = net.tenant(21, mac=special.mac)
    assert host.put(back).ok
    assert gets_its_own(host, back)
    renamed = keeper.but(hostname="other")
    assert host.put(renamed).ok
    assert gets_its_own(host, renamed)
    assert not [event for event in host.events if isinstance(event, ProcessDied)]


@pytest.mark.spec("DHCP-46")
def test_a_mac_address_moves_to_another_port_within_one_update(host: DnsmasqHost) -> None:
    net = make_network()
    former = net.tenant(20)
    assert host.put(net, former).ok
    assert gets_its_own(host, former)
    successor = net.tenant(21, mac=former.mac)
    assert host.driver.converge(Update(put=wanted(successor), drop=frozenset({former.key}))).ok
    assert gets_its_own(host, successor)


@pytest.mark.spec("DHCP-46")
def test_port_with_an_address_in_use_waits_and_is_reported_when_it_is_free(
    host: DnsmasqHost,
) -> None:
    net = make_network()
    former = net.tenant(20)
    assert host.put(net, former).ok
    assert gets_its_own(host, former)
    successor = net.tenant(20)
    outcome = host.put(successor)
    assert outcome.waiting == {successor.key: f"{successor.ip} is still of port {former.port}"}
    assert gets_its_own(host, former)
    host.events.clear()
    assert host.drop(former).ok
    (woken,) = host.events
    assert isinstance(woken, KeysChanged)
    assert woken.keys == {successor.key}
    assert host.put(successor).ok
    assert gets_its_own(host, successor)


@pytest.mark.spec("DHCP-46")
def test_two_ports_swap_their_addresses_in_one_update(host: DnsmasqHost) -> None:
    net = make_network()
    one, two = net.tenant(20), net.tenant(21)
    assert host.put(net, one, two).ok
    assert gets_its_own(host, one)
    assert gets_its_own(host, two)
    swapped = one.but(fixed_ips=two.value.fixed_ips), two.but(fixed_ips=one.value.fixed_ips)
    assert host.put(*swapped).done == {one.key, two.key}
    assert all(gets_its_own(host, each) for each in swapped)


@pytest.mark.spec("DHCP-46")
def test_two_ports_swap_their_addresses_one_after_the_other(host: DnsmasqHost) -> None:
    net = make_network()
    one, two = net.tenant(20), net.tenant(21)
    assert host.put(net, one, two).ok
    assert gets_its_own(host, one)
    assert gets_its_own(host, two)
    swapped = one.but(fixed_ips=two.value.fixed_ips), two.but(fixed_ips=one.value.fixed_ips)
    assert host.put(swapped[0]).waiting.keys() == {one.key}
    assert host.lease(one, 1.5) is None
    assert gets_its_own(host, two)
    host.events.clear()
    assert host.put(swapped[1]).done == {two.key}
    assert [event.keys for event in host.events if isinstance(event, KeysChanged)] == [{one.key}]
    assert host.put(swapped[0]).done == {one.key}
    assert all(gets_its_own(host, each) for each in swapped)


@pytest.mark.spec("DHCP-46")
def test_a_port_that_is_refused_does_not_keep_an_address_that_it_lost(host: DnsmasqHost) -> None:
    net = make_network()
    port, successor = net.tenant(20), net.tenant(20)
    assert host.put(net, port).ok
    assert gets_its_own(host, port)
    outcome = host.put(port.but(fixed_ips=net.tenant(21).value.fixed_ips, hostname="a\nb"))
    assert outcome.failed.keys() == {port.key}
    assert host.put(successor).ok
    assert host.put(net.but(dns_domain="other.org")).ok
    assert gets_its_own(host, successor)
    assert host.lease(port, 1.5) is None
