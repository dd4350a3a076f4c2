"""What the L2 agent wants for distributed routers: networks, interfaces, host MACs and floods."""

from ipaddress import ip_address, ip_interface

import pytest
from attrs import evolve

from netfw.agents.l2.distributed_routers import DistributedRouters
from netfw.drivers.values.keys import HostKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    FloodKey,
    ForwardingKey,
    HostMac,
    RouterInterface,
    Tunnel,
)
from netfw.model.binding import Binding
from netfw.model.port import FixedIp
from netfw.model.resource import ref
from netfw.model.values.address import Mac
from tests.unit.agents.l2.environment import (
    ELSEWHERE,
    HERE,
    NET,
    OTHER,
    OTHER_SEGMENT,
    SEGMENT,
    THERE,
    VXLAN,
    agent,
    learn,
    network,
    port,
    segment,
    subnet,
)
from tests.unit.agents.l2.switch_samples import DEVICE, PORT, desired

A, B = subnet(NET, 70, "10.0.0.0/24"), subnet(OTHER, 71, "10.1.0.0/24")
B6 = subnet(OTHER, 72, "2001:db8::/64")
THIRD = network(3)
C = subnet(THIRD, 73, "10.2.0.0/24")
OWN = Mac("fa:16:3f:00:00:01")
AGENT_THERE = agent(THERE, "192.0.2.2", routing_mac="fa:16:3f:00:00:02")
AT_THERE = Endpoint(VXLAN, ip_address("192.0.2.2"))
CLOUD = NET, SEGMENT, OTHER, OTHER_SEGMENT, A, B, AGENT_THERE
ON = {"distributed": True, "population": True, "forwarding": True}


def interface(number, of, *fixed, router="r"):
    """Return the interface of a distributed router."""
    return port(
        number,
        of,
        "",
        device_owner="network:router_interface_distributed",
        device_id=router,
        fixed_ips=[FixedIp(subnet_id=subnet.id, address=address) for subnet, address in fixed],
    )


ON_A, ON_B = interface(11, NET, (A, "10.0.0.254")), interface(12, OTHER, (B, "10.1.0.254"))
ROUTER = ON_A, ON_B


def routing(*resources, mac=OWN, plugged=(PORT,), **options):
    made = desired(*CLOUD, *resources, plugged=plugged, **{**ON, **options})
    if mac is not None:
        made.set_host_mac(mac)
    return made


def keys(made, kind):
    return {key for key in made.values if isinstance(key, kind)}


@pytest.mark.spec("L2-60", "RPC-08")
def test_a_host_has_all_networks_of_the_routers_of_its_ports():
    made = routing(PORT, *ROUTER)
    networks = {key: made.values[key].router_interfaces for key in keys(made, NetworkKey)}
    assert networks == {
        NetworkKey(NET.id): {
            RouterInterface(ON_A.id, ON_A.mac, frozenset({ip_interface("10.0.0.254/24")}))
        },
        NetworkKey(OTHER.id): {
            RouterInterface(ON_B.id, ON_B.mac, frozenset({ip_interface("10.1.0.254/24")}))
        },
    }


@pytest.mark.spec("L2-60")
def test_an_interface_has_the_prefix_length_of_each_of_its_subnets():
    both = interface(12, OTHER, (B, "10.1.0.254"), (B6, "2001:db8::1"))
    made = routing(PORT, ON_A, both)

    def addresses():
        (found,) = made.values[NetworkKey(OTHER.id)].router_interfaces
        return found.addresses

    assert addresses() == {ip_interface("10.1.0.254/24")}  # the other subnet is not known yet
    learn(made, [B6])
    assert addresses() == {ip_interface("10.1.0.254/24"), ip_interface("2001:db8::1/64")}
    learn(made, drop=[ref(B), ref(B6)])
    assert made.values[NetworkKey(OTHER.id)].router_interfaces == frozenset()


@pytest.mark.spec("RPC-08")
@pytest.mark.parametrize(
    ("resident", "is_here"),
    [
        (evolve(PORT, binding=Binding(host=THERE)), False),
        (evolve(PORT, binding=Binding(host=THERE, prepared_hosts={HERE})), True),
        (evolve(PORT, device_owner="network:dhcp"), True),
        (evolve(PORT, device_owner="network:router_centralized_snat"), False),
        (evolve(PORT, device_owner="network:floatingip_agent_gateway"), False),
        (evolve(PORT, fixed_ips=(FixedIp(subnet_id=C.id, address="10.2.0.1"),)), False),
        (evolve(PORT, fixed_ips=()), False),
    ],
)
def test_which_ports_bring_a_router_to_their_host(resident, is_here):
    made = routing(resident, *ROUTER, plugged=())
    assert (NetworkKey(OTHER.id) in made.values) is is_here


