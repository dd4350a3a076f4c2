"""Addresses, external networks and modes of hosts around a distributed router.

The external network is flat, and the networks of the router are VXLANs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from ipaddress import ip_address

import pytest

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.dhcp_client import Udhcpc, solicit
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.tcp_stream import Streams, connected, passes
from netfw.testing.lab.wait import wait_until
from tests.system.captures import listening as hearing
from tests.system.l3.distributed.extras import difference, spare_router, traces
from tests.system.l3.distributed.site import DistributedSite
from tests.system.l3.environment import is_answered, is_reached, listening, running, stays_reached
from tests.system.l3.routed_networks import WORLD4, WORLD6, Guest, Segment

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.parametrize("site", ["vxlan-flat"], indirect=True),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
AGENT_GATEWAY = "network:floatingip_agent_gateway"
FORWARDED, SERVED = 8080, 80


def outside_name(segment: Segment) -> str:
    return f"fip-{segment.network.id}"


def neighbour(instance: Instance, address: str) -> str:
    """Return the MAC address that an instance has for a neighbour; empty: none."""
    entries = json.loads(instance.run(["ip", "-j", "neigh", "show", address]) or "[]")
    return "".join(str(each.get("lladdr", "")) for each in entries)


@contextmanager
def agent_mode(host: ServedHost, mode: str) -> Iterator[None]:
    """Run the L3 agent of a host in another mode."""
    options = host.l3.options["agent"]
    usual = options["agent_mode"]
    for each in (mode, usual):
        options["agent_mode"] = each
        host.l3.stop()
        host.l3.start()
        if each == mode:
            yield


@pytest.mark.spec("L3-63", "L3-26")
def test_ipv6_passes_by_the_central_part(site: DistributedSite) -> None:
    flows = {
        f"{direction} {guest.port.name}": flow
        for guest in (site.blue1, site.green2)  # the second one has a floating IP
        for direction, flow in (
            ("out", (guest.instance, WORLD6)), ("in", (site.world, guest.address(6))),
        )
    }  # fmt: skip
    site.await_reached(flows)
    with site.cloud.cut(site.central):
        for name, (instance, address) in flows.items():
            assert not is_reached(instance, address), name
    site.await_reached(flows)


@pytest.mark.spec("L3-61", "L3-26", "L2-60")
def test_router_advertisements_come_from_the_own_host_alone(site: DistributedSite) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(site.wire(host)) for host in site.hosts]
        for guest in (site.blue1, site.blue2):
            found = solicit(guest.instance)
            assert found is not None
            assert found.lifetime
        sent = [frame for wire in wires for frame in wire.received()]
    assert sent  # the solicitations, at least
    assert not [frame for frame in sent if frame.is_router_advertisement]


@pytest.mark.spec("L3-62", "L3-61")
def test_floating_ips_reach_each_other(site: DistributedSite) -> None:
    with spare_router(site, 0x20, site.first) as spare:
        guests = {"same host": site.green1, "other router": spare.guest, "sender": site.blue1}
        made = {name: site.make_floating_ip(guest) for name, guest in guests.items()}
        addresses = {name: each.floating_ip_address for name, each in made.items()}
        addresses["other host"] = site.floating_ip.floating_ip_address
        flows = {
            f"{name} of {guest.port.name}": (guest.instance, str(address))
            for name, address in addresses.items()
            for guest in (site.blue1, site.blue2, site.green2)  # the second one has none
        }
        site.await_reached(flows)
        for name in ("same host", "sender"):
            site.network.delete_ip(made[name])
    wait_until(lambda: outside_name(site.outside) not in site.first.router_namespaces())


@pytest.mark.spec("L3-62", "L3-69")
def test_a_host_has_floating_ips_of_two_external_networks(site: DistributedSite) -> None:
    outside = site.second_outside()
    with spare_router(site, 0x21, site.second, outside) as spare:
        floating_ip = site.make_floating_ip(spare.guest, outside)
        names = {outside_name(outside), outside_name(site.outside)}
        assert names <= site.second.router_namespaces()
        machine = site.guest("beyond", outside, site.first)
        flows = {
            "in": (machine.instance, str(floating_ip.floating_ip_address)),
            "out": (spare.guest.instance, machine.address(4)),
            **site.by_floating_ip(),
        }
        site.await_reached(flows)
        with site.cloud.cut(site.central):
            for instance, address in flows.values():
                assert stays_reached(instance, address)
        site.network.delete_port(machine.port.id)
        site.first.unplug_port(machine.port)
    wait_until(lambda: outside_name(outside) not in site.second.router_namespaces())
    site.await_reached(site.by_floating_ip())
    wait_until(lambda: not list(site.network.ports(network_id=outside.network.id)))
    site.network.delete_network(outside.network.id)


@pytest.mark.spec("L3-60", "L3-62", "API-19")
def test_a_floating_ip_follows_the_mode_of_its_host(site: DistributedSite) -> None:
    address = str(site.floating_ip.floating_ip_address)
    with connected(site.world, site.green2.instance, address, SERVED) as ends:
        _check_modes(site, address, ends)
        assert passes(*ends)
        assert passes(*reversed(ends))


def _check_modes(site: DistributedSite, address: str, ends: Streams) -> None:
    """Check where a floating IP is; its connections move with it, since their addresses stay."""
    with agent_mode(site.second, "dvr_no_external"):
        wait_until(lambda: outside_name(site.outside) not in site.second.router_namespaces())
        site.await_reached({**site.by_floating_ip(), **site.east_west()})
        with site.cloud.cut(site.central):
            assert not is_reached(site.world, address)
        site.await_reached(site.by_floating_ip())
        at_central_part = neighbour(site.world, address)
        assert at_central_part
        assert passes(*reversed(ends))
        assert passes(*ends)
    wait_until(lambda: neighbour(site.world, address) != at_central_part)  # it was announced
    (gateway,) = site.network.ports(device_owner=AGENT_GATEWAY)
    assert neighbour(site.world, address) == gateway.mac_address
    site.await_reached(site.by_floating_ip())


@pytest.mark.spec("L3-62", "L3-63")
def test_connections_end_when_a_floating_ip_changes_their_address(site: DistributedSite) -> None:
    # The instance sends by another address, which its peer refuses with a reset.
    instance = site.blue1.instance
    with connected(instance, site.world, WORLD4, SERVED) as ends:
        floating_ip = site.make_floating_ip(site.blue1)
        address = str(floating_ip.floating_ip_address)
        wait_until(lambda: is_reached(site.world, address))
        assert not passes(*ends)
    with (
        connected(instance, site.world, WORLD4, SERVED) as out,
        connected(site.world, instance, address, SERVED) as into,
    ):
        site.network.delete_ip(floating_ip)
        wait_until(lambda: outside_name(site.outside) not in site.first.router_namespaces())
        wait_until(lambda: is_reached(instance, WORLD4))
        assert not passes(*out)
        assert not passes(*reversed(into))


@pytest.mark.spec("L3-63", "L3-30")
def test_ports_are_forwarded_at_the_central_part(site: DistributedSite) -> None:
    guest = site.blue2
    floating_ip = site.network.create_ip(floating_network_id=site.outside.network.id)
    made = site.network.create_floating_ip_port_forwarding(
        floating_ip, internal_port_id=guest.port.id, internal_ip_address=guest.address(4),
        protocol="tcp", external_port=FORWARDED, internal_port=SERVED,
    )  # fmt: skip
    address = str(floating_ip.floating_ip_address)
    with listening(guest.instance, SERVED):
        wait_until(lambda: is_answered(site.world, address, FORWARDED))
        with site.cloud.cut(site.central):
            assert not is_answered(site.world, address, FORWARDED)
        wait_until(lambda: is_answered(site.world, address, FORWARDED))
    site.network.delete_floating_ip_port_forwarding(floating_ip, made.id)
    site.network.delete_ip(floating_ip)


@pytest.mark.spec("L3-61", "DH-01")
def test_instances_of_each_host_get_their_lease(site: DistributedSite) -> None:
    with running(*(host.dhcp for host in (site.first, site.second))):
        for guest, segment in ((site.blue1, site.blue), (site.green2, site.green)):
            with closing(Udhcpc(guest.instance)) as client:
                lease = client.lease()
            assert lease is not None
            assert str(lease.address.ip) == guest.address(4)
            guest.instance.configure([lease.address], [segment.v4.gateway_ip])
        site.await_reached(site.east_west())


@pytest.mark.spec("L3-61", "API-19")
def test_a_router_is_converted_while_it_is_down(site: DistributedSite) -> None:
    with spare_router(site, 0x22, site.first) as spare:
        floating_ip = site.make_floating_ip(spare.guest)
        name, central = f"qrouter-{spare.router.id}", f"snat-{spare.router.id}"
        flows = {
            "gateway": (spare.guest.instance, str(spare.segment.v4.gateway_ip)),
            "floating IP in": (site.world, str(floating_ip.floating_ip_address)),
            "out": (spare.guest.instance, WORLD4),
        }
        site.await_reached(flows)
        for distributed in (False, True):
            site.network.update_router(spare.router, is_admin_state_up=False)
            site.network.update_router(spare.router, is_distributed=distributed)
            site.network.update_router(spare.router, is_admin_state_up=True)
            wait_until(lambda d=distributed: (name in site.first.router_namespaces()) is d)
            wait_until(lambda d=distributed: (central in site.central.router_namespaces()) is d)
            site.await_reached(flows)
            wait_until(lambda: site.network.get_router(spare.router.id).status == "ACTIVE")
            wait_until(lambda: site.network.get_ip(floating_ip.id).status == "ACTIVE")


@pytest.mark.spec("L2-60", "L3-60")
def test_a_host_without_distributed_routing_reaches_its_networks(site: DistributedSite) -> None:
    """Check machines of one network; the site is whole again when the host takes part.

    The parts of routers leave before distributed routing, and return after it.
    """
    second = site.second
    flows = {
        f"{one.port.name} to {two.port.name} IPv{version}": (one.instance, two.address(version))
        for one, two in ((site.blue1, site.blue2), (site.green2, site.green1))
        for version in (4, 6)
    }
    for takes_part in (False, True):
        second.agent.options["agent"]["enable_distributed_routing"] = takes_part
        second.l3.options["agent"]["agent_mode"] = "dvr" if takes_part else "legacy"
        for agent in (second.agent, second.l3) if takes_part else (second.l3, second.agent):
            agent.stop()
            agent.start()
        for one, _ in flows.values():
            one.namespaces.ip("neigh flush all")
        site.await_reached(flows)
    site.await_reached({**site.east_west(), **site.north_south()})


@pytest.mark.spec("L3-66", "L3-69", "RPC-08")
def test_the_last_instance_leaves_nothing_behind(site: DistributedSite) -> None:
    before = {host.host.name: traces(site, host) for host in site.hosts}
    gateways = {port.id for port in site.network.ports(device_owner=AGENT_GATEWAY)}
    with spare_router(site, 0x23, site.first) as spare:
        floating_ip = site.make_floating_ip(spare.guest)
        address = str(floating_ip.floating_ip_address)
        wait_until(lambda: is_reached(site.world, address))
        assert outside_name(site.outside) in site.first.router_namespaces()
    for host in site.hosts:
        was = before[host.host.name]
        wait_until(
            lambda h=host, w=was: not difference(w, traces(site, h)),
            lambda h=host, w=was: difference(w, traces(site, h)),
        )
    found = {port.id for port in site.network.ports(device_owner=AGENT_GATEWAY)}
    assert found == gateways
    site.await_reached({**site.east_west(), **site.north_south()})


def _sender_macs(
    site: DistributedSite, sender: Guest, receiver: Guest, addresses: dict[int, str]
) -> set[str]:
    """Return the MAC addresses that packets of *sender* have at the addresses of *receiver*."""
    macs: set[str] = set()
    with hearing(receiver.instance) as (capture,):
        for version, address in addresses.items():
            site.await_reached({"both": (sender.instance, address)})
            source = ip_address(sender.address(version)).packed
            frames = [each for each in capture.received() if source in each.content[14:38]]
            found = {each.source for each in frames if not each.is_question}
            assert found
            macs |= found
    return macs


@pytest.mark.spec("L2-60", "L3-61", "L3-64")
def test_an_instance_behind_two_routers_sees_the_gateway_of_each(site: DistributedSite) -> None:
    # It has addresses of both on one network, and machines behind each are on another host.
    blue = site.blue.network
    beside = Segment(
        network=blue,
        v4=site.network.create_subnet(network_id=blue.id, cidr="10.0.64.0/24", ip_version=4),
        v6=site.network.create_subnet(network_id=blue.id, cidr="fd00:64::/64", ip_version=6),
    )
    far = site.segment("far", 0x24)
    router = site.network.create_router(name="beside", is_distributed=True)
    for segment in (beside, far):
        site.connect(router, segment)
    subnets = [each for one in (site.blue, beside) for each in (one.v4, one.v6)]
    both = site.guest(
        "both", site.blue, site.first, fixed_ips=[{"subnet_id": each.id} for each in subnets]
    )
    addresses = {each["subnet_id"]: str(each["ip_address"]) for each in both.port.fixed_ips}
    for own, remote in ((beside.v4, far.v4), (beside.v6, far.v6)):
        prefix = str(own.cidr).partition("/")[2]
        both.instance.namespaces.ip(
            f"address replace {addresses[own.id]}/{prefix} dev eth0 nodad",
            f"route add {remote.cidr} via {own.gateway_ip}",
        )
    machine = site.guest("far", far, site.second)
    cases = [(site.router, site.green2, site.blue), (router, machine, beside)]
    for through, sender, segment in cases:
        used = {4: addresses[segment.v4.id], 6: addresses[segment.v6.id]}
        assert _sender_macs(site, sender, both, used) <= site.interface_macs(through)
    for guest, host in ((both, site.first), (machine, site.second)):
        site.network.delete_port(guest.port.id)
        host.unplug_port(guest.port)
    for segment in (beside, far):
        site.disconnect(router, segment)
    site.network.delete_router(router)
    site.network.delete_network(far.network.id)
    for each in (beside.v4, beside.v6):
        site.network.delete_subnet(each.id)


@pytest.mark.spec("L3-61", "L3-63")
def test_an_instance_is_the_next_hop_of_a_route(site: DistributedSite) -> None:
    # Local parts have the route, too: nothing passes by the central host.
    hop = site.blue2
    beyond = {4: "192.0.2.1", 6: "2001:db8:b::1"}
    for address in beyond.values():
        hop.instance.namespaces.ip(f"address add {address} dev lo")
    flows = {
        f"{guest.port.name} IPv{version}": (guest.instance, address)
        for guest in (site.green1, site.green2, site.blue1)
        for version, address in beyond.items()
    }
    routes = [
        {"destination": f"{address}/{32 if version == 4 else 128}", "nexthop": hop.address(version)}
        for version, address in beyond.items()
    ]
    site.network.update_router(site.router, routes=routes)
    site.await_reached(flows)
    with site.cloud.cut(site.central):
        for name, (instance, address) in flows.items():
            assert stays_reached(instance, address), name
    site.network.update_router(site.router, routes=[])
    for instance, address in flows.values():
        wait_until(lambda i=instance, a=address: not is_reached(i, a))
    for address in beyond.values():
        hop.instance.namespaces.ip(f"address del {address} dev lo")
