"""Lines of the packet log: every drop names the port, the groups and what was missing."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.model.packet_log import LogEvent
from netfw.model.security_group import Direction, Ethertype
from netfw.model.values.ids import AddressGroupId
from netfw.model.values.protocol import ICMP, TCP, UDP
from netfw.ovs.openflow.packets import PacketIn
from netfw_drivers.ovs.packet_log.plan.explanation import (
    ESTABLISHED,
    INVALID,
    TRACKED,
    PacketState,
    explain,
    render_line,
)
from netfw_drivers.ovs.packet_log.plan.frames import parse_frame
from netfw_drivers.ovs.packet_log.plan.log_subject import (
    MAX_OCTETS,
    LogSubject,
    decode_subject,
    encode_subject,
    make_subject,
)
from netfw_drivers.ovs.packet_log.writer import packet_line
from tests.unit.backends.ovs.packet_log.samples import (
    ARP,
    GROUP,
    OTHER,
    PORT,
    ipv4,
    ipv6,
    log,
    rule,
    tcp,
)

pytestmark = pytest.mark.spec("FW-14")

DROP, ACCEPT = LogEvent.DROP, LogEvent.ACCEPT
INGRESS, EGRESS = Direction.INGRESS, Direction.EGRESS
WEB = {"protocol": TCP, "port_min": 80, "port_max": 90}
JUDGED = PacketState(has_policy=True)
NO_RULE = "no ingress rule of the port's groups allows it"


def subject(*rules: Any, action: LogEvent = DROP, direction: Direction = INGRESS) -> LogSubject:
    return make_subject(PORT, [log()], rules, action, direction)


def why(logged: LogSubject, data: bytes, state: PacketState = JUDGED) -> str:
    frame = parse_frame(data)
    assert frame is not None
    return explain(logged, frame, state)


def test_a_line_has_the_port_the_decision_and_the_packet() -> None:
    frame = parse_frame(ipv4(TCP, tcp(22)))
    assert frame is not None
    line = render_line(subject(rule(**WEB)), frame, JUDGED)
    assert line == (
        f'action=DROP direction=ingress port={PORT.id} project="alice" logs={log().id} '
        f"groups={GROUP} eth_src=fa:16:3e:00:00:02 eth_dst=fa:16:3e:00:00:01 protocol=tcp "
        f'src=10.0.0.9 dst=10.0.0.1 src_port=4000 dst_port=22 reason="{NO_RULE}"'
    )


def test_text_of_requests_cannot_begin_a_line() -> None:
    logged = evolve(subject(), project='x" \n2030 action=ACCEPT')
    frame = parse_frame(ARP)
    assert frame is not None
    line = render_line(logged, frame, JUDGED)
    assert "\n" not in line
    assert r'project="x\" \n2030 action=ACCEPT"' in line


@pytest.mark.parametrize(
    ("match", "data", "is_allowed"),
    [
        (WEB, ipv4(TCP, tcp(80)), True),
        (WEB, ipv4(TCP, tcp(91)), False),
        (WEB, ipv4(UDP, tcp(80)), False),
        (WEB, ipv6(TCP, tcp(80)), False),
        (WEB, ipv4(TCP, b"", fragment=100), True),
        (WEB | {"ethertype": Ethertype.IPV6}, ipv6(TCP, tcp(90)), True),
        (WEB | {"ethertype": Ethertype.IPV6}, ipv6(60, pack("!BB6x", TCP, 0) + tcp(80)), True),
        (WEB | {"ethertype": Ethertype.IPV6}, ipv6(60, pack("!BB6x", TCP, 0) + tcp(70)), False),
        ({"remote_prefix": "10.0.0.0/29"}, ipv4(TCP, tcp(80)), False),
        ({"remote_prefix": "10.0.0.0/24"}, ipv4(TCP, tcp(80)), True),
        ({}, ipv4(132, b""), True),
        ({"protocol": ICMP, "port_min": 8, "port_max": 0}, ipv4(ICMP, b"\10\0"), True),
        ({"protocol": ICMP, "port_min": 8}, ipv4(ICMP, b"\0\0"), False),
        ({"protocol": ICMP}, ipv4(ICMP, b"\0\0"), True),
    ],
)
def test_an_accepted_packet_names_its_rule(
    match: dict[str, Any], data: bytes, is_allowed: bool
) -> None:
    allowed, other = rule(**match), rule(22, protocol=UDP, port_min=9, port_max=9)
    logged = subject(allowed, other, rule(23, EGRESS), action=ACCEPT)
    line = packet_line(PacketIn(1, data, encode_subject(logged)))
    if is_allowed:
        assert line is not None
        assert line.endswith(f'reason="allowed by rule {allowed.id} of group {GROUP}"')
    else:
        assert line is None, "what passes without a rule is not logged"


def test_rules_with_remote_groups_are_candidates() -> None:
    by_group = rule(22, **WEB, remote_group_id=OTHER)
    by_addresses = rule(23, **WEB, remote_address_group_id=AddressGroupId(OTHER))
    logged = subject(rule(21, protocol=UDP), by_group, by_addresses)
    near = why(logged, ipv4(TCP, tcp(80)))
    assert near == (
        f"{NO_RULE}; rule {by_group.id} of group {GROUP} would, if 10.0.0.9 were in security "
        f"group {OTHER}; rule {by_addresses.id} of group {GROUP} would, if 10.0.0.9 were in "
        f"address group {OTHER}"
    )
    assert why(logged, ipv4(TCP, tcp(70))) == NO_RULE
    accepted = why(evolve(logged, action=ACCEPT), ipv4(TCP, tcp(80)))
    assert accepted == (
        f"allowed by rule {by_group.id} of group {GROUP} or rule {by_addresses.id} of group {GROUP}"
    )


@pytest.mark.parametrize(
    ("data", "state", "reason"),
    [
        (ipv4(TCP, tcp(80)), PacketState(ct_state=INVALID | TRACKED), "invalid: "),
        (
            ipv4(TCP, tcp(80)),
            PacketState(ct_state=ESTABLISHED | TRACKED, has_policy=True),
            "no rule allows the connection that it belongs to any more",
        ),
        (ipv4(TCP, tcp(80)), PacketState(), "its source MAC or IP address is not that of the port"),
        (ipv4(UDP, tcp(68, 67)), PacketState(), "only DHCP servers may send this"),
        (ipv6(UDP, tcp(546, 547)), PacketState(), "only DHCP servers may send this"),
        (ipv6(58, b"\x86\0"), PacketState(), "only routers may send this"),
        (ARP, PacketState(), "it claims or probes for addresses that are not those of the port"),
    ],
)
def test_a_dropped_packet_names_its_reason(data: bytes, state: PacketState, reason: str) -> None:
    assert why(subject(direction=EGRESS), data, state).startswith(reason)


@pytest.mark.parametrize("state", [PacketState(), JUDGED])
def test_a_frame_that_no_rule_can_allow_names_that_as_its_reason(state: PacketState) -> None:
    lldp = ARP[:12] + pack("!H", 0x88CC) + bytes(46)
    reason = "no port receives this without a rule, and rules are for IPv4 and IPv6 alone"
    assert why(subject(), lldp, state) == reason


def test_a_port_without_groups_is_named() -> None:
    logged = evolve(subject(), groups=())
    assert why(logged, ipv4(TCP, tcp(80))).startswith("the port is in no security group")


def test_a_subject_travels_with_the_packet() -> None:
    logged = subject(rule(21, **WEB, remote_prefix="10.0.0.0/8"), rule(22, remote_group_id=OTHER))
    assert decode_subject(encode_subject(logged)) == logged


def test_rules_that_do_not_fit_are_left_out() -> None:
    many = [rule(1000 + n, protocol=TCP, port_min=n, port_max=n) for n in range(1, 5000)]
    logged = subject(*many, action=ACCEPT)
    data = encode_subject(logged)
    assert len(data) <= MAX_OCTETS
    assert decode_subject(data) == evolve(logged, rules=None)
    line = packet_line(PacketIn(1, ipv4(TCP, tcp(80)), data))
    assert line is not None
    assert "too many rules to name" in line


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_packet_and_no_bytes_of_a_flow_raise(data: bytes, userdata: bytes) -> None:
    packet_line(PacketIn(1, data, userdata))
    packet_line(PacketIn(1, data, encode_subject(subject())))
    for whole in (ARP, ipv4(TCP, tcp(80)), ipv6(60, pack("!BB6x", 44, 0) + bytes(8) + tcp(1))):
        cut = whole[: len(data)]
        packet_line(PacketIn(1, cut, encode_subject(subject(rule()))))
