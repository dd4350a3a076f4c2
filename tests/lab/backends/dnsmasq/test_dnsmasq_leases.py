"""Leases that dnsmasq does not take back when it is told to."""

from __future__ import annotations

import os
import signal

import pytest
from attrs import evolve

from netfw.drivers.support.lease_options import INFINITE
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import (
    ServedNetwork,
    a_subnet,
    make_network,
    server_port,
    wanted,
)
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


def without_second(net: ServedNetwork) -> ServedNetwork:
    """Return the same network with DHCP switched off on its second subnet."""
    off = net.with_subnet(1, enable_dhcp=False)
    return off.but(server=evolve(net.value.server, addresses=server_port(off.subnets).addresses))


@pytest.mark.spec("DHCP-46")
def test_the_leases_of_a_subnet_that_is_switched_off_are_forgotten(host: DnsmasqHost) -> None:
    net = make_network(a_subnet(), a_subnet())
    one, two = net.tenant(20), net.tenant(20, on=(1,))
    assert host.put(net, one, two).ok
    assert host.lease(one) is not None
    assert host.lease(two) is not None
    off = without_second(net)
    assert host.put(off).ok
    assert str(two.ip) not in host.leases(net)
    assert str(one.ip) in host.leases(net)
    assert host.driver.converge(Update(put=wanted(off, one, two), complete=True)).ok
    assert host.drop(two).ok
    assert host.put(net).ok
    successor = net.tenant(20, on=(1,))
    assert host.put(successor).ok
    lease = host.lease(successor)
    assert lease is not None
    assert lease.ip == successor.ip


@pytest.mark.spec("DHCP-46")
def test_lease_unknown_to_dnsmasq_leaves_no_garbage(host: DnsmasqHost) -> None:
    net, other = make_network(), make_network()
    port = net.tenant(20)
    assert host.put(net, port, other).ok
    block = net.subnets[0].cidr
    host.driver.close()
    os.kill(host.pid(net), signal.SIGKILL)
    with host.files(net).leases.open("a") as leases:
        leases.write("1999999999 fa:16:3e:aa:aa:aa 192.168.77.7 foreign *\n")
        leases.write(f"1999999999 fa:16:3e:aa:aa:ab {block[99]} nobodys 01:aa\n")
        leases.write(f"rubbish\n1999999999 06-aa:bb:cc:dd:ee:ff {block[98]} odd ff:00\n")
    host.restart()
    assert host.put(net, port).ok
    kept = frozenset(wanted(net, port))
    for _ in range(2):
        assert host.driver.converge(Update(complete=True, keep=kept)).ok
        assert host.driver.present() == kept
    host.restart()
    assert host.driver.converge(Update(complete=True, keep=kept)).ok, "though nobody told it more"
    lease = host.lease(port)
    assert lease is not None
    assert lease.ip == port.ip


@pytest.mark.spec("DHCP-44")
def test_leases_for_ever_are_written_as_such_before_dnsmasq_starts(host: DnsmasqHost) -> None:
    host.settings = evolve(host.settings, lease=INFINITE)
    host.restart()
    net = make_network()
    port = net.tenant(20)
    assert host.put(net, port).ok
    (line,) = host.leases(net).splitlines()
    assert line.startswith(f"0 {port.mac} {port.ip} ")
    lease = host.lease(port)
    assert lease is not None
    assert lease.seconds == 0xFFFFFFFF
    (line,) = host.leases(net).splitlines()
    assert line.startswith(f"0 {port.mac} {port.ip} ")


@pytest.mark.nightly
@pytest.mark.spec("DHCP-46", "DHCP-47")
def test_a_dnsmasq_that_does_not_hear_is_started_again(host: DnsmasqHost) -> None:
    net = make_network()
    former = net.tenant(20)
    assert host.put(net, former).ok
    assert host.lease(former) is not None
    pid = host.pid(net)
    os.kill(pid, signal.SIGSTOP)
    outcome = host.drop(former)
    assert outcome.ok, "by the second try, which starts it again"
    assert host.pid(net) != pid
    successor = net.tenant(20)
    assert host.put(successor).ok
    lease = host.lease(successor)
    assert lease is not None
    assert lease.ip == successor.ip
