"""The driver on a real switch, with a real dnsmasq and real clients."""

from __future__ import annotations

from dnsmasq_host import DnsmasqHost

from netfw.testing.conformance.dhcp_world import a_net


def test_a_client_gets_its_address(host: DnsmasqHost) -> None:
    net = a_net()
    port = net.tenant()
    outcome = host.put(net, port)
    assert outcome.ok, outcome
    lease = host.lease(port)
    assert lease is not None
    assert lease.address.ip == port.ip
    assert not host.plan(net, port)
