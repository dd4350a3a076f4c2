"""Replies of a switch to ``ofproto/trace`` and ``dpif/show``, as Open vSwitch 3.1 writes them."""

from __future__ import annotations

import pytest

from netfw.cli.trace.datapath_ports import parse_ports, port_of_number, tunnel_port
from netfw.cli.trace.ofproto_trace import (
    PortOutput,
    TunnelOutput,
    parse_outputs,
    parse_trace,
    split_actions,
)
from netfw.cli.trace.router_listings import parse_route, parse_translations

pytestmark = pytest.mark.spec("DRV-41")

TUNNELLED = """\
Flow: tcp,in_port=1,vlan_tci=0x0000,dl_src=fa:16:3e:00:00:02,dl_dst=fa:16:3e:00:00:03,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80

bridge("br-int")
----------------
 0. in_port=1,vlan_tci=0x0000/0x1fff, priority 9, cookie 0x6e66010000000002
    load:0x1->NXM_NX_REG5[0..15]
    resubmit(,62)
62. reg6=0x1/0xffff, priority 1, cookie 0x6e66010000000000
    output:32512

bridge("br-tun")
----------------
 0. in_port=32512, priority 1, cookie 0x6e66010000000000
    resubmit(,2)
 2. dl_vlan=1, priority 1, cookie 0x6e66010000000000
    resubmit(,17)
    17. priority 0, cookie 0x6e66010000000000
            drop
    resubmit(,20)
    20. dl_vlan=1,dl_dst=fa:16:3e:00:00:03, priority 2, cookie 0x6e66010000000000
            output:16384
             -> output to native tunnel
             -> tunneling to 198.18.0.2 via br-phy

        bridge("br-phy")
        ----------------
         0. priority 0
            NORMAL
             -> forwarding to learned port
    resubmit(,19)
19. No match.
    drop

Final flow: tcp,reg5=0x10001,in_port=1,dl_vlan=1,dl_src=fa:16:3e:00:00:09,dl_dst=fa:16:3e:00:00:03,nw_src=10.0.0.1,nw_dst=10.0.0.2
Megaflow: recirc_id=0,eth,tcp,in_port=1
Datapath actions: ct(commit,zone=1),tnl_push(tnl_port(6),header(size=50,type=4,eth(dst=4a:5a:88:39:1d:45,src=da:3e:63:91:12:46,dl_type=0x0800),ipv4(src=198.18.0.1,dst=198.18.0.2,proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x65)),out_port(3)),2
"""  # noqa: E501

TRACKED = """\
Flow: tcp,in_port=16384,dl_vlan=7,dl_src=fa:16:3e:00:00:02

bridge("br-tun")
----------------
 0. in_port=16384, priority 1, cookie 0x6e66010000000000
    output:32512

Final flow: unchanged
Megaflow: recirc_id=0
Datapath actions: ct(zone=1),recirc(0x1)

===============================================================================
recirc(0x1) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

Flow: recirc_id=0x1,ct_state=new|trk,eth,tcp,in_port=32513

bridge("br-tun")
----------------
    thaw
        Resuming from table 81
81. ip, priority 10, cookie 0x6e66020000000000
    drop

Final flow: unchanged
Megaflow: recirc_id=0x1
Datapath actions: drop
"""


def test_steps_have_their_bridges_also_within_tunnels() -> None:
    steps = parse_trace(TUNNELLED).steps
    assert [(step.bridge, step.table) for step in steps] == [
        ("br-int", 0), ("br-int", 62), ("br-tun", 0), ("br-tun", 2), ("br-tun", 17), ("br-tun", 20),
        ("br-phy", 0), ("br-tun", 19),
    ]  # fmt: skip
    assert steps[0].match == "in_port=1,vlan_tci=0x0000/0x1fff"
    assert (steps[0].priority, steps[0].cookie) == (9, 0x6E66010000000002)
    assert steps[0].actions == ("load:0x1->NXM_NX_REG5[0..15]", "resubmit(,62)")
    assert steps[5].remarks[1] == "tunneling to 198.18.0.2 via br-phy"
    assert steps[4].is_miss
    assert steps[7].priority is None


def test_tunnel_is_an_output_and_its_underlay_is_none() -> None:
    found = parse_trace(TUNNELLED)
    tunnel = TunnelOutput(type="vxlan", id=0x65, remote="198.18.0.2", local="198.18.0.1")
    assert found.outputs == (tunnel,)
    assert found.field("dl_src") == "fa:16:3e:00:00:09"
    assert not found.tracked_on


