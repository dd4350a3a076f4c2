"""Matches, actions and flows are checked where they are made."""

import ipaddress
import subprocess
import sys

import pytest

from netfw import flows as of

NETWORK = of.RegisterField(6, 0, 15, "network")


def flow(match: of.Match, *actions: of.Action) -> of.Flow:
    return of.Flow(table=3, priority=1, match=match, actions=actions)


def test_a_match_does_not_depend_on_the_order_it_is_written_in() -> None:
    one = of.tcp() & of.tcp_dst(80) & of.in_port(5) & of.ct_state("+trk-est")
    two = of.ct_state("-est+trk") & of.in_port(5) & of.tcp_dst(80) & of.tcp()
    assert one == two
    assert hash(one) == hash(two)
    assert (
        str(flow(one))
        == "table=3, priority=1,ct_state=-est+trk,tcp,in_port=5,tp_dst=80 actions=drop"
    )


def test_addresses_may_be_text_or_values() -> None:
    network = ipaddress.ip_network("10.0.0.0/8")
    assert of.ipv4_src("10.0.0.0/8") == of.ipv4_src(network)
    assert of.ipv6_dst("fe80::1") == of.ipv6_dst(ipaddress.ip_address("fe80::1"))
    assert of.ip_src("fe80::1") == of.ipv6() & of.ipv6_src("fe80::1")


def test_fields_of_one_register_are_matched_together() -> None:
    high = of.RegisterField(6, 16, 31, "other")
    match = NETWORK.is_(5) & high.is_(7)
    assert match == of.register(6, 7 << 16 | 5)
    assert match.get("reg6") == (7 << 16 | 5, 0xFFFFFFFF)
    assert match.get("reg7") is None


