"""As many routes as the API takes reach a client that takes little and asks for them twice."""

from __future__ import annotations

import pytest

from netfw.model.values.route import Route
from netfw.testing.conformance.dhcp.factories import make_network
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


@pytest.mark.spec("DHCP-43")
@pytest.mark.parametrize("count", [8, 15, 20])
def test_all_routes_of_a_subnet_reach_the_client(host: DnsmasqHost, count: int) -> None:
    net = make_network()
    net = net.but(metadata_for=frozenset(subnet.id for subnet in net.subnets))
    hop = str(net.subnets[0].cidr[3])
    requested = [Route(destination=f"192.168.{n}.7/32", nexthop=hop) for n in range(count)]
    net = net.with_subnet(0, host_routes=tuple(requested))
    tenant = net.tenant(20)
    assert host.put(net, tenant).ok
    lease = host.lease(tenant)
    assert lease is not None
    assert set(requested) <= lease.routes
    destinations = {str(route.destination) for route in lease.routes}
    assert {"169.254.169.254/32", "0.0.0.0/0"} <= destinations
    assert lease.dns
    assert host.driver.problems() == ()


@pytest.mark.spec("DHCP-43")
def test_routes_that_do_not_fit_are_named_and_the_others_reach_the_client(
    host: DnsmasqHost, caplog: pytest.LogCaptureFixture
) -> None:
    net = make_network()
    hop = str(net.subnets[0].cidr[3])
    requested = [Route(destination=f"192.168.{n}.7/32", nexthop=hop) for n in range(23)]
    net = net.with_subnet(0, host_routes=tuple(requested))
    tenant = net.tenant(20)
    assert host.put(net, tenant).ok
    (fault,) = host.driver.problems()
    assert str(net.subnets[0].id) in fault
    assert "2 of its 23 routes" in fault
    assert "192.168.21.7/32, 192.168.22.7/32" in fault
    assert host.put(net, tenant).ok
    assert [fault in record.message for record in caplog.records].count(True) == 1
    lease = host.lease(tenant)
    assert lease is not None
    assert set(requested) & lease.routes == set(requested[:21])
    assert host.put(net.with_subnet(0, host_routes=tuple(requested[:21]))).ok
    assert host.driver.problems() == ()
