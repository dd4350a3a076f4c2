"""Flows with every field and every action."""

from netfw import flows as of
from netfw.testing.lab.openvswitch import PrivateOvs

REG6 = of.RegisterField(6, 0, 15, "network")
MAC, MAC2 = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"

BELONGS = of.ct_state("+trk-inv")

MATCHES = [
    of.ANYTHING,
    of.in_port(5),
    of.in_port(of.LOCAL),
    of.in_port(of.CONTROLLER),
    of.eth_src(MAC) & of.eth_dst(MAC2),
    of.eth_dst("01:00:00:00:00:00/01:00:00:00:00:00"),
    of.eth_type(0x1234),
    of.eth_type(0x8035),
    of.vlan(7),
    of.vlan(0),
    of.vlan(7) & of.vlan_pcp(3),
    of.tagged() & of.vlan_pcp(3),
    of.vlan(5, 0xF) & of.vlan_pcp(1),
    of.vlan(0x10, 0xFF0),
    of.tagged(),
    of.untagged(),
    of.arp() & of.arp_op(1) & of.arp_spa("10.0.0.0/24") & of.arp_tpa("10.0.0.1"),
    of.arp() & of.arp_sha(MAC) & of.arp_tha(MAC2),
    of.ipv4() & of.ipv4_src("10.0.0.0/8") & of.ipv4_dst("192.0.2.1"),
    of.matching(of.FIELD["ipv4_src"], 0x0A000001, 0xFF0000FF) & of.ipv4(),
    of.ipv4() & of.ip_dscp(63) & of.ip_ecn(1) & of.ip_ttl(64),
    of.ipv4() & of.ip_proto(89),
    *(of.ipv4() & of.ip_frag(kind) for kind in ("no", "yes", "first", "later", "not_later")),
    of.ipv6() & of.ip_frag("first"),
    of.ipv6() & of.ipv6_src("fe80::/64") & of.ipv6_dst("2001:db8::1") & of.ipv6_label(5),
    of.ipv6() & of.ipv6_label(5, 0xFF) & of.ip_dscp(1),
    of.ipv6() & of.ip_proto(89),
    of.ipv6() & of.ipv6_src("::ffff:1.2.3.4"),
    of.ipv6() & of.ipv6_src("64:ff9b::1.2.3.4"),
    of.ip_src("10.0.0.0/8"),
    of.ip_dst("fe80::/10"),
    *(
        protocol() & source(53) & target(0x400, 0xFC00)
        for protocol, source, target in (
            (of.tcp, of.tcp_src, of.tcp_dst),
            (of.tcp6, of.tcp_src, of.tcp_dst),
            (of.udp, of.udp_src, of.udp_dst),
            (of.udp6, of.udp_src, of.udp_dst),
            (of.sctp, of.sctp_src, of.sctp_dst),
            (of.sctp6, of.sctp_src, of.sctp_dst),
        )
    ),
    of.icmp() & of.icmp_type(8) & of.icmp_code(0),
    of.icmpv6() & of.icmpv6_type(128) & of.icmpv6_code(0),
    of.icmpv6() & of.icmpv6_type(135) & of.nd_target("fe80::1") & of.nd_sll(MAC),
    of.icmpv6() & of.icmpv6_type(136) & of.nd_target("fe80::/64") & of.nd_tll(MAC),
    of.tun_id(5) & of.tun_src("192.0.2.0/24") & of.tun_dst("192.0.2.1"),
    of.tun_id(5, 0xF),
    of.tun_ipv6_src("2001:db8::1") & of.tun_ipv6_dst("2001:db8::/32"),
    of.metadata(5, 0xFF) & of.pkt_mark(7),
    of.metadata(1 << 63),
    of.pkt_mark(7, 0xFF),
    of.conj_id(5),
    of.ct_state("+trk-est+rel-rpl+new-inv-snat+dnat"),
    of.ct_state("-trk"),
    of.ct_zone(5) & of.ct_mark(1, 3) & of.ct_label(1 << 100, 1 << 100 | 5),
    of.ct_mark(9) & of.ct_label(5),
    of.ipv4() & BELONGS & of.ct_nw_src("10.0.0.0/8") & of.ct_nw_dst("192.0.2.1"),
    of.matching(of.FIELD["ct_nw_src"], 0x0A000001, 0xFF0000FF) & of.ipv4() & of.ct_state("+est"),
    of.ipv6() & BELONGS & of.ct_ipv6_src("fe80::/64") & of.ct_ipv6_dst("2001:db8::1"),
    *(
        kind()
        & of.ct_state(state)
        & of.ct_nw_proto(proto)
        & of.ct_tp_src(53)
        & of.ct_tp_dst(5000, 0xFFF8)
        for kind, state, proto in (
            (of.ipv4, "+trk-inv", 6),
            (of.ipv6, "+new", 17),
            (of.tcp, "+rel", 132),
            (of.icmpv6, "+rpl-est", 58),
            (of.ipv4, "+snat", 1),
            (of.ipv4, "+dnat", 255),
        )
    ),
    of.ipv4() & of.ip_frag("later") & BELONGS & of.ct_nw_proto(17) & of.ct_nw_dst("10.0.0.1"),
    BELONGS & of.ct_nw_proto(1) & of.ct_tp_src(8),
    *(of.register(number, 0) & of.register(15 - number, 5, 0xFF) for number in range(8)),
    REG6.is_(5),
]

