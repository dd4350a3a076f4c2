"""The flows of distributed routers, by value."""

from ipaddress import ip_address

import pytest

from netfw.model.segment import NetworkType, Provider
from netfw.ovs.openflow import encode_flows
from netfw_drivers.ovs.pipeline import br_int, br_tun
from netfw_drivers.ovs.pipeline.distributed_routing import (
    PlannedInterface,
    RoutedSegment,
    gateway_mac,
    host_flows,
    plan_interfaces,
)
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import INTEGRATION
from netfw_drivers.ovs.pipeline.tunnel_tables import TUNNELS
from tests.unit.backends.ovs.switch.distributed.samples import (
    OTHER,
    PHYSICAL,
    H,
    R,
    flows_of,
    router,
)
from tests.unit.backends.ovs.switch.flow_samples import texts

pytestmark = pytest.mark.spec("L2-60")


def of_table(number: int, flows) -> list[str]:
    return [text for text in texts(flows) if text.startswith(f"table={number}, ")]


def test_a_router_interface_costs_few_flows_and_a_host_three():
    assert len(flows_of(R)) == 21
    assert len(flows_of(router(9, "10.0.0.1/24"))) == 17
    # Two of a network: what stands for all of them is there once.
    assert len(flows_of(R, router(8, "10.0.8.1/24", "fd00:8::1/64"))) == 21 + 18
    there = [
        *host_flows(OTHER, [1], own=False),
        *br_tun.host_flows(OTHER, [(NetworkType.VXLAN, 5)]),
    ]
    assert len(there) == 3


def test_flows_keep_to_the_declared_pipelines():
    both = [*host_flows(OTHER, [1, 2], own=False), *host_flows(H, [1, 2], own=True)]
    second = router(8, "10.0.0.2/24")
    base = br_int.base_flows(1, ExtensionLayout())
    INTEGRATION.check([*base, *both, *flows_of(R, second), *flows_of(R, mac=None, segment=OFF)])
    TUNNELS.check(br_tun.host_flows(OTHER, [(NetworkType.VXLAN, 5), (NetworkType.GENEVE, 6)]))
    encode_flows(both)
    encode_flows(flows_of(R, second, segment=PHYSICAL))


OFF = RoutedSegment(8, 4, tunnelled=False)


def test_frames_of_other_hosts_routers_get_the_mac_of_the_interface_back():
    assert of_table(1, flows_of(R)) == [
        "table=1, priority=20,ip,reg6=0x7/0xffff,nw_dst=10.0.0.0/24 actions="
        "set_field:fa:16:3e:00:00:09->eth_src,resubmit(,58)",
        "table=1, priority=20,ipv6,reg6=0x7/0xffff,ipv6_dst=fd00::/64 actions="
        "set_field:fa:16:3e:00:00:09->eth_src,resubmit(,58)",
        "table=1, priority=10,reg6=0x7/0xffff actions="
        "set_field:fa:16:3e:00:00:09->eth_src,resubmit(,58)",
    ]
    assert len(of_table(2, flows_of(R, segment=PHYSICAL))) == 3
    base = texts(br_int.base_flows(None, ExtensionLayout()))
    for table in (1, 2):
        assert f"table={table}, priority=30,arp actions=resubmit(,58)" in base
        assert f"table={table}, priority=30,icmp6,icmp_type=135 actions=resubmit(,58)" in base