@pytest.mark.spec("RPC-08")
def test_a_router_comes_with_the_first_port_and_goes_with_the_last():
    first, second = port(1, NET), port(2, NET)
    made = routing(*ROUTER, plugged=())
    assert NetworkKey(OTHER.id) not in made.values
    learn(made, [first, second])
    assert NetworkKey(OTHER.id) in made.values
    learn(made, drop=[ref(first)])
    assert NetworkKey(OTHER.id) in made.values
    learn(made, drop=[ref(second)])
    assert NetworkKey(OTHER.id) not in made.values


@pytest.mark.spec("L2-60")
def test_gateways_of_all_routers_on_a_network_are_known_on_it():
    # A port without port security could use the MAC address of any of them.
    another = interface(13, NET, (A, "10.0.0.253"), router="another")
    beyond = interface(14, THIRD, (C, "10.2.0.254"), router="another")
    made = routing(PORT, *ROUTER, another, THIRD, segment(THIRD), C)
    assert len(made.values[NetworkKey(NET.id)].router_interfaces) == 2
    assert NetworkKey(THIRD.id) not in made.values
    learn(made, [beyond])  # the other router is here, too
    assert NetworkKey(THIRD.id) in made.values


@pytest.mark.parametrize(
    "change",
    [evolve(OTHER, admin_up=False), segment(OTHER, VXLAN.VLAN, 7, "physnet2")],
    ids=["network down", "out of reach"],
)
def test_a_network_that_the_host_cannot_have_is_left_out(change):
    made = routing(PORT, *ROUTER)
    learn(made, [change])
    assert keys(made, NetworkKey) == {NetworkKey(NET.id)}


@pytest.mark.spec("L2-60")
def test_a_plugged_interface_is_live_though_it_is_bound_to_no_host():
    made = routing(PORT, *ROUTER, plugged=(PORT, ON_A))
    assert made.values[PortKey(ON_A.id)].admission is Admission.LIVE
    assert not made.values[PortKey(ON_A.id)].shared_mac
    assert not made.unbound
    assert PortKey(ON_B.id) not in made.values
    made.plug(ON_B.id, DEVICE)
    assert made.values[PortKey(ON_B.id)].admission is Admission.LIVE
    learn(made, drop=[ref(ON_B)])
    assert made.unbound == {ON_B.id}


@pytest.mark.spec("L2-60")
def test_nothing_is_routed_before_the_host_has_its_mac():
    # The MAC address of the gateway would be seen on the wire.
    made = routing(PORT, *ROUTER, port(2, OTHER, THERE), mac=None, plugged=(PORT, ON_A))
    assert made.host_mac is None
    assert made.values[PortKey(ON_A.id)].admission is Admission.DEAD
    assert "no MAC address for distributed routing" in made.decision(ON_A.id).reason
    assert not made.unbound
    assert keys(made, NetworkKey) == {NetworkKey(NET.id)}
    assert not made.values[NetworkKey(NET.id)].router_interfaces
    assert not keys(made, FloodKey)
    made.take_changed()
    made.set_host_mac(OWN)
    assert made.take_changed() == {
        HostKey(HERE), HostKey(THERE), PortKey(ON_A.id), NetworkKey(NET.id), NetworkKey(OTHER.id),
        AT_THERE, FloodKey(NET.id, AT_THERE), FloodKey(OTHER.id, AT_THERE),
        ForwardingKey(OTHER.id, port(2, OTHER).mac),
    }  # fmt: skip
    assert made.values == routing(
        PORT, *ROUTER, port(2, OTHER, THERE), plugged=(PORT, ON_A)
    ).values  # fmt: skip


@pytest.mark.spec("L2-60")
def test_a_restarted_agent_uses_the_mac_that_it_reported_before():
    own = agent(HERE, "192.0.2.1", number=81, routing_mac=str(OWN))
    made = routing(PORT, *ROUTER, own, mac=None)
    assert made.host_mac == OWN
    assert made.values[HostKey(HERE)] == HostMac(OWN, own=True)
    assert NetworkKey(OTHER.id) in made.values
    before = dict(made.values)
    made.take_changed()
    made.set_host_mac(OWN)
    assert made.values == before
    assert not made.take_changed()
    made.set_host_mac("fa:16:3f:00:00:09")  # what the source says counts
    assert made.take_changed() == {HostKey(HERE)}


