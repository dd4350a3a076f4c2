"""The firewall of a highly available router, from a call of the API to packets."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import is_answered, is_reached, listening
from tests.system.l3.ha.ha_site import HaSite, ha_site

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
    pytest.mark.nightly,
]
PORT = 8080
FILTER = "router_firewall-FWD"


@pytest.fixture
def site() -> Iterator[HaSite]:
    sandbox.require()
    with ha_site() as made:
        yield made


@pytest.mark.spec("L3-81", "L3-43")
def test_a_firewall_filters_on_the_host_that_takes_over(site: HaSite) -> None:
    network, world = site.network, site.world
    active = site.await_active()
    standby, guest = site.other(active), site.guests[2].instance
    address = str(site.floating_ip.floating_ip_address)
    interfaces = network.ports(device_id=site.router.id, network_id=site.blue.network.id)
    web = network.create_firewall_rule(action="allow", protocol="tcp", destination_port=str(PORT))
    policy = network.create_firewall_policy(firewall_rules=[web.id])
    with listening(guest, PORT):
        assert is_answered(world, address, PORT, seconds=20)
        group = network.create_firewall_group(
            ports=[each.id for each in interfaces], ingress_firewall_policy_id=policy.id
        )
        for host in (active, standby):
            wait_until(lambda host=host: FILTER in site.in_router(host, "iptables-save"))
        wait_until(lambda: not is_reached(world, address))
        assert is_answered(world, address, PORT, seconds=20)
        with world.pinging(address) as pings:
            site.signal_keepalived(active, signal.SIGTERM)
            wait_until(lambda: site.active() is standby, site.roles)
            wait_until(lambda: is_answered(world, address, PORT))
            assert not pings.stop().received
        ping = network.create_firewall_rule(action="allow", protocol="icmp")
        network.insert_rule_into_policy(policy.id, firewall_rule_id=ping.id)
        wait_until(lambda: is_reached(world, address))
        network.update_firewall_rule(web, action="deny")
        wait_until(lambda: not is_answered(world, address, PORT))
        network.update_firewall_group(group, ports=[])
        wait_until(lambda: is_answered(world, address, PORT))
