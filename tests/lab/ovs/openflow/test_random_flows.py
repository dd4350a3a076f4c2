"""Random flows: the switch shows what they say, and os-ken reads the same bytes."""

from collections import Counter
from struct import pack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netfw import flows as of
from netfw.ovs.openflow import OpenFlow, difference, encode_flows
from netfw.testing.lab.openvswitch import PrivateOvs
from tests.lab.ovs.openflow.every_flow import BELONGS, every_flow, shown


def masked(where: of.MatchField) -> st.SearchStrategy[of.Match]:
    """Return any exact match of a field, and any masked one if the field is maskable."""
    exact = st.integers(0, where.highest).map(lambda value: of.matching(where, value))
    if not where.maskable:
        return exact
    some = st.tuples(st.integers(0, where.full), st.integers(1, where.full))
    return exact | some.map(lambda pair: of.matching(where, pair[0] & pair[1], pair[1]))


def fields(*names: str) -> dict[str, st.SearchStrategy[of.Match]]:
    return {name: masked(of.FIELD[name]) for name in names}


CT_STATE = st.dictionaries(
    st.sampled_from(["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"]),
    st.sampled_from("+-"),
    min_size=1,
).map(lambda flags: of.ct_state("".join(sign + name for name, sign in flags.items())))

GENERAL = {
    **fields("eth_src", "eth_dst", "tun_id", "tun_src", "tun_dst", "metadata", "pkt_mark"),
    **fields("conj_id", "ct_zone", "ct_mark", "ct_label", *(f"reg{n}" for n in range(16))),
    "ct_state": CT_STATE,
    "in_port": st.integers(1, 0xFEFF).map(of.in_port),
    "vlan": st.tuples(st.integers(0, 0xFFF), st.integers(0, 0xFFF)).map(
        lambda pair: of.vlan(pair[0] & pair[1], pair[1])
    )
    | st.sampled_from([of.tagged(), of.untagged()]),
}
IP = fields("ip_dscp", "ip_ecn", "ip_ttl")
OPENED = {
    "ct_state": st.sampled_from(["+trk-inv", "+new", "+est", "+rel", "+rpl"]).map(of.ct_state),
    **fields("ct_tp_src", "ct_tp_dst"),
}
V4, V6 = fields("ipv4_src", "ipv4_dst"), fields("ipv6_src", "ipv6_dst", "ipv6_label")
PROTOCOLS = [
    (of.ANYTHING, {}),
    (of.arp(), fields("arp_op", "arp_spa", "arp_tpa", "arp_sha", "arp_tha")),
    (of.ipv4(), {**IP, **V4}),
    (of.ipv6(), {**IP, **V6}),
    (of.tcp(), {**IP, **V4, **fields("tcp_src", "tcp_dst")}),
    (of.udp(), {**IP, **V4, **fields("udp_src", "udp_dst")}),
    (of.sctp(), {**IP, **V4, **fields("sctp_src", "sctp_dst")}),
    (of.icmp(), {**IP, **V4, **fields("icmp_type", "icmp_code")}),
    (of.tcp6(), {**IP, **V6, **fields("tcp_src", "tcp_dst")}),
    (of.icmpv6() & of.icmpv6_type(135), {**IP, **V6, **fields("nd_target", "nd_sll")}),
    (
        of.ipv4() & BELONGS & of.ct_nw_proto(6),
        {**IP, **V4, **OPENED, **fields("ct_nw_src", "ct_nw_dst")},
    ),
    (
        of.udp6() & BELONGS & of.ct_nw_proto(17),
        {**IP, **V6, **OPENED, **fields("ct_ipv6_src", "ct_ipv6_dst")},
    ),
]


@st.composite
def random_match(draw: st.DrawFn) -> of.Match:
    base, own = draw(st.sampled_from(PROTOCOLS))
    choices = {**GENERAL, **own}
    names = draw(st.lists(st.sampled_from(sorted(choices)), unique=True, max_size=8))
    for name in names:
        base &= draw(choices[name])
    return base


@st.composite
def random_bits(draw: st.DrawFn, most: int = 64) -> of.Bits:
    where = draw(st.sampled_from([*of.REGISTERS, *(of.FIELD[n] for n in ("tun_id", "metadata"))]))
    first = draw(st.integers(0, where.nxm_width - 1))
    return of.Bits(where, first, draw(st.integers(first, min(where.nxm_width, first + most) - 1)))


@st.composite
def random_action(draw: st.DrawFn) -> of.Action:
    bits = draw(random_bits())
    value = draw(st.integers(0, (1 << bits.width) - 1))
    return draw(
        st.sampled_from(
            [
                of.load(bits, value),
                of.goto(value % 254),
                of.output(value % 0xFEFF + 1),
                of.output(bits),
                of.set_tunnel(value),
                of.set_field("eth_dst", value % (1 << 48)),
                of.Note(value.to_bytes(8, "big")),
                of.controller(value % 0xFFFF, userdata=value.to_bytes(8, "big")[-(value % 9) :]),
                of.SetQueue(value % 0xFFFF),
                of.move(bits, bits),
                of.learn(
                    value % 250,
                    of.learn_match(bits),
                    of.learn_match(bits, value),
                    of.learn_load(bits, value),
                    of.learn_load(bits, bits),
                    cookie=value,
                    priority=value % 0xFFFF,
                    idle_timeout=value % 0xFFFF,
                    limit=value % 3,
                ),
            ]
        )
    )


random_flow = st.builds(
    of.Flow,
    table=st.integers(0, 253),
    priority=st.integers(0, 0xFFFF),
    match=random_match(),
    actions=st.lists(random_action(), max_size=4).map(tuple),
    cookie=st.integers(0, 2**64 - 2),
    idle_timeout=st.just(0) | st.integers(600, 0xFFFF),
    hard_timeout=st.just(0) | st.integers(600, 0xFFFF),
)


@pytest.mark.spec("DRV-47", "L2-20")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(random_flow, min_size=30, max_size=60, unique_by=lambda flow: flow.identity))
def test_whatever_can_be_said_is_what_the_switch_shows(
    ovs: PrivateOvs, bridge: str, client: OpenFlow, flows: list[of.Flow]
) -> None:
    wanted = encode_flows(flows)
    client.commit(difference({}, client.flows()))
    client.commit(difference(wanted, client.flows()))
    found, expected = Counter(shown(ovs, bridge)), Counter(map(of.render_flow, flows))
    assert list(found - expected) == []
    assert list(expected - found) == []
    assert not difference(wanted, client.flows())


@pytest.mark.parametrize("flow", every_flow(), ids=str)
def test_os_ken_reads_and_writes_the_same_bytes(flow: of.Flow) -> None:
    from os_ken.ofproto import ofproto_v1_4_parser as parser

    from netfw.ovs import osken  # noqa: F401 - it corrects what os-ken cannot read

    (encoded,) = encode_flows([flow]).values()
    fields = encoded.key[3:]
    framed = pack("!HH", 1, 4 + len(fields)) + fields + bytes(-(4 + len(fields)) % 8)
    again = bytearray()
    parsed = parser.OFPMatch.parser(framed, 0)
    parsed.serialize(again, 0)
    assert bytes(again) == framed
    instructions, position = encoded.state[12:], 0
    while position < len(instructions):
        instruction = parser.OFPInstruction.parser(instructions, position)
        again = bytearray()
        instruction.serialize(again, 0)
        assert bytes(again) == instructions[position : position + instruction.len]
        position += instruction.len
