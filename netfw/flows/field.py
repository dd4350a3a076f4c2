"""The fields of a packet and its metadata that flows match and change.

``FIELDS`` is in the order in which Open vSwitch itself puts fields on the wire, so that the bytes
that netfw sends equal those of a dump.  A field's position in it is its ``index``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from attrs import evolve, frozen

__all__ = [
    "FIELD",
    "FIELDS",
    "IN_PORT_WIDE",
    "ND_OPTIONS_TYPE",
    "ND_RESERVED",
    "REGISTERS",
    "VLAN_TCI",
    "Bits",
    "MatchField",
]

NXM, NX, OXM = 0x0000, 0x0001, 0x8000
"""Classes of field numbers: the switch's first, its extensions, and OpenFlow's own."""


class Form(enum.Enum):
    """Text format of a value."""

    DECIMAL = enum.auto()
    HEX = enum.auto()
    PORT = enum.auto()
    MAC = enum.auto()
    IPV4 = enum.auto()
    IPV6 = enum.auto()
    ETHERTYPE = enum.auto()


@frozen
class Need:
    """A prerequisite: the named field is matched with one of these values."""

    name: str
    values: frozenset[int]
    hint: str = ""

    def __str__(self) -> str:
        return self.hint


def _bytes(width: int) -> int:
    """Return the number of bytes for *width* bits: 1, 2, 4, 6, 8 or 16, never 3."""
    return 4 if width == 20 else (width + 7) // 8


@frozen(kw_only=True, eq=False)
class MatchField:
    """One field: its names, its width in bits, its numbers on the wire, and its prerequisites.

    ``name`` is ours, ``text`` what a dump calls it in matches, ``set_name`` in ``set_field``, and
    ``header`` in ``load``.  ``oxm`` is its number in matches and ``set_field``; ``nxm`` the one in
    ``load``, ``move`` and ``learn``, where the switch prefers its older numbers.
    """

    name: str
    text: str
    set_name: str
    header: str
    width: int
    oxm: tuple[int, int]
    nxm: tuple[int, int]
    nxm_width: int
    form: Form
    maskable: bool
    settable: bool
    needs: Need | None
    tracked: bool = False
    """Whether only packets that belong to a connection have it."""
    index: int = -1

    @property
    def highest(self) -> int:
        """The highest value; the switch has eight bits for the operation of ARP."""
        return 0xFF if self.name == "arp_op" else self.full

    @property
    def lowest(self) -> int:
        """The lowest value; the switch drops a match for 0 as a connection's protocol."""
        return 1 if self.name == "ct_nw_proto" else 0

    @property
    def full(self) -> int:
        """The mask of an exact match."""
        return (1 << self.width) - 1

    @property
    def size(self) -> int:
        """Bytes on the wire in a match."""
        return _bytes(self.width)

    @property
    def nxm_size(self) -> int:
        """Bytes on the wire in ``load``, ``move`` and ``learn``."""
        return _bytes(self.nxm_width)

    def __repr__(self) -> str:
        return f"<field {self.name}>"