@pytest.mark.spec("L2-60", "RPC-08")
def test_host_macs_have_the_endpoints_of_tunnels():
    vlan_only = agent(ELSEWHERE, None, (), number=81, routing_mac="fa:16:3f:00:00:03")
    silent = agent("old", "192.0.2.9", number=82)
    there = port(2, OTHER, THERE)
    made = routing(PORT, vlan_only, silent)
    assert {key: made.values[key] for key in keys(made, HostKey)} == {
        HostKey(HERE): HostMac(OWN, own=True),
        HostKey(THERE): HostMac("fa:16:3f:00:00:02"),
        HostKey(ELSEWHERE): HostMac("fa:16:3f:00:00:03"),
    }
    learn(made, [*ROUTER, there])
    with_tunnel = HostMac("fa:16:3f:00:00:02", endpoints=frozenset({AT_THERE}))
    assert made.values[HostKey(THERE)] == with_tunnel
    learn(made, drop=[ref(there)])
    assert made.values[HostKey(THERE)] == HostMac("fa:16:3f:00:00:02")
    learn(made, drop=[ref(AGENT_THERE)])
    assert HostKey(THERE) not in made.values


def test_hosts_without_population_have_endpoints_too():
    made = routing(population=False, plugged=())
    assert made.values[AT_THERE] == Tunnel(THERE, mesh=True)
    assert made.values[HostKey(THERE)].endpoints == {AT_THERE}


@pytest.mark.spec("L2-60")
def test_networks_that_a_router_joins_flood_to_the_hosts_of_all_of_them():
    # An announcement on one network reaches the interfaces on hosts of the others.
    there = port(2, OTHER, THERE)
    made = routing(PORT, *ROUTER, there)
    floods = {FloodKey(NET.id, AT_THERE), FloodKey(OTHER.id, AT_THERE)}
    assert keys(made, FloodKey) == floods
    assert keys(made, ForwardingKey) == {ForwardingKey(OTHER.id, there.mac)}
    learn(made, drop=[ref(ON_B)])  # the router joins them no longer
    assert not keys(made, FloodKey)
    learn(made, [ON_B])
    assert keys(made, FloodKey) == floods
    learn(made, drop=[ref(there)])
    assert not keys(made, FloodKey)


@pytest.mark.spec("L2-60")
def test_a_port_costs_its_own_keys_while_the_routers_stay():
    made = routing(PORT, *ROUTER, port(2, OTHER, THERE))
    made.take_changed()
    learn(made, [port(3, NET), port(4, NET, THERE), port(5, OTHER, THERE)])
    assert made.take_changed() == {
        ForwardingKey(NET.id, port(4, NET).mac), ForwardingKey(OTHER.id, port(5, OTHER).mac)
    }  # fmt: skip


def test_only_what_concerns_routers_is_looked_at_again():
    routers = DistributedRouters(HERE)
    routers.update(ON_A.id, ON_A)
    routers.update(ON_B.id, ON_B)
    assert routers.update(PORT.id, PORT) == {NET.id, OTHER.id}
    assert routers.update(port(2, NET).id, port(2, NET)) == frozenset()
    assert routers.update(PORT.id, evolve(PORT, name="renamed")) == frozenset()
    assert routers.update(PORT.id, None) == frozenset()
    assert routers.update(ON_A.id, evolve(ON_A, mac="fa:16:3e:00:00:77")) == {NET.id}
    assert routers.update(ON_A.id, evolve(ON_A, device_id="s")) == {NET.id, OTHER.id}


@pytest.mark.spec("L2-60")
def test_a_host_that_does_not_route_has_no_part_of_it():
    made = routing(
        PORT, *ROUTER, port(2, OTHER, THERE), mac=None, distributed=False, plugged=(PORT, ON_A)
    )
    assert made.values.keys() == {PortKey(PORT.id), PortKey(ON_A.id), NetworkKey(NET.id)}
    assert not made.values[NetworkKey(NET.id)].router_interfaces
    assert made.values[PortKey(ON_A.id)].admission is Admission.DEAD
    decision = made.decision(ON_A.id)
    assert decision.is_error
    assert "set enable_distributed_routing = true" in decision.reason
