"""The flows of each bridge, by value."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.drivers.values.pipeline_grant import PipelineHook
from netfw.model.segment import NetworkType
from netfw.ovs.openflow import encode_flows
from netfw.ovs.openflow.flow_inspection import output_ports, written_eth_src
from netfw_drivers.ovs.pipeline import br_int, br_phys, br_tun
from netfw_drivers.ovs.pipeline.br_int import Receiver, port_flows
from netfw_drivers.ovs.pipeline.tables import (
    COOKIE,
    FILTERED_PORT,
    LEARNT,
)
from tests.unit.backends.ovs.switch.flow_samples import (
    FILTERED,
    FLAT,
    GUARDED,
    MAC,
    PLAIN,
    PORT,
    SHARED,
    VLAN,
    WATCHED,
    texts,
)


def receivers(*numbers: int) -> tuple[Receiver, ...]:
    return tuple(map(Receiver, numbers))


@pytest.mark.spec("L2-20")
def test_a_port_has_one_flow_to_send_and_one_to_receive():
    assert texts(port_flows(PORT, PLAIN)) == [
        "priority=9,in_port=5,vlan_tci=0x0000/0x1fff actions="
        "load:0x5->NXM_NX_REG5[0..15],load:0x7->NXM_NX_REG6[0..15],resubmit(,30)",
        "table=61, priority=12,reg6=0x7/0xffff,dl_dst=fa:16:3e:00:00:01 actions=output:5",
    ]


@pytest.mark.spec("L2-20")
def test_nothing_passes_a_filtered_port_but_through_the_firewalls_tables():
    assert texts(port_flows(FILTERED, PLAIN)) == [
        "priority=9,in_port=9,vlan_tci=0x0000/0x1fff actions=load:0x9->NXM_NX_REG5[0..15],"
        "load:0x7->NXM_NX_REG6[0..15],load:0x1->NXM_NX_REG5[16],resubmit(,30)",
        "table=61, priority=12,reg6=0x7/0xffff,dl_dst=fa:16:3e:00:00:09 actions="
        "load:0x9->NXM_NX_REG8[0..15],resubmit(,81)",
        "table=73, priority=20,reg6=0x7/0xffff,reg7=0/0x10000,dl_dst=fa:16:3e:00:00:09 actions="
        "resubmit(,91)",
    ]
    cookies = {flow.cookie for flow in port_flows(FILTERED, PLAIN) if flow.table == 0}
    assert cookies == {COOKIE | FILTERED_PORT}
    base = texts(br_int.base_flows(None, PLAIN))
    assert "table=60, priority=2,reg5=0x10000/0x10000 actions=resubmit(,71)" in base
    for table in (71, 72, 81, 82):
        assert [line for line in base if line.startswith(f"table={table},")] == [
            f"table={table}, priority=0 actions=resubmit(,93)"
        ]
    assert "table=73, priority=0 actions=drop" in base
    assert "table=93, priority=0 actions=drop" in base


@pytest.mark.spec("L2-61")
def test_frames_for_a_shared_mac_go_to_the_port_and_on_to_other_hosts():
    assert texts(port_flows(SHARED, PLAIN)) == [
        "priority=9,in_port=11,vlan_tci=0x0000/0x1fff actions="
        "load:0xb->NXM_NX_REG5[0..15],load:0x7->NXM_NX_REG6[0..15],resubmit(,30)",
        *(
            f"priority=11,icmp6,in_port=11,vlan_tci=0x0000/0x1fff,ipv6_src=::,icmp_type={kind} "
            "actions=drop"
            for kind in (131, 132, 143)
        ),
        "table=61, priority=12,reg6=0x7/0xffff,dl_dst=fa:16:3e:00:00:0b actions="
        "output:11,resubmit(,62)",
    ]
    base = texts(br_int.base_flows(None, PLAIN))
    assert "table=62, priority=20,reg5=0/0xffff actions=drop" in base  # what came from outside


@pytest.mark.spec("L2-61")
def test_the_sender_commits_connections_to_a_shared_mac_since_the_receiver_may_be_elsewhere():
    both = evolve(SHARED, filtered=True)
    assert {flow.table for flow in port_flows(both, PLAIN)} == {0, 61}


def test_broadcast_passes_the_firewall_for_filtered_ports_only():
    some = (Receiver(200), Receiver(201, filtered=True), Receiver(202))
    assert texts(br_int.chunk_flows(7, 3, some, PLAIN)) == [
        "table=63, priority=1,reg6=0x7/0xffff,reg8=0x30000/0xffff0000 actions="
        "output:200,load:0xc9->NXM_NX_REG8[0..15],resubmit(,81),output:202"
    ]
    (hosting,) = (
        line
        for line in texts(br_int.domain_flows(7, (0,), some[:2], None, PLAIN))
        if "priority=3," in line
    )
    assert hosting.endswith("output:200,load:0xc9->NXM_NX_REG8[0..15],resubmit(,81),resubmit(,62)")


@pytest.mark.spec("L2-25")
def test_extensions_see_what_the_firewall_has_let_through():
    plain, watched = (texts(br_int.base_flows(None, layout)) for layout in (PLAIN, WATCHED))
    assert "table=91, priority=0 actions=resubmit(,94)" in plain
    assert "table=92, priority=0 actions=output:NXM_NX_REG8[0..15]" in plain
    steps = {step.hook: step for step in WATCHED.steps}
    assert f"table=91, priority=0 actions=resubmit(,{steps[PipelineHook.SENT].table})" in watched
    assert f"table=92, priority=0 actions=resubmit(,{steps[PipelineHook.TO_PORT].table})" in watched
    assert f"table={steps[PipelineHook.TO_PORT].hop}, priority=0 actions=resubmit(,64)" in watched
    for place, after in ((PipelineHook.FROM_PORT, 30), (PipelineHook.SENT, 94)):
        hop = f"table={steps[place].hop}, priority=0 actions=ct_clear,resubmit(,{after})"
        assert hop in watched
    for layout in (PLAIN, WATCHED):
        (line,) = (t for t in texts(port_flows(FILTERED, layout)) if t.startswith("table=61"))
        assert line.endswith("load:0x9->NXM_NX_REG8[0..15],resubmit(,81)")


@pytest.mark.spec("L2-26")
def test_a_guarded_port_is_led_through_the_guards():
    flows = texts(port_flows(GUARDED, PLAIN))
    assert [line for line in flows if line.startswith("priority")] == [
        "priority=9,in_port=5,vlan_tci=0x0000/0x1fff actions="
        "load:0x5->NXM_NX_REG5[0..15],load:0x7->NXM_NX_REG6[0..15],resubmit(,25)",
        "priority=10,arp,in_port=5,vlan_tci=0x0000/0x1fff actions="
        "load:0x5->NXM_NX_REG5[0..15],load:0x7->NXM_NX_REG6[0..15],resubmit(,24)",
        "priority=10,icmp6,in_port=5,vlan_tci=0x0000/0x1fff,icmp_type=136 actions="
        "load:0x5->NXM_NX_REG5[0..15],load:0x7->NXM_NX_REG6[0..15],resubmit(,24)",
        "priority=10,icmp6,in_port=5,vlan_tci=0x0000/0x1fff,ipv6_src=::,icmp_type=135 actions="
        "load:0x5->NXM_NX_REG5[0..15],load:0x7->NXM_NX_REG6[0..15],resubmit(,24)",
    ]
    guards = [line for line in flows if line.startswith("table=24")]
    assert (
        "table=24, priority=2,arp,in_port=5,arp_spa=10.0.0.1,arp_sha=fa:16:3e:00:00:01 "
        "actions=resubmit(,25)" in guards
    )
    assert (
        "table=24, priority=2,icmp6,in_port=5,dl_src=fa:16:3e:00:00:01,icmp_type=136,"
        "nd_target=fd00::1 actions=resubmit(,25)" in guards
    )
    macs = [line for line in flows if line.startswith("table=25")]
    assert sorted(macs) == [
        f"table=25, priority=2,in_port=5,dl_src=fa:16:3e:00:00:0{n} actions=resubmit(,30)"
        for n in (1, 2)
    ]


def test_broadcast_goes_to_the_chunks_of_a_network_and_then_to_other_hosts():
    flows = texts(br_int.domain_flows(7, (0, 3), (Receiver(9),), 32512, PLAIN))
    assert flows == [
        "table=61, priority=10,reg6=0x7/0xffff,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions="
        "load:0->NXM_NX_REG8[16..31],resubmit(,63),load:0x3->NXM_NX_REG8[16..31],resubmit(,63),"
        "resubmit(,62)",
        "table=61, priority=3,reg6=0x7/0xffff actions=output:9,resubmit(,62)",
        "table=62, priority=1,reg6=0x7/0xffff actions="
        "push_vlan:0x8100,set_field:4103->vlan_vid,output:32512",
    ]
    assert texts(br_int.chunk_flows(7, 3, receivers(200, 201), PLAIN)) == [
        "table=63, priority=1,reg6=0x7/0xffff,reg8=0x30000/0xffff0000 actions=output:200,output:201"
    ]


@pytest.mark.spec("L2-25")
def test_what_is_delivered_is_shown_to_the_extensions_that_want_to_see_it():
    (entry,) = (step.table for step in WATCHED.steps if step.hook is PipelineHook.TO_PORT)
    (chunk,) = texts(br_int.chunk_flows(7, 0, receivers(5, 6), WATCHED))
    assert chunk.endswith(
        f"load:0x5->NXM_NX_REG8[0..15],resubmit(,{entry}),"
        f"load:0x6->NXM_NX_REG8[0..15],resubmit(,{entry})"
    )


@pytest.mark.spec("L2-23")
def test_a_physical_network_has_its_own_name_on_its_bridge_and_the_local_one_here():
    assert texts(br_phys.network_flows(7, VLAN, 3)) == [
        "priority=4,in_port=3,dl_vlan=7 actions=set_field:4296->vlan_vid,NORMAL"
    ]
    assert texts(br_phys.network_flows(8, FLAT, 3)) == [
        "priority=4,in_port=3,dl_vlan=8 actions=pop_vlan,NORMAL"
    ]
    assert texts(br_int.network_flows(7, VLAN, 4)) == [
        "priority=3,in_port=4,dl_vlan=200 actions="
        "pop_vlan,load:0x7->NXM_NX_REG6[0..15],resubmit(,58)"
    ]
    assert texts(br_int.network_flows(8, FLAT, 4)) == [
        "priority=3,in_port=4,vlan_tci=0x0000/0x1fff actions="
        "load:0x8->NXM_NX_REG6[0..15],resubmit(,58)"
    ]


@pytest.mark.spec("L2-03")
def test_what_has_no_name_on_a_physical_bridge_is_dropped():
    assert "priority=2,in_port=3 actions=drop" in texts(br_phys.base_flows(3))


@pytest.mark.spec("L2-22")
def test_a_tunnelled_network_floods_to_its_peers():
    def learn(limit: str) -> str:
        head = f"hard_timeout=300,priority=1,cookie=0x6e66030200000064,{limit}NXM_NX_REG0[1..3]"
        return (
            f"learn(table=14,{head},NXM_NX_TUN_ID[],NXM_OF_ETH_SRC[],load:0x1->NXM_NX_REG0[4]),"
            f"learn(table=20,{head},NXM_NX_TUN_ID[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],"
            "load:NXM_OF_IN_PORT[]->NXM_NX_REG1[0..15])"
        )

    assert texts(br_tun.network_flows(7, NetworkType.VXLAN, 100, (22, 21))) == [
        "table=4, priority=1,tun_id=0x64 actions="
        "push_vlan:0x8100,set_field:4103->vlan_vid,resubmit(,11),resubmit(,10)",
        "table=2, priority=1,dl_vlan=7 actions=set_field:0x64->tun_id,"
        "load:0x2->NXM_NX_REG0[1..3],resubmit(,17),resubmit(,18),resubmit(,20),resubmit(,19)",
        f"table=15, priority=2,reg0=0x10/0x10,dl_vlan=7 actions={learn('')}",
        f"table=15, priority=1,dl_vlan=7 actions={learn('limit=1024,')}",
        "table=22, priority=1,dl_vlan=7 actions="
        "pop_vlan,set_field:0x64->tun_id,output:21,output:22",
    ]
    assert len(texts(br_tun.network_flows(7, NetworkType.GRE, 100, ()))) == 4


@pytest.mark.spec("L2-24")
def test_an_entry_is_one_flow_and_one_answer_for_each_address():
    addresses = [ip_address("10.0.0.1"), ip_address("fd00::1")]
    flows = list(br_tun.forwarding_flows(7, 100, MAC, (21,), addresses))
    assert texts(flows)[0] == (
        "table=20, priority=2,dl_vlan=7,dl_dst=fa:16:3e:00:00:01 actions="
        "load:0xffff->NXM_NX_REG1[0..15],pop_vlan,set_field:0x64->tun_id,output:21"
    )
    assert [flow.table for flow in flows] == [20, 21, 21]
    passed_on = (
        "set_field:fa:16:3e:00:00:01->eth_dst,resubmit(,20),"
        "push_vlan:0x8100,set_field:4103->vlan_vid,"
    )
    assert all(f"actions={passed_on}" in text for text in texts(flows)[1:])


@pytest.mark.spec("L2-61")
def test_an_entry_of_a_shared_mac_sends_into_every_tunnel_or_that_of_the_active_host():
    sent = "load:0xffff->NXM_NX_REG1[0..15],pop_vlan,set_field:0x64->tun_id"
    towards, source = "dl_vlan=7,dl_dst=fa:16:3e:00:00:01", "dl_src=fa:16:3e:00:00:01"
    assert texts(br_tun.forwarding_flows(7, 100, MAC, (23, 21), ())) == [
        f"table=20, priority=2,{towards} actions={sent},output:21,output:23",
        f"table=20, priority=3,reg2=0x150000/0xffff0000,{towards} actions={sent},output:21",
        f"table=11, priority=1,tun_id=0x64,in_port=21,{source} actions=resubmit(,12),resubmit(,13)",
        f"table=20, priority=3,reg2=0x170000/0xffff0000,{towards} actions={sent},output:23",
        f"table=11, priority=1,tun_id=0x64,in_port=23,{source} actions=resubmit(,12),resubmit(,13)",
    ]


@pytest.mark.spec("L2-61")
def test_the_active_host_is_learned_from_announcements_and_confirmed_by_other_frames():
    head = f"priority=1,cookie={LEARNT:#x},NXM_NX_REG0[1..3],NXM_NX_TUN_ID[]"
    receiver = "NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]"
    tunnel = "load:NXM_OF_IN_PORT[]->NXM_NX_REG2"
    confirm = (
        f"learn(table=18,hard_timeout=3,{head},{receiver},"
        f"NXM_NX_REG2[0..15]=NXM_OF_IN_PORT[],{tunnel}[16..31])"
    )
    learn = ",".join(
        f"learn(table={table},hard_timeout=60,{head},{mac},{tunnel}[0..15])"
        for table, mac in ((12, "NXM_OF_ETH_SRC[]"), (17, receiver))
    )
    learn = f"{learn},{confirm}"

    def not_cached(field: str, value: int) -> str:
        nobody = "controller(max_len=0,id=65535)"
        return f"load:{value + 1:#x}->{field}[],{nobody},load:{value and hex(value)}->{field}[]"

    arp, neighbour = "NXM_OF_ARP_OP", "NXM_NX_ICMPV6_CODE"
    group, to_all = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", "arp_tha=ff:ff:ff:ff:ff:ff"
    flows = br_tun.base_flows(1, responder=False)
    assert texts(flow for flow in flows if flow.table == 13 and flow.priority) == [
        f"table=13, priority=3,arp,{group},arp_op=1,{to_all} actions={learn},{not_cached(arp, 1)}",
        f"table=13, priority=3,arp,{group},arp_op=2 actions={learn},{not_cached(arp, 2)}",
        f"table=13, priority=3,icmp6,{group},icmp_type=136,icmp_code=0 actions={learn},"
        f"{not_cached(neighbour, 0)}",
        f"table=13, priority=2,reg2=0/0xffff actions={learn}",
        f"table=13, priority=1 actions={confirm}",
    ]


def test_outputs_and_source_mac_can_be_read_from_a_flow():
    addresses = [ip_address("10.0.0.1"), ip_address("fd00::1")]
    flows = br_tun.forwarding_flows(7, 100, MAC, (21,), addresses)
    states = [encoded.state for encoded in encode_flows(flows).values()]
    assert output_ports(states[0]) == {21}
    assert [written_eth_src(state) for state in states[1:]] == [0xFA163E000001] * 2
    (flood,) = encode_flows(
        [list(br_tun.network_flows(7, NetworkType.VXLAN, 100, (22, 21)))[-1]]
    ).values()
    assert output_ports(flood.state) == {21, 22}