ACTIONS: list[tuple[of.Match, tuple[of.Action, ...]]] = [
    (of.ANYTHING, ()),
    (of.ANYTHING, (of.output(3), of.normal(), of.flood(), of.to_all(), of.to_local(), of.back())),
    (of.ANYTHING, (of.output(REG6),)),
    (of.ANYTHING, (of.controller(), of.controller(100), of.controller(controller_id=5))),
    (of.ANYTHING, (of.controller(100, controller_id=5, userdata=b"\1\2"),)),
    (of.ANYTHING, (of.controller(userdata=b"12345678"), of.controller(7, userdata=b"1"))),
    (of.ANYTHING, (of.controller(userdata=b"1", limit=of.PacketLimit(7, 10, 20)),)),
    (of.ANYTHING, (of.controller(9, controller_id=5, limit=of.PacketLimit(8, 10, 20)),)),
    (of.ANYTHING, (of.goto(60), of.resubmit(61, 5), of.resubmit(0, of.LOCAL))),
    (of.ANYTHING, (of.goto_table(251),)),
    (of.ANYTHING, (of.Meter(1), of.output(3), of.goto_table(252))),
    (of.ANYTHING, (of.Meter(1),)),
    (of.ANYTHING, (of.load(REG6, 5), of.load(of.Bits(of.REGISTERS[0], 3, 3), 0))),
    (of.ANYTHING, (of.load(of.FIELD["tun_id"], 2**64 - 1), of.load(of.FIELD["metadata"], 5))),
    (of.ANYTHING, (of.load(of.VLAN_TCI, 0x1005), of.load(of.FIELD["in_port"], 0))),
    (of.ANYTHING, (of.move(of.FIELD["eth_src"], of.FIELD["eth_dst"]),)),
    (of.ANYTHING, (of.move(REG6, of.Bits(of.REGISTERS[7], 16, 31)),)),
    (of.ANYTHING, (of.PushVlan(), of.set_vlan(7), of.PopVlan())),
    (of.untagged(), (of.PushVlan(0x88A8), of.set_vlan(7), of.set_field("vlan_pcp", 3))),
    (of.vlan(5), (of.PopVlan(), of.normal())),
    (of.ANYTHING, (of.set_field("eth_src", MAC), of.set_field("eth_dst", MAC2))),
    (of.ANYTHING, (of.set_tunnel(7), of.set_field("tun_dst", "192.0.2.1"))),
    (of.ANYTHING, (of.set_field("tun_src", "192.0.2.1"), of.set_field("tun_ipv6_dst", "fe80::1"))),
    (of.ANYTHING, (of.set_field("tun_ipv6_src", "fe80::1"), of.set_field("pkt_mark", 0))),
    (of.ANYTHING, (of.set_field("reg3", 5), of.set_field("metadata", 5))),
    (of.tcp(), (of.set_field("ipv4_src", "10.0.0.1"), of.set_field("tcp_dst", 80))),
    (of.tcp6(), (of.set_field("ipv6_dst", "fe80::1"), of.set_field("tcp_src", 80))),
    (of.udp6(), (of.set_field("udp_dst", 80), of.set_field("ipv6_label", 5))),
    (of.sctp(), (of.set_field("sctp_dst", 80), of.load(of.FIELD["sctp_src"], 80))),
    (of.ipv4(), (of.set_field("ip_dscp", 5), of.set_field("ip_ecn", 1), of.set_field("ip_ttl", 9))),
    (of.ipv4(), (of.load(of.FIELD["ip_dscp"], 5), of.load(of.FIELD["ip_ttl"], 9), of.DecTtl())),
    (of.ipv4(), (of.move(of.FIELD["ipv4_src"], of.FIELD["ipv4_dst"]),)),
    (of.ipv6(), (of.move(of.FIELD["ipv6_src"], of.FIELD["ipv6_dst"]),)),
    (of.arp(), (of.set_field("arp_op", 2), of.set_field("arp_spa", "10.0.0.1"))),
    (of.arp(), (of.move(of.FIELD["arp_sha"], of.FIELD["arp_tha"]), of.load(of.FIELD["arp_op"], 2))),
    (of.arp(), (of.move(of.FIELD["arp_spa"], of.FIELD["arp_tpa"]), of.set_field("arp_sha", MAC))),
    (of.icmp(), (of.set_field("icmp_type", 0), of.set_field("icmp_code", 0))),
    (
        of.icmpv6() & of.icmpv6_type(135),
        (of.set_field("icmpv6_type", 136), of.set_field("nd_target", "fe80::1")),
    ),
    (of.icmpv6() & of.icmpv6_type(136), (of.set_field("nd_tll", MAC),)),
    (of.ipv4(), (of.ct(table=3, zone=5), of.CtClear())),
    (of.ipv4(), (of.ct(commit=True, zone=REG6), of.SetQueue(5))),
    (of.ipv6(), (of.ct(commit=True, force=True, zone=5, nat=of.nat(of.Side.DST, "fe80::1")),)),
    (of.ipv4(), (of.ct(table=0, nat=of.nat()), of.ct())),
    (of.tcp(), (of.ct(commit=True, alg=21),)),
    (of.udp6(), (of.ct(commit=True, alg=69),)),
    (
        of.ipv4(),
        (
            of.ct(
                of.set_field("ct_mark", 5),
                of.set_field("ct_label", 1 << 90),
                of.load(of.FIELD["ct_mark"], 1),
                of.load(of.Bits(of.FIELD["ct_label"], 0, 3), 1),
                of.move(of.REGISTERS[0], of.FIELD["ct_mark"]),
                commit=True,
                table=9,
                zone=REG6,
                nat=of.nat(of.Side.SRC, "10.0.0.1", "10.0.0.9", ports=(100, 200), flags={"random"}),
            ),
        ),
    ),
    (of.ipv4(), (of.ct(commit=True, nat=of.nat(of.Side.SRC)),)),
    (of.ipv4(), (of.ct(commit=True, nat=of.nat(of.Side.DST, "10.0.0.1", ports=80)),)),
    (
        of.ipv4(),
        (of.ct(commit=True, nat=of.nat(of.Side.SRC, "10.0.0.1", flags={"persistent", "hash"})),),
    ),
    (of.ipv6(), (of.ct(commit=True, nat=of.nat(of.Side.DST, "fe80::1", "fe80::2", ports=80)),)),
    (of.ipv6(), (of.ct(commit=True, nat=of.nat(of.Side.DST, "fe80::1", ports=(80, 90))),)),
    (of.ANYTHING, (of.Conjunction(3, 1, 2), of.Conjunction(4, 2, 2))),
    (of.ANYTHING, (of.Note(b"12345678"), of.Conjunction(5, 3, 3))),
    (of.ANYTHING, (of.Conjunction(5, 1, 3), of.Note(b"1"), of.Conjunction(6, 3, 3))),
    (of.conj_id(5), (of.Note(b"a group, ingress"), of.goto(73))),
    (of.ipv4() & of.ct_state("-trk"), (of.ct(table=72, zone=REG6), of.ct(commit=True, zone=REG6))),
    (of.ANYTHING, (of.Note(b"1"), of.Note(b"123456"), of.Note(b"1234567"))),
    (
        of.ANYTHING,
        (
            of.learn(
                20,
                of.learn_match(of.Bits(of.VLAN_TCI, 0, 11)),
                of.learn_match(of.FIELD["eth_dst"], of.FIELD["eth_src"]),
                of.learn_load(of.VLAN_TCI, 0),
                of.learn_load(of.FIELD["tun_id"], of.FIELD["tun_id"]),
                of.learn_output(of.IN_PORT_WIDE),
                priority=1,
                cookie=0x33,
                hard_timeout=300,
                limit=2048,
            ),
            of.output(2),
        ),
    ),
    (
        of.ipv4(),
        (
            of.learn(
                21,
                of.learn_match(of.FIELD["eth_type"], 0x800),
                of.learn_match(of.FIELD["ipv4_src"], of.FIELD["ipv4_dst"]),
                of.learn_match(REG6, 5),
                of.learn_match(of.REGISTERS[1], 7),
                of.learn_match(of.FIELD["eth_src"], 0xFA163E000001),
                of.learn_match(of.FIELD["in_port"], 5),
                of.learn_load(of.REGISTERS[0], of.FIELD["ipv4_src"]),
                of.learn_load(of.REGISTERS[2], 9),
                of.learn_output(REG6),
                idle_timeout=5,
                limit=3,
                result=of.Bits(of.REGISTERS[5], 17, 17),
            ),
        ),
    ),
]


def every_flow() -> list[of.Flow]:
    found = [
        of.Flow(table=1, priority=number, match=match, actions=(of.output(1),), cookie=number)
        for number, match in enumerate(MATCHES)
    ]
    found += [
        of.Flow(table=2, priority=number, match=match, actions=actions)
        for number, (match, actions) in enumerate(ACTIONS)
    ]
    found += [
        of.Flow(table=0, priority=0x8000, match=of.ANYTHING),
        of.Flow(table=0, priority=0x8000, match=of.in_port(1), cookie=2**64 - 2),
        of.Flow(table=3, priority=0xFFFF, match=of.ANYTHING, idle_timeout=605, hard_timeout=609),
        of.Flow(table=253, priority=0, match=of.ANYTHING, hard_timeout=609),
    ]
    return found


def shown(ovs: PrivateOvs, bridge: str, *options: str) -> list[str]:
    """Return what the switch prints for each of its flows."""
    text = ovs.ofctl("-O", "OpenFlow14", "--no-stats", *options, "dump-flows", bridge)
    return [line.strip() for line in text.splitlines()]