def test_nothing_matches_everything() -> None:
    assert not of.ANYTHING
    assert of.ANYTHING & of.vlan(5) == of.vlan(5) == of.vlan(5) & of.ANYTHING


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: of.in_port(1) & of.in_port(2), "in_port cannot be 0x1 and 0x2"),
        (lambda: of.ct_state("+trk") & of.ct_state("-trk"), "ct_state cannot be"),
        (lambda: of.in_port(0), "ports 1 to 65279, LOCAL or CONTROLLER, not 0"),
        (lambda: of.in_port(0xFF00), "not 65280"),
        (lambda: of.vlan(4096), "12 bits"),
        (lambda: of.register(6, 1 << 32), "32 bits"),
        (lambda: of.register(6, 5, 4), "bits outside of its mask"),
        (lambda: of.register(6, 0, 0), "does not fit"),
        (lambda: of.eth_type(5, 0xFF), "exactly or not at all"),
        (lambda: of.arp_op(300), "at most 255"),
        (lambda: of.ct_nw_proto(0), "at least 1"),
        (lambda: of.eth_src("fa:16:3e"), "not a MAC address"),
        (lambda: of.ipv4_src("fe80::1"), "takes IPv4"),
        (lambda: of.ipv4_src("10.0.0.1/8"), "has host bits set"),
        (lambda: of.ct_state("trk"), "written like"),
        (lambda: of.ct_state("+trk+trk"), "written like"),
        (lambda: of.ct_state("+up"), "no such connection state: up"),
        (lambda: of.ip_frag("some"), "fragments are"),
        (lambda: NETWORK.is_(1 << 16), "does not fit"),
        (lambda: of.RegisterField(16, 0, 1, ""), "registers 0 to 15"),
        (lambda: of.RegisterField(6, 16, 32, ""), r"bits 0\.\.31, not 16\.\.32"),
    ],
)
def test_a_match_that_cannot_be_is_refused(make, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (of.tcp_dst(80), r"tcp_dst is matched without what it needs: add tcp\(\) or tcp6\(\)"),
        (of.udp() & of.tcp_dst(80), "tcp_dst"),
        (of.ipv4_src("10.0.0.1"), "ipv4_src"),
        (of.ipv6() & of.ipv4_src("10.0.0.1"), "ipv4_src"),
        (of.ip_proto(6), "ip_proto"),
        (of.vlan_pcp(3), r"vlan\(\) or tagged\(\)"),
        (of.untagged() & of.vlan_pcp(3), "vlan_pcp"),
        (of.icmpv6() & of.nd_target("fe80::1"), r"icmpv6_type\(135\)"),
        (of.tcp() & of.ip_frag("later") & of.tcp_dst(80), "not there in later fragments"),
        (of.ct_state("+est") & of.ct_nw_src("10.0.0.1"), r"ct_nw_src .*ipv4\(\)"),
        (of.ipv4() & of.ct_state("+est") & of.ct_ipv6_dst("fe80::1"), r"ct_ipv6_dst .*ipv6\(\)"),
        (of.ipv4() & of.ct_state("+est") & of.ct_tp_dst(80), r"ct_tp_dst .*ct_nw_proto\(\)"),
        (of.ipv4() & of.ct_nw_dst("10.0.0.1"), r"ct_nw_dst .*add ct_state\('\+trk-inv'\)"),
        (of.ipv4() & of.ct_state("+trk") & of.ct_nw_proto(6), "ct_nw_proto .*add ct_state"),
        (of.ipv4() & of.ct_state("-inv") & of.ct_nw_proto(6), "ct_nw_proto .*add ct_state"),
    ],
)
def test_a_flow_says_which_prerequisite_its_match_lacks(match: of.Match, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        flow(match)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: of.load(NETWORK, 1 << 16), "does not fit into NXM_NX_REG6"),
        (lambda: of.load(of.FIELD["ct_label"], 1), "up to 64 bits"),
        (lambda: of.load(of.FIELD["ct_zone"], 1), "cannot be set"),
        (lambda: of.move(NETWORK, of.REGISTERS[1]), "same width"),
        (lambda: of.move(of.REGISTERS[1], of.FIELD["conj_id"]), "cannot be set"),
        (lambda: of.set_field("in_port", 5), "by load"),
        (lambda: of.set_field("eth_type", 5), "cannot be set"),
        (lambda: of.set_field("vlan_pcp", 8), "does not fit"),
        (lambda: of.set_vlan(4096), "12 bits"),
        (lambda: of.output(0), "ports 1 to 65279 or a reserved one"),
        (lambda: of.output(of.CONTROLLER), r"controller\(\)"),
        (lambda: of.goto(254), "tables 0 to 253"),
        (lambda: of.PushVlan(0x800), "0x8100 or 0x88a8"),
        (lambda: of.Conjunction(1, 3, 2), "no such clause"),
        (lambda: of.Meter(0), "number of a meter"),
        (lambda: of.ct(zone=1 << 16), "16 bits"),
        (lambda: of.ct(zone=of.REGISTERS[6]), "has 32"),
        (lambda: of.ct(force=True), "only commit"),
        (lambda: of.ct(of.set_field("reg1", 1), commit=True), "ct_mark and ct_label"),
        (lambda: of.ct(commit=True, alg=80), "FTP"),
        (lambda: of.nat(None, "10.0.0.1"), "which side"),
        (lambda: of.nat(of.Side.SRC, ports=5), "together with an address"),
        (lambda: of.nat(of.Side.SRC, "10.0.0.2", "10.0.0.1"), "range of addresses"),
        (lambda: of.nat(of.Side.SRC, "10.0.0.2", ports=(5, 4)), "range of ports"),
        (lambda: of.nat(of.Side.SRC, "10.0.0.2", flags={"hash", "random"}), "hash or random"),
        (lambda: of.learn_load(NETWORK, 1 << 16), "does not fit"),
        (lambda: of.learn_match(NETWORK, of.REGISTERS[1]), "same width"),
        (lambda: of.learn(254), "tables 0 to 253"),
        (lambda: of.learn(1, result=of.Bits(of.REGISTERS[1], 3, 3)), "needs a limit"),
        (lambda: of.learn(1, limit=2, result=of.REGISTERS[1]), "one bit"),
    ],
)
def test_an_action_that_cannot_be_is_refused(make, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: flow(of.ANYTHING, of.set_field("tcp_dst", 5)), r"set_field:5->tcp_dst needs"),
        (lambda: flow(of.ANYTHING, of.ct()), r"ct\(\) needs a match on ipv4\(\) or ipv6\(\)"),
        (lambda: flow(of.ANYTHING, of.DecTtl()), "dec_ttl needs"),
        (lambda: flow(of.ANYTHING, of.PopVlan()), "pop_vlan needs"),
        (lambda: flow(of.vlan(5), of.PopVlan(), of.PopVlan()), "pop_vlan needs"),
        (
            lambda: flow(of.ipv6(), of.ct(commit=True, nat=of.nat(of.Side.SRC, "10.0.0.1"))),
            "needs a match on ipv4",
        ),
        (lambda: flow(of.ipv4(), of.ct(commit=True, alg=21)), "needs a match on tcp"),
        (lambda: flow(of.ANYTHING, of.Conjunction(1, 1, 2), of.output(1)), "stands alone"),
        (lambda: flow(of.ANYTHING, of.output(1), of.Meter(1)), "first thing"),
        (lambda: flow(of.ANYTHING, of.goto_table(5), of.output(1)), "last thing"),
        (lambda: flow(of.ANYTHING, of.goto_table(3)), "higher number than 3"),
        (lambda: of.Flow(table=254, priority=1, match=of.ANYTHING), "no such table"),
        (lambda: of.Flow(table=1, priority=1 << 16, match=of.ANYTHING), "or priority"),
        (lambda: of.Flow(table=1, priority=1, match=of.ANYTHING, cookie=2**64 - 1), "cookie"),
        (lambda: of.Flow(table=1, priority=1, match=of.ANYTHING, hard_timeout=1 << 16), "timeouts"),
    ],
)
def test_a_flow_that_the_switch_would_refuse_is_refused_here(make, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


def test_what_the_switch_would_change_is_changed_at_once() -> None:
    assert of.Note(b"1") == of.Note(b"1\0\0\0\0\0")
    assert of.nat(of.Side.SRC, "10.0.0.1", "10.0.0.1") == of.nat(of.Side.SRC, "10.0.0.1")
    assert of.nat(of.Side.SRC, "10.0.0.1", ports=(5, 5)) == of.nat(of.Side.SRC, "10.0.0.1", ports=5)


def test_a_tag_that_was_pushed_can_be_set_and_popped() -> None:
    actions = (of.PushVlan(), of.set_vlan(5), of.PopVlan())
    assert flow(of.ANYTHING, *actions).actions == actions


@pytest.mark.slow
def test_flows_need_neither_the_switch_nor_its_libraries() -> None:
    code = "import sys, netfw.flows, netfw.ovs.openflow; print('os_ken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False\n"


@pytest.mark.parametrize(
    ("value", "mask", "text"),
    [
        (0, 3, "no"), (1, 3, "first"), (3, 3, "later"), (2, 3, "<error>"),
        (0, 1, "no"), (1, 1, "yes"), (0, 2, "not_later"), (2, 2, "later"),
    ],
)  # fmt: skip
def test_fragments_of_any_mask_read_as_the_switch_prints_them(
    value: int, mask: int, text: str
) -> None:
    match = of.ipv4() & of.matching(of.FIELD["ip_frag"], value, mask)
    assert str(match) == f"ip,nw_frag={text}"


def test_a_match_reads_as_the_switch_prints_it() -> None:
    match = of.tcp() & of.in_port(5) & of.tcp_dst(80)
    assert str(match) == "tcp,in_port=5,tp_dst=80"
    assert str(of.ANYTHING) == "anything"
