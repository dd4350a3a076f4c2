"""Text of matches and values, as the switch prints them."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping

from netfw.flows.field import FIELD, Form, MatchField
from netfw.flows.match import Match
from netfw.flows.match_builders import CT_FLAGS, FRAGMENTS
from netfw.flows.port_number import RESERVED, narrow_port

__all__ = ["render_match"]

Names = Mapping[int, str]

_ORDER = (
    "pkt_mark", "conj_id", "ct_state", "ct_zone", "ct_mark", "ct_label", "ct_nw_src",
    "ct_ipv6_src", "ct_nw_dst", "ct_ipv6_dst", "ct_nw_proto", "ct_tp_src", "ct_tp_dst", "protocol",
    *(f"reg{number}" for number in range(16)),
    "tun_id", "tun_src", "tun_dst", "tun_ipv6_src", "tun_ipv6_dst", "metadata", "in_port", "tag",
    "eth_src", "eth_dst", "eth_type", "ipv6_src", "ipv6_dst", "ipv6_label", "arp_spa", "arp_tpa",
    "ipv4_src", "ipv4_dst", "arp_op", "ip_proto", "arp_sha", "arp_tha", "ip_dscp", "ip_ecn",
    "ip_ttl", "ip_frag", "icmp_type", "icmp_code", "icmpv6_type", "icmpv6_code", "nd_target",
    "nd_sll", "nd_tll", "tcp_src", "tcp_dst", "udp_src", "udp_dst", "sctp_src", "sctp_dst",
)  # fmt: skip
"""Order in which the switch prints terms; ``protocol`` and ``tag`` are two fields each."""

_NETWORKS = {
    0x0800: "ip",
    0x86DD: "ipv6",
    0x0806: "arp",
    0x8035: "rarp",
    0x8847: "mpls",
    0x8848: "mplsm",
}
_TRANSPORTS = {
    (0x0800, 1): "icmp", (0x0800, 6): "tcp", (0x0800, 17): "udp", (0x0800, 132): "sctp",
    (0x86DD, 58): "icmp6", (0x86DD, 6): "tcp6", (0x86DD, 17): "udp6", (0x86DD, 132): "sctp6",
}  # fmt: skip


def render_match(match: Match, ports: Names | None = None) -> str:
    """Render the terms of *match* as the switch prints them; empty if it matches every packet."""
    left = {where.name: (value, mask) for where, value, mask in match}
    written = {"protocol": _protocol(left), "tag": _tag(left)}
    for name, (value, mask) in left.items():
        written[name] = _term(FIELD[name], value, mask, ports or {})
    return ",".join(text for name in _ORDER if (text := written.get(name)))


def _protocol(left: dict[str, tuple[int, int]]) -> str:
    """Render the protocol shorthand, and remove its fields from *left*."""
    network = left.get("eth_type", (0, 0))[0]
    transport = left.get("ip_proto", (0, 0))[0]
    if name := _TRANSPORTS.get((network, transport)):
        del left["eth_type"], left["ip_proto"]
        return name
    if name := _NETWORKS.get(network):
        del left["eth_type"]
        return name
    return ""


def _tag(left: dict[str, tuple[int, int]]) -> str:
    """Render the match of the VLAN tag as one, and remove its fields from *left*."""
    vid, vid_mask = left.pop("vlan", (0, 0))
    pcp, pcp_mask = left.pop("vlan_pcp", (0, 0))
    if not vid_mask:
        return ""
    if vid & 0x1000 and vid_mask & 0xFFF in (0, 0xFFF) and (vid_mask & 0xFFF or pcp_mask):
        parts = [f"dl_vlan={vid & 0xFFF}"] if vid_mask & 0xFFF else []
        return ",".join([*parts, *([f"dl_vlan_pcp={pcp}"] if pcp_mask else [])])
    return f"vlan_tci={vid | pcp << 13:#06x}/{vid_mask | pcp_mask << 13:#06x}"


def _term(where: MatchField, value: int, mask: int, ports: Names) -> str:
    if writer := _SPECIAL.get(where.name):
        return f"{where.text}={writer(value, mask)}"
    if mask == where.full:
        return f"{where.text}={render_value(where, value, ports)}"
    if where.form is Form.DECIMAL:
        return f"{where.text}={value:#x}/{mask:#x}"
    return f"{where.text}={render_value(where, value, ports)}/{_mask(where, mask)}"


_FRAGMENTS = {pair: kind for kind, pair in FRAGMENTS.items()} | {(0, 1): "no", (2, 2): "later"}
"""Kinds by value and mask; flows of other programs have the last two."""


def _fragment(value: int, mask: int) -> str:
    return _FRAGMENTS.get((value, mask), "<error>")


def _label(value: int, mask: int) -> str:
    return f"{value:#07x}" + ("" if mask == FIELD["ipv6_label"].full else f"/{mask:#07x}")


def _ct_state(value: int, mask: int) -> str:
    if mask == (1 << len(CT_FLAGS)) - 1:
        return "|".join(name for bit, name in enumerate(CT_FLAGS) if value >> bit & 1) or "0"
    return "".join(
        f"{'+' if value >> bit & 1 else '-'}{name}"
        for bit, name in enumerate(CT_FLAGS)
        if mask >> bit & 1
    )


_SPECIAL: Mapping[str, Callable[[int, int], str]] = {
    "ct_state": _ct_state,
    "ip_frag": _fragment,
    "ip_dscp": lambda value, _: str(value << 2),
    "ipv6_label": _label,
}


def _mask(where: MatchField, mask: int) -> str:
    """Render the mask; a prefix of an address is written as its length."""
    if where.form in (Form.IPV4, Form.IPV6):
        prefix = mask.bit_count()
        if mask == (where.full >> prefix) ^ where.full:
            return str(prefix)
    return render_value(where, mask, {})


def render_port(number: int, ports: Names) -> str:
    number = narrow_port(number)
    if number in RESERVED:
        return RESERVED[number]
    name = ports.get(number)
    return str(number) if name is None else _quoted(name)


def _quoted(name: str) -> str:
    plain = name.replace("_", "").replace("-", "").isalnum() and name[0].isalpha()
    return name if plain and "-" not in name else f'"{name}"'


def _hex(value: int) -> str:
    return f"{value:#x}" if value else "0"


def _ipv6(value: int) -> str:
    """Render the address; one with an embedded IPv4 address shows it."""
    if value >> 32 in (0, 0xFFFF) and value >> 16:
        return f"::{'ffff:' if value >> 32 else ''}{ipaddress.IPv4Address(value & 0xFFFFFFFF)}"
    return str(ipaddress.IPv6Address(value))


def _mac(value: int) -> str:
    return value.to_bytes(6, "big").hex(":")


_VALUES: Mapping[Form, Callable[[int], str]] = {
    Form.DECIMAL: str,
    Form.HEX: _hex,
    Form.MAC: _mac,
    Form.IPV4: lambda value: str(ipaddress.IPv4Address(value)),
    Form.IPV6: _ipv6,
    Form.ETHERTYPE: lambda value: f"{value:#06x}",
}


def render_value(where: MatchField, value: int, ports: Names) -> str:
    """Render a value of the field *where*, as the switch prints it."""
    if where.form is Form.PORT:
        return render_port(value, ports)
    return _VALUES[where.form](value)