def test_answers_come_to_the_interface_as_if_it_had_asked():
    assert of_table(3, flows_of(R)) == [
        "table=3, priority=2,arp,reg6=0x7/0xffff,arp_spa=10.0.0.0/24 actions="
        "set_field:fa:16:3e:00:00:09->eth_dst,set_field:fa:16:3e:00:00:09->arp_tha,"
        "set_field:10.0.0.1->arp_tpa,resubmit(,61)",
        "table=3, priority=2,icmp6,reg6=0x7/0xffff,icmp_type=136,nd_target=fd00::/64 actions="
        "resubmit(,58),load:0x60000000->ERICOXM_OF_ICMPV6_ND_RESERVED[],"
        "set_field:fa:16:3e:00:00:09->eth_dst,set_field:fe80::f816:3eff:fe00:9->ipv6_dst,"
        "resubmit(,61)",
        "table=3, priority=1,arp,reg6=0x7/0xffff actions="
        "set_field:fa:16:3e:00:00:09->eth_dst,set_field:fa:16:3e:00:00:09->arp_tha,"
        "set_field:10.0.0.1->arp_tpa,resubmit(,61)",
        "table=3, priority=1,icmp6,reg6=0x7/0xffff,icmp_type=136 actions="
        "resubmit(,58),load:0x60000000->ERICOXM_OF_ICMPV6_ND_RESERVED[],"
        "set_field:fa:16:3e:00:00:09->eth_dst,set_field:fe80::f816:3eff:fe00:9->ipv6_dst,"
        "resubmit(,61)",
    ]


def test_all_interfaces_of_a_prefix_are_answered():
    # An answer does not tell which of the interfaces sent the request.
    second = router(8, "10.0.0.2/24")
    (first,) = [text for text in of_table(3, flows_of(R, second)) if "arp_spa" in text]
    for mac, address in ((R.mac, "10.0.0.1"), (second.mac, "10.0.0.2")):
        assert f"set_field:{mac}->arp_tha,set_field:{address}->arp_tpa,resubmit(,61)" in first


def test_nothing_from_outside_is_for_a_router_but_answers():
    assert of_table(61, flows_of(R)) == [
        "table=61, priority=13,reg5=0/0x4ffff,reg6=0x7/0xffff,dl_dst=fa:16:3e:00:00:09 actions=drop"
    ]


def test_the_mac_of_an_interface_never_leaves_the_host():
    kept = [text for text in of_table(62, flows_of(R)) if text.endswith("actions=drop")]
    ours = "reg6=0x7/0xffff"
    assert sorted(kept) == sorted(
        [
            f"table=62, priority=10,{ours},dl_dst={R.mac} actions=drop",
            f"table=62, priority=10,arp,{ours},dl_src={R.mac},arp_op=2 actions=drop",
            f"table=62, priority=10,icmp6,{ours},dl_src={R.mac},icmp_type=136 actions=drop",
            f"table=62, priority=10,icmp6,{ours},dl_src={R.mac},icmp_type=134 actions=drop",
            f"table=62, priority=10,arp,{ours},arp_tpa=10.0.0.1 actions=drop",
            f"table=62, priority=10,icmp6,{ours},icmp_type=135,nd_target=fd00::1 actions=drop",
            f"table=62, priority=10,icmp6,{ours},icmp_type=135,"
            "nd_target=fe80::f816:3eff:fe00:9 actions=drop",
            f"table=62, priority=10,arp,reg5=0/0x20000,{ours},arp_spa=10.0.0.1 actions=drop",
            f"table=62, priority=10,icmp6,reg5=0/0x20000,{ours},icmp_type=136,"
            "nd_target=fd00::1 actions=drop",
            f"table=62, priority=7,reg5=0/0x20000,{ours},dl_src={R.mac} actions=drop",
        ]
    )


def test_what_leaves_has_the_mac_of_the_host_and_requests_have_no_sender():
    sent = [text for text in of_table(62, flows_of(R)) if not text.endswith("actions=drop")]
    theirs, out = (
        f"reg6=0x7/0xffff,dl_src={R.mac}",
        "push_vlan:0x8100,set_field:4103->vlan_vid,output:3",
    )
    assert sent == [
        f"table=62, priority=6,arp,{theirs},arp_op=1 actions=set_field:{H}->eth_src,"
        f"set_field:{H}->arp_sha,set_field:0.0.0.0->arp_spa,{out}",
        f"table=62, priority=6,icmp6,{theirs},icmp_type=135 actions=set_field:{H}->eth_src,"
        f"set_field:::->ipv6_src,load:0xfd->ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE[],{out}",
        f"table=62, priority=5,{theirs} actions=set_field:{H}->eth_src,{out}",
    ]


