"""Packets of distributed routers for instances that the firewall in the switch filters."""

from ipaddress import ip_interface, ip_network

import pytest

from netfw.drivers.firewall import FilteredPort
from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import PortKey
from netfw.model.values.address import Mac, link_local
from netfw.plan import Update
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.firewall.driver import OvsFirewallDriver
from tests.lab.backends.ovs.firewall.environment import (
    IN,
    OUT,
    everything,
    group,
    group_id,
)
from tests.lab.backends.ovs.switch.environment import mac, network_id, port_id
from tests.lab.backends.ovs.switch.routed_site import RoutedSite, address, subnet_addresses

VERSIONS = (4, 6)


def filtered(net: int, number: int) -> dict[PortKey, FilteredPort]:
    own = Mac(mac(number))
    addresses = [ip_interface(text).ip for text in subnet_addresses(net, number)]
    sources = (AllowedSource(own, ip_network(each)) for each in (*addresses, link_local(own)))
    value = FilteredPort(
        network=network_id(net),
        device=f"tap{number}",
        mac=own,
        groups=frozenset({group_id(1)}),
        sources=frozenset(sources),
    )
    return {PortKey(port_id(number)): value}


@pytest.fixture
def site(make_site, request) -> RoutedSite:
    """Place instance 10 on the first host; 20, which is filtered, and 11 on the second one."""
    site = make_site(request.param)
    for host, net, number in ((0, 1, 10), (1, 1, 11)):
        site.place(host, net, number)
    site.place(1, 2, 20, filtered=True)
    site.bring()
    return site


@pytest.fixture
def firewall(site):
    """Yield the firewall of the second host."""
    resources = LocalHostResources()
    options = {"ovsdb_connection": site.machines[1].ovs.remote, "ovsdb_timeout": 5.0}
    yield OvsFirewallDriver.from_conf(
        check_options("openflow", OvsFirewallDriver, options), resources
    )
    resources.close()


@pytest.mark.spec("L2-60")
@pytest.mark.parametrize("site", ["vxlan", "vlan"], indirect=True)
def test_routed_packets_pass_the_firewall_like_others(site, firewall):
    target, others = site.instance(20), [(10, site.instance(10)), (11, site.instance(11))]

    def allow(*rules) -> None:
        outcome = firewall.converge(Update(put={**filtered(2, 20), **group(1, *rules)}))
        assert outcome.ok, outcome

    allow(*everything(OUT))
    for number, _ in others:
        for version in VERSIONS:
            own = address(1, number, version)
            wait_until(lambda own=own: target.ping(own, count=1).received, "answers to the target")
    for _, other in others:
        for version in VERSIONS:
            assert not other.ping(address(2, 20, version), count=3, timeout=0.3).received
    allow(*everything(OUT, IN))
    for _, other in others:
        for version in VERSIONS:
            ping = address(2, 20, version)
            wait_until(lambda ping=ping, other=other: other.ping(ping, count=1).received, "a ping")
