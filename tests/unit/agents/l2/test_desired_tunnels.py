"""Tunnels and forwarding entries that the L2 agent wants, with and without population."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    Tunnel,
)  # fmt: skip
from netfw.model.binding import Binding
from netfw.model.port import AddressPair
from netfw.model.resource import ref
from netfw.model.segment import NetworkType
from tests.unit.agents.l2.environment import (  # fmt: skip
    AGENT_THERE,
    ELSEWHERE,
    FACTS,
    HERE,
    NET,
    SEGMENT,
    THERE,
    VXLAN,
    agent,
    learn,
    port,
    segment,
)
from tests.unit.agents.l2.switch_samples import PORT, desired, local, wiring

END = Endpoint(VXLAN, ip_address("192.0.2.2"))


@pytest.mark.parametrize(
    ("port", "hosts"),
    [
        (PORT, True),
        (evolve(PORT, port_security=True), False),
        (evolve(PORT, device_owner="network:router_interface"), False),
        (
            evolve(
                PORT,
                port_security=True,
                allowed_address_pairs=(AddressPair(prefix="10.9.0.0/24"),),
            ),
            False,
        ),
        (
            evolve(
                PORT,
                port_security=True,
                allowed_address_pairs=(AddressPair(prefix="10.9.0.0/24", mac="00:00:5e:00:01:07"),),
            ),
            True,
        ),
    ],
)
def test_what_is_for_an_unknown_mac_goes_where_one_may_be(port, hosts):
    assert desired(NET, SEGMENT, port).values[PortKey(PORT.id)].open is hosts


@pytest.mark.spec("L2-30", "L2-31")
def test_without_population_every_peer_is_meshed():
    own = agent(HERE, "192.0.2.1", number=81)
    geneve = agent(ELSEWHERE, "192.0.2.3", ("geneve",), number=82)
    v6 = agent("six", "2001:db8::1", number=83)
    made = desired(AGENT_THERE, own, geneve, v6, plugged=())
    assert made.values == {END: Tunnel(THERE, mesh=True)}


@pytest.mark.spec("L2-30")
def test_unknown_tunnel_type_does_not_hide_the_others():
    made = desired(agent(THERE, "192.0.2.2", ("stt", "vxlan", "")), plugged=())
    assert made.values == {END: Tunnel(THERE, mesh=True)}


@pytest.mark.spec("L2-30")
@pytest.mark.parametrize(
    ("own", "address"),
    [
        ("192.0.2.1", "0.0.0.0"),
        ("192.0.2.1", "127.0.0.1"),
        ("192.0.2.1", "224.0.0.1"),
        ("192.0.2.1", "255.255.255.255"),
        ("192.0.2.1", None),
        ("2001:db8::1", "::"),
        ("2001:db8::1", "::1"),
        ("2001:db8::1", "ff02::1"),
        ("2001:db8::1", "fe80::2%eth0"),
    ],
)
def test_no_tunnel_leads_to_what_is_not_the_address_of_one_host(own, address):
    facts = evolve(FACTS, endpoints=frozenset({Endpoint(VXLAN, ip_address(own))}))
    assert desired(agent(THERE, address), plugged=(), facts=facts).values == {}


@pytest.mark.spec("L2-30")
def test_an_endpoint_that_moved_to_another_host_or_address_is_followed():
    made = desired(AGENT_THERE, plugged=())
    learn(made, [agent(THERE, "192.0.2.9", revision=2)])
    assert made.values == {Endpoint(VXLAN, ip_address("192.0.2.9")): Tunnel(THERE, mesh=True)}
    learn(made, [agent(ELSEWHERE, "192.0.2.9", number=81, revision=3)])
    assert made.values == {Endpoint(VXLAN, ip_address("192.0.2.9")): Tunnel(ELSEWHERE, mesh=True)}
    learn(made, drop=[ref(AGENT_THERE), ref(agent(ELSEWHERE, "192.0.2.9", number=81))])
    assert made.values == {}


@pytest.mark.spec("L2-31")
def test_with_population_what_is_elsewhere_is_known_exactly():
    peer = port(2, NET, THERE)
    made = desired(NET, SEGMENT, PORT, peer, AGENT_THERE, population=True, arp_responder=True)
    assert made.values == {
        PortKey(PORT.id): wiring(PORT),
        NetworkKey(NET.id): local(NET, SEGMENT),
        END: Tunnel(THERE),
        FloodKey(NET.id, END): Flood(),
        ForwardingKey(NET.id, peer.mac): Forwarding(
            frozenset({END}), frozenset({ip_address("10.0.0.2")})
        ),
    }


@pytest.mark.spec("L2-31")
def test_without_a_port_here_nothing_is_known_of_a_network():
    assert desired(NET, SEGMENT, port(2, NET, THERE), AGENT_THERE, population=True, plugged=()
                   ).values == {}  # fmt: skip


def test_without_the_responder_addresses_are_not_answered_for():
    made = desired(NET, SEGMENT, PORT, port(2, NET, THERE), AGENT_THERE, population=True)
    assert made.values[ForwardingKey(NET.id, port(2, NET).mac)] == Forwarding(frozenset({END}))


@pytest.mark.spec("L2-31")
def test_a_tunnel_vanishes_with_the_last_port_that_needs_it():
    peer = port(2, NET, THERE)
    made = desired(NET, SEGMENT, PORT, peer, AGENT_THERE, population=True)
    learn(made, drop=[ref(peer)])
    assert made.values == desired(NET, SEGMENT, PORT).values


def test_a_peer_that_moves_host_keeps_its_key_and_changes_its_end():
    peer, mover = port(2, NET, THERE), agent(ELSEWHERE, "192.0.2.3", number=81)
    made = desired(NET, SEGMENT, PORT, peer, AGENT_THERE, mover, population=True)
    learn(made, [evolve(peer, binding=Binding(host=ELSEWHERE))])
    other = Endpoint(VXLAN, ip_address("192.0.2.3"))
    assert made.values.keys() == {
        PortKey(PORT.id), NetworkKey(NET.id), other, FloodKey(NET.id, other),
        ForwardingKey(NET.id, peer.mac),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "known"),
    [
        ("network:ha_router_replicated_interface", {FloodKey(NET.id, END), END}),
        ("network:router_interface_distributed", set()),
    ],
)
def test_interfaces_of_replicated_routers_are_not_forwarded_to(owner, known):
    peer = port(2, NET, THERE, device_owner=owner)
    made = desired(NET, SEGMENT, PORT, peer, AGENT_THERE, population=True)
    assert made.values.keys() - {PortKey(PORT.id), NetworkKey(NET.id)} == known


def test_a_vlan_network_needs_no_population():
    vlan = segment(NET, NetworkType.VLAN, 7, "physnet1")
    made = desired(NET, vlan, PORT, port(2, NET, THERE), AGENT_THERE, population=True)
    assert made.values.keys() == {PortKey(PORT.id), NetworkKey(NET.id)}


FABRIC = NetworkType("acme-fabric")


@pytest.mark.parametrize("physical", [None, "physnet1"])
def test_network_of_a_vendors_type_is_wired_where_the_switch_carries_it(physical):
    facts = evolve(FACTS, network_types=frozenset({FABRIC}))
    fabric = segment(NET, NetworkType("acme-fabric"), 7, physical)
    made = desired(NET, fabric, PORT, facts=facts)
    assert made.values == {NetworkKey(NET.id): local(NET, fabric), PortKey(PORT.id): wiring(PORT)}


def test_physical_network_of_a_vendors_type_must_be_mapped():
    facts = evolve(FACTS, network_types=frozenset({FABRIC}))
    made = desired(NET, segment(NET, FABRIC, 7, "spine"), PORT, facts=facts)
    assert made.decision(PORT.id).reason.endswith(
        "map its physical network spine in the options of the switch driver"
    )


def test_tunnels_of_a_vendors_type_lead_to_peers_that_have_it():
    # The type of the peer is parsed from its report: an equal, but different object.
    own = Endpoint(FABRIC, ip_address("192.0.2.1"))
    facts = evolve(FACTS, endpoints=frozenset({own}))
    peer = agent(THERE, "192.0.2.2", ("acme-fabric",))
    fabric = segment(NET, NetworkType("acme-fabric"), 7)
    there = port(2, NET, host=THERE)
    made = desired(NET, fabric, PORT, there, peer, facts=facts, population=True)
    far = Endpoint(NetworkType("acme-fabric"), ip_address("192.0.2.2"))
    assert made.values[far] == Tunnel(THERE)
    assert FloodKey(NET.id, far) in made.values
