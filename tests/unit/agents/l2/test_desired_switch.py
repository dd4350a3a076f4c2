"""What the switch should hold, by value."""

from ipaddress import ip_address, ip_network

import pytest
from attrs import evolve

from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    SwitchDevice,
)  # fmt: skip
from netfw.model.binding import Binding
from netfw.model.port import AddressPair
from netfw.model.qos import QosPolicy
from netfw.model.resource import ref
from netfw.model.segment import NetworkType
from netfw.model.values.address import link_local
from netfw.model.values.ids import QosPolicyId
from tests.unit.agents.l2.environment import (  # fmt: skip
    FACTS,
    HERE,
    NET,
    OTHER,
    OTHER_SEGMENT,
    SEGMENT,
    THERE,
    learn,
    network,
    port,
    segment,
)
from tests.unit.agents.l2.switch_samples import DEVICE, PORT, desired, local, wiring


def test_a_plugged_port_is_wired_and_brings_its_network():
    assert desired(NET, SEGMENT, PORT).values == {
        PortKey(PORT.id): wiring(PORT),
        NetworkKey(NET.id): local(NET, SEGMENT),
    }


def test_the_order_of_arrival_does_not_matter():
    late = DesiredSwitch(L2HostContext(host=HERE, facts=FACTS), L2ResourceIndex(HERE))
    late.plug(PORT.id, DEVICE)
    for resource in (PORT, SEGMENT, NET):
        learn(late, [resource])
    assert late.values == desired(NET, SEGMENT, PORT).values


@pytest.mark.spec("L2-15")
def test_the_last_port_of_a_network_takes_the_network_with_it():
    second = port(2, NET)
    both = desired(NET, SEGMENT, PORT, second, plugged=(PORT, second))
    both.plug(PORT.id, None)
    assert NetworkKey(NET.id) in both.values
    both.plug(second.id, None)
    assert both.values == {}


def test_what_is_not_plugged_is_not_wired():
    assert desired(NET, SEGMENT, PORT, plugged=()).values == {}


@pytest.mark.spec("L2-12")
def test_device_unknown_to_the_source_is_not_wired():
    assert desired(NET, SEGMENT).values == {}


@pytest.mark.spec("L2-12")
def test_port_bound_to_another_host_is_not_wired():
    elsewhere = port(1, NET, THERE)
    assert desired(NET, SEGMENT, elsewhere).values == {}


@pytest.mark.spec("L2-19")
def test_a_port_that_migrates_away_is_unwired_and_one_that_comes_is_wired():
    moving = desired(NET, SEGMENT, PORT)
    learn(moving, [evolve(PORT, binding=Binding(host=THERE))])
    assert moving.values == {}
    learn(moving, [PORT])
    assert moving.values == desired(NET, SEGMENT, PORT).values


@pytest.mark.spec("L2-12")
@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ((NET, evolve(PORT, admin_up=False)), "it is administratively down"),
        ((evolve(NET, admin_up=False), PORT), "its network is administratively down"),
        ((PORT,), f"its network {NET.id} is not known"),
        (
            (NET, evolve(PORT, binding=Binding(host=HERE, vif_type="binding_failed"))),
            "its binding failed",
        ),
    ],
)
def test_a_port_that_is_not_to_be_admitted_is_dead_and_says_why(resources, reason):
    made = desired(SEGMENT, *resources)
    assert made.values == {PortKey(PORT.id): wiring(PORT, Admission.DEAD)}
    decision = made.decision(PORT.id)
    assert (decision.reason, decision.is_error) == (reason, False)


@pytest.mark.parametrize(
    ("unreachable", "remedy"),
    [
        (
            segment(NET, NetworkType.VLAN, 7, "physnet2"),
            "map its physical network: add physnet2:BRIDGE to bridge_mappings",
        ),
        (
            segment(NET, NetworkType.FLAT, None, "physnet2"),
            "map its physical network: add physnet2:BRIDGE to bridge_mappings",
        ),
        (segment(NET, NetworkType.GENEVE, 7), "add geneve to tunnel_types, and set local_ip"),
        (
            segment(NET, NetworkType.VLAN, None, "physnet1"),
            "give its vlan segment a segmentation id",
        ),
        (
            segment(NET, NetworkType("acme-fabric"), 7, "physnet1"),
            "use a switch driver that carries acme-fabric segments: this one carries flat, geneve, "
            "gre, local, vlan, vxlan",
        ),
    ],
)
def test_a_port_whose_network_does_not_reach_this_host_is_dead_by_an_error(unreachable, remedy):
    made = desired(NET, unreachable, PORT)
    assert made.values == {PortKey(PORT.id): wiring(PORT, Admission.DEAD)}
    assert made.decision(PORT.id).is_error
    reason = f"no segment of network {NET.id} reaches this host: {remedy}"
    assert made.decision(PORT.id).reason == reason