@frozen
class Bits:
    """A range of bits of a field, both ends included; what ``load`` and ``move`` work on."""

    field: MatchField
    first: int
    last: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.first <= self.last < self.field.nxm_width:
            raise ValueError(
                f"{self.field.name} has bits 0..{self.field.nxm_width - 1}, "
                f"not {self.first}..{self.last}"
            )

    @property
    def width(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        if self.width == self.field.nxm_width:
            return f"{self.field.header}[]"
        if self.width == 1:
            return f"{self.field.header}[{self.first}]"
        return f"{self.field.header}[{self.first}..{self.last}]"


IPV4_TYPE, ARP_TYPE, RARP_TYPE, IPV6_TYPE = 0x0800, 0x0806, 0x8035, 0x86DD
ICMP_PROTO, TCP_PROTO, UDP_PROTO, ICMPV6_PROTO, SCTP_PROTO = 1, 6, 17, 58, 132
SOLICITATION, ADVERTISEMENT = 135, 136

_V4 = Need("eth_type", frozenset({IPV4_TYPE}), "ipv4(), tcp(), udp(), sctp() or icmp()")
_V6 = Need("eth_type", frozenset({IPV6_TYPE}), "ipv6(), tcp6(), udp6(), sctp6() or icmpv6()")
_IP = Need("eth_type", frozenset({IPV4_TYPE, IPV6_TYPE}), "ipv4() or ipv6()")
_ARP = Need("eth_type", frozenset({ARP_TYPE, RARP_TYPE}), "arp()")
_TCP = Need("ip_proto", frozenset({TCP_PROTO}), "tcp() or tcp6()")
_UDP = Need("ip_proto", frozenset({UDP_PROTO}), "udp() or udp6()")
_SCTP = Need("ip_proto", frozenset({SCTP_PROTO}), "sctp() or sctp6()")
_ICMP = Need("ip_proto", frozenset({ICMP_PROTO}), "icmp()")
_ICMPV6 = Need("ip_proto", frozenset({ICMPV6_PROTO}), "icmpv6()")
_ND = Need(
    "icmpv6_type", frozenset({SOLICITATION, ADVERTISEMENT}), "icmpv6_type(135) or icmpv6_type(136)"
)
_NS = Need("icmpv6_type", frozenset({SOLICITATION}), "icmpv6_type(135)")
_NA = Need("icmpv6_type", frozenset({ADVERTISEMENT}), "icmpv6_type(136)")
_CT_PROTO = Need("ct_nw_proto", frozenset(range(1, 256)), "ct_nw_proto()")
_TAG = Need("vlan", frozenset(range(0x1000, 0x2000)), "vlan() or tagged()")


def _field(  # noqa: PLR0917 - one row of the table below
    name: str,
    header: str,
    width: int,
    oxm: tuple[int, int],
    nxm: tuple[int, int] | None = None,
    form: Form = Form.DECIMAL,
    *,
    text: str = "",
    set_name: str = "",
    nxm_width: int = 0,
    maskable: bool = False,
    settable: bool = True,
    needs: Need | None = None,
    tracked: bool = False,
) -> MatchField:
    return MatchField(
        name=name, text=text or name, set_name=set_name or name, header=header, width=width,
        oxm=oxm, nxm=nxm or oxm,
        nxm_width=nxm_width or width, form=form, maskable=maskable, settable=settable, needs=needs,
        tracked=tracked,
    )  # fmt: skip


def _mac(  # noqa: PLR0917
    name: str, header: str, oxm: int, nxm: tuple[int, int], text: str, n: Need | None
) -> MatchField:
    return _field(name, header, 48, (OXM, oxm), nxm, Form.MAC, text=text, maskable=True, needs=n)


def _v4(name: str, header: str, oxm: int, nxm: int, text: str, n: Need) -> MatchField:  # noqa: PLR0917
    return _field(name, header, 32, (OXM, oxm), (NXM, nxm), Form.IPV4, text=text,
                  set_name=name.replace("ipv4", "ip"), maskable=True, needs=n)  # fmt: skip


def _v6(name: str, header: str, oxm: int, nxm: int, n: Need) -> MatchField:
    return _field(name, header, 128, (OXM, oxm), (NX, nxm), Form.IPV6, maskable=True, needs=n)


def _l4(name: str, header: str, oxm: int, nxm: int | None, text: str, n: Need) -> MatchField:  # noqa: PLR0917
    number = None if nxm is None else (NXM, nxm)
    return _field(name, header, 16, (OXM, oxm), number, text=text, maskable=True, needs=n)


def _type(name: str, header: str, oxm: int, nxm: tuple[int, int], text: str, n: Need) -> MatchField:  # noqa: PLR0917
    return _field(name, header, 8, (OXM, oxm), nxm, text=text, needs=n)


def _meta(name: str, header: str, width: int, number: int, form: Form = Form.HEX) -> MatchField:
    return _field(name, header, width, (NX, number), None, form, maskable=True)


def _opened(name: str, width: int, number: int, form: Form, n: Need | None) -> MatchField:
    """Make a field of the packet that opened the connection, in either direction."""
    header, maskable = f"NXM_NX_{name.upper()}", width > 8
    return _field(name, header, width, (NX, number), None, form, maskable=maskable, settable=False,
                  needs=n, tracked=True)  # fmt: skip


def _numbered(fields: Iterable[MatchField]) -> tuple[MatchField, ...]:
    return tuple(evolve(item, index=index) for index, item in enumerate(fields))


FIELDS = _numbered(
    [
        _field("conj_id", "NXM_NX_CONJ_ID", 32, (NX, 37), settable=False),
        _field("in_port", "NXM_OF_IN_PORT", 32, (OXM, 0), (NXM, 0), Form.PORT, nxm_width=16),
        _mac("eth_src", "NXM_OF_ETH_SRC", 4, (NXM, 2), "dl_src", None),
        _mac("eth_dst", "NXM_OF_ETH_DST", 3, (NXM, 1), "dl_dst", None),
        _field("eth_type", "NXM_OF_ETH_TYPE", 16, (OXM, 5), (NXM, 3), Form.ETHERTYPE,
               text="dl_type", settable=False),
        _field("vlan", "OXM_OF_VLAN_VID", 13, (OXM, 6), nxm_width=12, maskable=True, text="dl_vlan",
               set_name="vlan_vid"),
        _field("vlan_pcp", "OXM_OF_VLAN_PCP", 3, (OXM, 7), text="dl_vlan_pcp", needs=_TAG),
        _v4("ipv4_src", "NXM_OF_IP_SRC", 11, 7, "nw_src", _V4),
        _v4("ipv4_dst", "NXM_OF_IP_DST", 12, 8, "nw_dst", _V4),
        _v6("ipv6_src", "NXM_NX_IPV6_SRC", 26, 19, _V6),
        _v6("ipv6_dst", "NXM_NX_IPV6_DST", 27, 20, _V6),
        _field("ip_frag", "NXM_NX_IP_FRAG", 2, (NX, 26), text="nw_frag",
               maskable=True, settable=False, needs=_IP),
        _field("ip_dscp", "OXM_OF_IP_DSCP", 6, (OXM, 8), text="nw_tos", needs=_IP),
        _field("ip_ecn", "NXM_NX_IP_ECN", 2, (OXM, 9), (NX, 28), text="nw_ecn",
               set_name="nw_ecn", needs=_IP),
        _field("ip_ttl", "NXM_NX_IP_TTL", 8, (NX, 29), text="nw_ttl", set_name="nw_ttl", needs=_IP),
        _field("ipv6_label", "NXM_NX_IPV6_LABEL", 20, (OXM, 28), (NX, 27), Form.HEX,
               maskable=True, needs=_V6),
        _field("ip_proto", "NXM_OF_IP_PROTO", 8, (OXM, 10), (NXM, 6), text="nw_proto",
               settable=False, needs=_IP),
        _l4("tcp_src", "NXM_OF_TCP_SRC", 13, 9, "tp_src", _TCP),
        _l4("tcp_dst", "NXM_OF_TCP_DST", 14, 10, "tp_dst", _TCP),
        _l4("udp_src", "NXM_OF_UDP_SRC", 15, 11, "tp_src", _UDP),
        _l4("udp_dst", "NXM_OF_UDP_DST", 16, 12, "tp_dst", _UDP),
        _l4("sctp_src", "OXM_OF_SCTP_SRC", 17, None, "tp_src", _SCTP),
        _l4("sctp_dst", "OXM_OF_SCTP_DST", 18, None, "tp_dst", _SCTP),
        _type("icmp_type", "NXM_OF_ICMP_TYPE", 19, (NXM, 13), "icmp_type", _ICMP),
        _type("icmp_code", "NXM_OF_ICMP_CODE", 20, (NXM, 14), "icmp_code", _ICMP),
        _type("icmpv6_type", "NXM_NX_ICMPV6_TYPE", 29, (NX, 21), "icmp_type", _ICMPV6),
        _type("icmpv6_code", "NXM_NX_ICMPV6_CODE", 30, (NX, 22), "icmp_code", _ICMPV6),
        _v6("nd_target", "NXM_NX_ND_TARGET", 31, 23, _ND),
        _mac("nd_sll", "NXM_NX_ND_SLL", 32, (NX, 24), "", _NS),
        _mac("nd_tll", "NXM_NX_ND_TLL", 33, (NX, 25), "", _NA),
        _field("arp_op", "NXM_OF_ARP_OP", 16, (OXM, 21), (NXM, 15), needs=_ARP),
        _v4("arp_spa", "NXM_OF_ARP_SPA", 22, 16, "", _ARP),
        _v4("arp_tpa", "NXM_OF_ARP_TPA", 23, 17, "", _ARP),
        _mac("arp_sha", "NXM_NX_ARP_SHA", 24, (NX, 17), "", _ARP),
        _mac("arp_tha", "NXM_NX_ARP_THA", 25, (NX, 18), "", _ARP),
        _field("tun_id", "NXM_NX_TUN_ID", 64, (OXM, 38), (NX, 16), Form.HEX, maskable=True),
        _meta("tun_src", "NXM_NX_TUN_IPV4_SRC", 32, 31, Form.IPV4),
        _meta("tun_dst", "NXM_NX_TUN_IPV4_DST", 32, 32, Form.IPV4),
        _meta("tun_ipv6_src", "NXM_NX_TUN_IPV6_SRC", 128, 109, Form.IPV6),
        _meta("tun_ipv6_dst", "NXM_NX_TUN_IPV6_DST", 128, 110, Form.IPV6),
        *(_meta(f"reg{number}", f"NXM_NX_REG{number}", 32, number) for number in range(16)),
        _meta("pkt_mark", "NXM_NX_PKT_MARK", 32, 33),
        _meta("ct_state", "NXM_NX_CT_STATE", 32, 105),
        _field("ct_zone", "NXM_NX_CT_ZONE", 16, (NX, 106), settable=False),
        _meta("ct_mark", "NXM_NX_CT_MARK", 32, 107),
        _meta("ct_label", "NXM_NX_CT_LABEL", 128, 108),
        _opened("ct_nw_src", 32, 120, Form.IPV4, _V4),
        _opened("ct_ipv6_src", 128, 122, Form.IPV6, _V6),
        _opened("ct_nw_dst", 32, 121, Form.IPV4, _V4),
        _opened("ct_ipv6_dst", 128, 123, Form.IPV6, _V6),
        _opened("ct_nw_proto", 8, 119, Form.DECIMAL, None),
        _opened("ct_tp_src", 16, 124, Form.DECIMAL, _CT_PROTO),
        _opened("ct_tp_dst", 16, 125, Form.DECIMAL, _CT_PROTO),
        _field("metadata", "OXM_OF_METADATA", 64, (OXM, 2), form=Form.HEX, maskable=True),
    ]
)  # fmt: skip
"""Every field that can be matched."""

FIELD = {item.name: item for item in FIELDS}
"""Fields by name."""

REGISTERS = tuple(FIELD[f"reg{number}"] for number in range(16))

VLAN_TCI = _field("vlan_tci", "NXM_OF_VLAN_TCI", 16, (NXM, 4))
"""The whole tag; only ``load``, ``move`` and ``learn`` use it, which need no tag to be there."""
ND_RESERVED = _field("nd_reserved", "ERICOXM_OF_ICMPV6_ND_RESERVED", 32, (0x1000, 1))
ND_OPTIONS_TYPE = _field("nd_options_type", "ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE", 8, (0x1000, 2))
"""Flags of a neighbour advertisement, and what its option means; for ``load`` alone."""
IN_PORT_WIDE = _field("in_port_oxm", "OXM_OF_IN_PORT", 32, (OXM, 0), form=Form.PORT)
"""The port in OpenFlow's 32 bits, as ``learn`` outputs to it."""