def test_packet_that_is_tracked_on_the_way_is_recognised() -> None:
    found = parse_trace(TRACKED)
    assert (found.tracked_on, found.first_vlan, found.outputs) == ("32513", 7, ())


@pytest.mark.parametrize("text", ["", "Flow: tcp", "Datapath actions: 1", "no such bridge"])
def test_reply_that_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the switch does not say"):
        parse_trace(text)


@pytest.mark.parametrize(
    ("actions", "outputs"),
    [
        ("drop", []),
        ("5", [PortOutput(number=5)]),
        ("push_vlan(vid=105,pcp=0),5", [PortOutput(number=5, vlan=105)]),
        (
            "push_vlan(vid=105,pcp=0),5,pop_vlan,6",
            [PortOutput(number=5, vlan=105), PortOutput(number=6)],
        ),
        (
            "set(tunnel(tun_id=0x65,src=10.1.1.1,dst=10.1.1.2,ttl=64,flags(df|key))),4,7",
            [
                TunnelOutput(type="", id=0x65, remote="10.1.1.2", local="10.1.1.1"),
                PortOutput(number=7),
            ],
        ),
        (
            "clone(tnl_push(tnl_port(6),header(size=58,eth(dst=x),"
            "ipv4(src=1.1.1.1,dst=1.1.1.2,proto=47),gre((flags=0x2000,proto=0x6558),key=0x67)),out_port(3)),2),9",
            [
                TunnelOutput(type="gre", id=0x67, remote="1.1.1.2", local="1.1.1.1"),
                PortOutput(number=9),
            ],
        ),
    ],
)  # fmt: skip
def test_outputs_of_datapath_actions(actions: str, outputs: list[object]) -> None:
    assert list(parse_outputs(actions)) == outputs


def test_actions_are_split_outside_of_parentheses() -> None:
    assert split_actions("a(b,c(d,e)),f, g") == ["a(b,c(d,e))", "f", "g"]


PORTS = """\
netdev@ovs-netdev: hit:81 missed:53
  br-int:
    br-int 65534/1: (tap)
    patch-tun 32512/none: (patch: peer=patch-int)
    tap2 1/10: (system)
  br-tun:
    listen-vxlan 1/6: (vxlan: key=flow, local_ip=198.18.0.1, remote_ip=198.18.0.1)
    vxlan-c6120002 16384/6: (vxlan: key=flow, local_ip=198.18.0.1, remote_ip=198.18.0.2)
"""


def test_ports_are_found_by_number_and_by_the_far_end_of_their_tunnel() -> None:
    ports = parse_ports(PORTS)
    tap = port_of_number(ports, 10)
    assert tap is not None
    assert (tap.bridge, tap.name, tap.ofport) == ("br-int", "tap2", 1)
    tunnel = tunnel_port(ports, "vxlan", "198.18.0.2")
    assert tunnel is not None
    assert (tunnel.bridge, tunnel.ofport) == ("br-tun", 16384)
    assert tunnel_port(ports, "gre", "198.18.0.2") is None
    assert tunnel_port(ports, "vxlan", "198.18.0.3") is None
    assert port_of_number(ports, 99) is None


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("10.0.2.5 from 10.0.1.11 dev qr-1 \n    cache iif qr-0", ("qr-1", "")),
        ("9.9.9.9 from 10.0.1.11 via 203.0.113.1 dev qg-1 \n", ("qg-1", "203.0.113.1")),
        ("unreachable 10.0.2.5 from 10.0.1.11 dev lo", ("", "")),
        ("", ("", "")),
    ],
)
def test_routes_name_the_device_and_the_next_router(text: str, route: tuple[str, str]) -> None:
    assert parse_route(text) == route


@pytest.mark.parametrize("end", ["10.0.1.1", "fd00::1"])
def test_rules_of_address_translation_name_an_end_of_the_packet(end: str) -> None:
    length = 128 if ":" in end else 32
    lines = [
        "*nat",
        f"-A float -s {end}/{length} -j SNAT --to-source 203.0.113.7",
        f"-A float -d 203.0.113.7/32 -j DNAT --to-destination {end}",
        f"-A float -s {end}1/{length} -j SNAT --to-source 203.0.113.8",
    ]
    assert parse_translations("\n".join(lines), [end, "192.0.2.1"]) == tuple(lines[1:3])
    many = "\n".join(lines[1:2] * 30)
    assert len(parse_translations(many, [end])) == 20