@pytest.mark.parametrize(
    "reachable",
    [
        segment(NET, NetworkType.VLAN, 7, "physnet1"),
        segment(NET, NetworkType.FLAT, None, "physnet1"),
        segment(NET, NetworkType.LOCAL),
    ],
)
def test_mapped_and_local_networks_are_reached(reachable):
    assert desired(NET, reachable, PORT).values[NetworkKey(NET.id)] == local(NET, reachable)


def test_segments_that_only_the_network_names_will_do():
    named = evolve(NET, segments=(SEGMENT.provider,))
    (made,) = desired(named, PORT).values[NetworkKey(NET.id)].segments
    assert made.provider == SEGMENT.provider
    assert desired(named, PORT).values[NetworkKey(NET.id)].segments == (made,)


@pytest.mark.spec("L2-17")
def test_a_network_update_reaches_its_ports_and_a_port_update_only_itself():
    second, foreign = port(2, NET), port(3, OTHER)
    made = desired(
        NET, SEGMENT, OTHER, OTHER_SEGMENT, PORT, second, foreign, plugged=(PORT, second, foreign)
    )
    made.take_changed(), made.take_touched()
    learn(made, [evolve(NET, admin_up=False)])
    assert made.take_changed() == {PortKey(PORT.id), PortKey(second.id), NetworkKey(NET.id)}
    learn(made, [evolve(foreign, mac="fa:16:3e:00:00:99")])
    assert made.take_changed() == {PortKey(foreign.id)}
    learn(made, [evolve(NET, mtu=9000)])
    assert made.values[NetworkKey(NET.id)] == local(evolve(NET, mtu=9000), SEGMENT)


def test_a_change_that_means_nothing_to_the_switch_touches_the_port_and_changes_no_key():
    made = desired(NET, SEGMENT, PORT)
    made.take_changed(), made.take_touched()
    learn(made, [evolve(PORT, name="renamed", revision=2)])
    assert made.take_changed() == frozenset()
    assert made.take_touched() == {PORT.id}


@pytest.mark.spec("L2-05")
def test_a_port_on_an_ancillary_switch_is_not_wired():
    made = desired(NET, SEGMENT, PORT, plugged=())
    made.plug(PORT.id, SwitchDevice(name="tap1", ofport=1, ancillary=True))
    assert made.values == {}


@pytest.mark.spec("L2-26")
def test_a_guarded_port_may_use_its_own_addresses_and_its_pairs():
    pair = AddressPair(prefix="10.9.0.0/24", mac="fa:16:3e:00:00:99")
    guarded = evolve(PORT, port_security=True, allowed_address_pairs=(pair,))
    made = desired(NET, SEGMENT, guarded, guard=True)
    assert made.values[PortKey(PORT.id)].guard == {
        AllowedSource(PORT.mac, ip_network("10.0.0.1/32")),
        AllowedSource(pair.mac, ip_network("10.9.0.0/24")),
        AllowedSource(PORT.mac, ip_network("fe80::f816:3eff:fe00:1/128")),
        AllowedSource(pair.mac, ip_network("fe80::f816:3eff:fe00:99/128")),
    }
    assert link_local(PORT.mac) == ip_address("fe80::f816:3eff:fe00:1")


@pytest.mark.parametrize(
    "trusted",
    [PORT, evolve(PORT, port_security=True, device_owner="network:dhcp")],
)
def test_a_trusted_port_is_neither_guarded_nor_filtered(trusted):
    wiring = desired(NET, SEGMENT, trusted, guard=True, filtered=True).values[PortKey(PORT.id)]
    assert wiring.guard is None
    assert not wiring.filtered


@pytest.mark.spec("FW-07")
@pytest.mark.parametrize("filtered", [True, False])
def test_what_is_not_trusted_is_left_to_the_firewall_in_the_switch(filtered):
    secured = evolve(PORT, port_security=True)
    made = desired(NET, SEGMENT, secured, filtered=filtered)
    assert made.values[PortKey(PORT.id)].filtered is filtered


def test_extensions_are_shown_what_a_port_refers_to_and_hear_when_it_changes():
    policy = QosPolicy(id=QosPolicyId(ref(PORT).id), name="slow")
    limited = evolve(PORT, qos_policy_id=policy.id)
    made = desired(NET, SEGMENT, limited, policy)
    assert made.extended(PORT.id).related == (policy,)
    made.take_touched()
    learn(made, [evolve(policy, name="slower")])
    assert made.take_touched() == {PORT.id}
    learn(made, [evolve(limited, admin_up=False)])
    assert made.extended(PORT.id) is None


def test_of_several_segments_the_one_of_the_subnet_is_taken_else_the_first():
    second = evolve(segment(NET, NetworkType.VLAN, 7, "physnet1"), id=OTHER_SEGMENT.id)
    made = desired(NET, SEGMENT, second, PORT)
    assert made.values[NetworkKey(NET.id)].segments == (SEGMENT, second)
    assert made.values[PortKey(PORT.id)].segment == SEGMENT.id


def test_a_network_with_another_id_is_another_network():
    assert desired(network(3), PORT).values == {PortKey(PORT.id): wiring(PORT, Admission.DEAD)}
