"""A distributed router, from a call of the API to packets on three hosts."""

from __future__ import annotations

import pytest

from netfw.testing.lab.wait import wait_until
from tests.system.file_hosts import start_all
from tests.system.l3.distributed.site import DistributedSite
from tests.system.l3.environment import fetch, is_reached, stays_reached
from tests.system.l3.routed_networks import WORLD4
from tests.system.pings import pinging_all

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("L3-61", "L3-62", "L2-60")
def test_traffic_between_hosts_and_floating_ips_need_no_central_host(site: DistributedSite) -> None:
    flows = {**site.east_west(), **site.by_floating_ip()}
    with pinging_all(flows) as pings, site.cloud.cut(site.central):
        for instance, address in flows.values():
            assert stays_reached(instance, address)
        assert not pings.lost(), pings.report()
    site.await_reached(site.north_south())


@pytest.mark.spec("L3-62", "L3-63", "API-19")
def test_each_part_is_where_it_belongs(site: DistributedSite) -> None:
    router, outside = f"qrouter-{site.router.id}", f"fip-{site.outside.network.id}"
    central = f"snat-{site.router.id}"
    assert site.first.router_namespaces() == {router}
    assert site.second.router_namespaces() == {router, outside}
    assert site.central.router_namespaces() == {router, central}


@pytest.mark.spec("L3-61", "MD-03")
def test_metadata_is_answered_on_the_host_of_the_instance(site: DistributedSite) -> None:
    with site.cloud.cut(site.central):
        wait_until(lambda: fetch(site.blue1.instance))
        wait_until(lambda: fetch(site.green2.instance))


@pytest.mark.spec("L2-60")
def test_a_gateway_is_never_seen_on_the_wire(site: DistributedSite) -> None:
    own, gateways = site.routing_mac(site.first), site.interface_macs()
    with site.wire(site.first) as capture:
        for instance, address in site.east_west().values():
            instance.namespaces.ip("neigh flush all")
            assert stays_reached(instance, address)
        sources = {frame.source for frame in capture.received()}
    assert own in sources
    assert not gateways & sources


@pytest.mark.spec("L3-64")
def test_instances_keep_the_gateway_as_their_neighbour(site: DistributedSite) -> None:
    macs = site.interface_macs()
    for guest, segment in ((site.blue1, site.blue), (site.green2, site.green)):
        for subnet in (segment.v4, segment.v6):
            assert stays_reached(guest.instance, subnet.gateway_ip)
            shown = guest.instance.run(["ip", "neigh", "show", str(subnet.gateway_ip)])
            assert any(mac in shown for mac in macs), shown


@pytest.mark.spec("L3-61", "L3-62")
def test_agents_that_are_killed_cost_no_packet(site: DistributedSite) -> None:
    agents = [agent for host in site.hosts for agent in (host.agent, host.l3)]
    with pinging_all({**site.east_west(), **site.north_south()}) as pings:
        for agent in agents:
            agent.kill()
        start_all(*agents)
        assert not pings.lost(), pings.report()


@pytest.mark.spec("L3-62", "L3-69", "API-19")
def test_a_floating_ip_moves_with_its_port(site: DistributedSite) -> None:
    outside, address = f"fip-{site.outside.network.id}", str(site.floating_ip.floating_ip_address)
    site.network.update_ip(site.floating_ip, port_id=site.blue1.port.id)
    wait_until(lambda: outside in site.first.router_namespaces())
    wait_until(lambda: is_reached(site.world, address))
    wait_until(lambda: outside not in site.second.router_namespaces())
    site.network.update_ip(site.floating_ip, port_id=site.green2.port.id)
    wait_until(lambda: outside in site.second.router_namespaces())
    wait_until(lambda: outside not in site.first.router_namespaces())
    site.await_reached(site.by_floating_ip())
    owner = "network:floatingip_agent_gateway"
    wait_until(lambda: len(list(site.network.ports(device_owner=owner))) == 1)


@pytest.mark.spec("L3-61", "L3-66", "RPC-08")
def test_a_router_comes_and_goes_with_the_instances_of_a_host(site: DistributedSite) -> None:
    extra = site.segment("extra", 3)
    router = site.network.create_router(name="brief", is_distributed=True)
    site.connect(router, extra)
    name = f"qrouter-{router.id}"
    guest = site.guest("extra1", extra, site.first)
    wait_until(lambda: is_reached(guest.instance, extra.v4.gateway_ip))
    assert name in site.first.router_namespaces()
    assert name not in site.second.router_namespaces()
    site.network.delete_port(guest.port.id)
    site.first.unplug_port(guest.port)
    wait_until(lambda: name not in site.first.router_namespaces())
    site.disconnect(router, extra)
    site.network.delete_router(router)
    site.network.delete_network(extra.network.id)


@pytest.mark.spec("L3-63")
def test_an_instance_without_a_floating_ip_leaves_by_the_central_part(
    site: DistributedSite,
) -> None:
    with site.cloud.cut(site.central):
        assert not is_reached(site.blue1.instance, WORLD4)
    wait_until(lambda: is_reached(site.blue1.instance, WORLD4))