def test_without_a_mac_of_the_host_nothing_of_a_router_leaves():
    assert not [text for text in of_table(62, flows_of(R, mac=None)) if "output" in text]
    assert f"table=62, priority=5,reg6=0x7/0xffff,dl_src={R.mac} actions=drop" in texts(
        flows_of(R, mac=None)
    )


def test_restored_frames_of_other_hosts_do_not_go_out_again():
    # They have the MAC of the interface: what came from outside is dropped first.
    (drop,) = of_table(62, [f for f in br_int.base_flows(1, ExtensionLayout()) if f.priority])
    assert drop == "table=62, priority=20,reg5=0/0xffff actions=drop"
    assert all(flow.priority < 20 for flow in flows_of(R) if flow.table == 62)


def test_frames_of_a_host_are_accepted_from_other_bridges_only():
    assert texts(host_flows(OTHER, [1, 2], own=False)) == [
        f"priority=25,reg5=0/0x20000,dl_src={OTHER} actions=drop",
        *(
            f"priority=30,reg5=0/0x20000,in_port={link},dl_src={OTHER} actions="
            "load:0x1->NXM_NX_REG5[17],resubmit(,0)"
            for link in (1, 2)
        ),
    ]
    again = "actions=load:0x1->NXM_NX_REG5[18],resubmit(,0)"
    assert texts(host_flows(H, [1], own=True)) == [
        f"priority=25,reg5=0/0x20000,dl_src={H} actions=drop",
        f"priority=31,arp,reg5=0/0x40000,in_port=1,dl_dst={H},arp_op=2 {again}",
        f"priority=31,icmp6,reg5=0/0x40000,in_port=1,ipv6_dst=ff02::1,icmp_type=136 {again}",
    ]


def test_frames_for_the_mac_of_a_host_go_into_its_tunnel_on_every_network():
    assert texts(br_tun.host_flows(OTHER, [(NetworkType.GENEVE, 5)])) == [
        f"table=20, priority=2,reg0=0x6/0xe,vlan_tci=0x1000/0x1000,dl_dst={OTHER} actions="
        "load:0xffff->NXM_NX_REG1[0..15],pop_vlan,output:5"
    ]


def test_a_physical_network_with_routers_has_two_more_flows():
    vlan = Provider(network_type=NetworkType.VLAN, physical_network="p", segmentation_id=200)
    plain, *more = texts(br_int.network_flows(7, vlan, 4, routed=True))
    assert [plain] == texts(br_int.network_flows(7, vlan, 4))
    known = "in_port=4,dl_vlan=200 actions=pop_vlan,load:0x7->NXM_NX_REG6[0..15]"
    assert more == [
        f"priority=5,reg5=0x20000/0x20000,{known},resubmit(,2)",
        f"priority=6,reg5=0x40000/0x40000,{known},resubmit(,4)",
    ]


def test_of_several_interfaces_in_a_prefix_the_lowest_address_stands_for_all():
    low, high = router(9, "10.0.0.9/24"), router(8, "10.0.0.10/24")
    by_port = {one.interface: one for one in plan_interfaces(frozenset({low, high}))}
    assert [served.interfaces for served in by_port[low].served] == [(low, high)]
    assert by_port[high] == PlannedInterface(interface=high, default=True)


def test_a_port_is_served_by_the_router_of_its_subnet():
    routers = frozenset({router(3), router(4)})
    assert gateway_mac(routers, [ip_address("10.0.4.77")]) == router(4).mac
    assert gateway_mac(routers, [ip_address("192.0.2.1")]) == router(3).mac
