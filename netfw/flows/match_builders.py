"""Functions that build matches.

Addresses may be text, ``ipaddress`` values or networks; MAC addresses are text, and may carry a
mask as ``01:00:00:00:00:00/01:00:00:00:00:00``.  ``tcp()`` and its like match the protocol,
which every field of that protocol needs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache, partial

from netfw.flows.field import (
    ARP_TYPE,
    FIELD,
    ICMP_PROTO,
    ICMPV6_PROTO,
    IPV4_TYPE,
    IPV6_TYPE,
    REGISTERS,
    SCTP_PROTO,
    TCP_PROTO,
    UDP_PROTO,
    MatchField,
)
from netfw.flows.match import Match, matching
from netfw.flows.port_number import check_in_port, widen_port
from netfw.model.values.address import IpAddress, IpNetwork, unscoped

__all__ = [
    "arp",
    "arp_op",
    "arp_sha",
    "arp_spa",
    "arp_tha",
    "arp_tpa",
    "conj_id",
    "ct_ipv6_dst",
    "ct_ipv6_src",
    "ct_label",
    "ct_mark",
    "ct_nw_dst",
    "ct_nw_proto",
    "ct_nw_src",
    "ct_state",
    "ct_tp_dst",
    "ct_tp_src",
    "ct_zone",
    "eth_dst",
    "eth_src",
    "eth_type",
    "icmp",
    "icmp_code",
    "icmp_type",
    "icmpv6",
    "icmpv6_code",
    "icmpv6_type",
    "in_port",
    "ip_dscp",
    "ip_dst",
    "ip_ecn",
    "ip_frag",
    "ip_proto",
    "ip_src",
    "ip_ttl",
    "ipv4",
    "ipv4_dst",
    "ipv4_src",
    "ipv6",
    "ipv6_dst",
    "ipv6_label",
    "ipv6_src",
    "metadata",
    "nd_sll",
    "nd_target",
    "nd_tll",
    "pkt_mark",
    "register",
    "sctp",
    "sctp6",
    "sctp_dst",
    "sctp_src",
    "tagged",
    "tcp",
    "tcp6",
    "tcp_dst",
    "tcp_src",
    "tun_dst",
    "tun_id",
    "tun_ipv6_dst",
    "tun_ipv6_src",
    "tun_src",
    "udp",
    "udp6",
    "udp_dst",
    "udp_src",
    "untagged",
    "vlan",
    "vlan_pcp",
]

Address = str | IpAddress | IpNetwork

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_CT_FLAG = re.compile(r"[+-][a-z]+")
CT_FLAGS = ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat")
"""Flags of the connection state, from bit 0."""
FRAGMENTS = {"no": (0, 3), "yes": (1, 1), "first": (1, 3), "later": (3, 3), "not_later": (0, 2)}
"""Kinds of fragments and their value and mask."""


def _exactly(name: str, value: int) -> Callable[[], Match]:
    found = matching(FIELD[name], value)
    return lambda: found


def _protocol(eth_type: int, proto: int) -> Callable[[], Match]:
    found = matching(FIELD["eth_type"], eth_type) & matching(FIELD["ip_proto"], proto)
    return lambda: found


arp, ipv4, ipv6 = (_exactly("eth_type", number) for number in (ARP_TYPE, IPV4_TYPE, IPV6_TYPE))
tcp, tcp6 = _protocol(IPV4_TYPE, TCP_PROTO), _protocol(IPV6_TYPE, TCP_PROTO)
udp, udp6 = _protocol(IPV4_TYPE, UDP_PROTO), _protocol(IPV6_TYPE, UDP_PROTO)
sctp, sctp6 = _protocol(IPV4_TYPE, SCTP_PROTO), _protocol(IPV6_TYPE, SCTP_PROTO)
icmp, icmpv6 = _protocol(IPV4_TYPE, ICMP_PROTO), _protocol(IPV6_TYPE, ICMPV6_PROTO)


def _number(name: str) -> Callable[..., Match]:
    """Make the function ``(value, mask=None)`` of a field whose values are plain numbers."""
    return partial(matching, FIELD[name])


eth_type, ip_proto = _number("eth_type"), _number("ip_proto")
ip_dscp, ip_ecn, ip_ttl = _number("ip_dscp"), _number("ip_ecn"), _number("ip_ttl")
tcp_src, tcp_dst = _number("tcp_src"), _number("tcp_dst")
udp_src, udp_dst = _number("udp_src"), _number("udp_dst")
sctp_src, sctp_dst = _number("sctp_src"), _number("sctp_dst")
icmp_type, icmp_code = _number("icmp_type"), _number("icmp_code")
icmpv6_type, icmpv6_code = _number("icmpv6_type"), _number("icmpv6_code")
ipv6_label, arp_op, vlan_pcp = _number("ipv6_label"), _number("arp_op"), _number("vlan_pcp")
tun_id, metadata, pkt_mark = _number("tun_id"), _number("metadata"), _number("pkt_mark")
ct_zone, ct_mark, ct_label = _number("ct_zone"), _number("ct_mark"), _number("ct_label")
ct_nw_proto, ct_tp_src, ct_tp_dst = map(_number, ("ct_nw_proto", "ct_tp_src", "ct_tp_dst"))
conj_id = _number("conj_id")


@lru_cache(1024)
def register(number: int, value: int, mask: int | None = None) -> Match:
    """Match a whole register, or the bits of *mask*; see also ``RegisterField.is_``."""
    return matching(REGISTERS[number], value, mask)


def in_port(number: int) -> Match:
    """Match packets that came in by port *number*, or by ``LOCAL`` or ``CONTROLLER``."""
    check_in_port(number)
    return matching(FIELD["in_port"], widen_port(number))


def vlan(vid: int, mask: int = 0xFFF) -> Match:
    """Match packets tagged with VLAN *vid*."""
    if not 0 <= vid <= 0xFFF or not 0 <= mask <= 0xFFF:
        raise ValueError(f"a VLAN id has 12 bits: {vid:#x}/{mask:#x} does not fit")
    return matching(FIELD["vlan"], 0x1000 | vid, 0x1000 | mask)


def tagged() -> Match:
    """Match packets with any VLAN tag."""
    return matching(FIELD["vlan"], 0x1000, 0x1000)


def untagged() -> Match:
    """Match packets without a VLAN tag."""
    return matching(FIELD["vlan"], 0)


def ip_frag(kind: str) -> Match:
    """Match fragments: ``no``, ``yes``, ``first``, ``later`` or ``not_later``."""
    if kind not in FRAGMENTS:
        raise ValueError(f"fragments are {', '.join(FRAGMENTS)}, not {kind!r}")
    return matching(FIELD["ip_frag"], *FRAGMENTS[kind])


@lru_cache(1024)
def ct_state(flags: str) -> Match:
    """Match the state of the connection: ``+trk-est`` is tracked and not established."""
    parts = _CT_FLAG.findall(flags)
    names = [part[1:] for part in parts]
    if not parts or "".join(parts) != flags or len(set(names)) < len(names):
        raise ValueError(f"connection state is written like '+trk-est', not {flags!r}")
    if unknown := set(names) - set(CT_FLAGS):
        raise ValueError(f"no such connection state: {', '.join(sorted(unknown))}")
    mask = sum(1 << CT_FLAGS.index(name) for name in names)
    value = sum(1 << CT_FLAGS.index(part[1:]) for part in parts if part[0] == "+")
    return matching(FIELD["ct_state"], value, mask)


def mac_number(mac: str) -> int:
    """Parse a MAC address to a number.

    :raises ValueError: it is not one.
    """
    if not _MAC.fullmatch(mac.lower()):
        raise ValueError(f"not a MAC address: {mac!r}")
    return int(mac.replace(":", ""), 16)


def _mac(name: str) -> Callable[[str], Match]:
    where = FIELD[name]

    def word(mac: str) -> Match:
        value, slash, mask = mac.partition("/")
        return matching(where, mac_number(value), mac_number(mask) if slash else None)

    return word


eth_src, eth_dst = _mac("eth_src"), _mac("eth_dst")
arp_sha, arp_tha = _mac("arp_sha"), _mac("arp_tha")
nd_sll, nd_tll = _mac("nd_sll"), _mac("nd_tll")


_OCTETS = {str(octet): octet for octet in range(256)}


def _ipv4_number(text: str) -> int | None:
    """Parse an IPv4 address as it is written most often; ``None``: it is another text."""
    parts = text.split(".")
    try:
        first, second, third, fourth = [_OCTETS[part] for part in parts]
    except (KeyError, ValueError):
        return None
    return first << 24 | second << 16 | third << 8 | fourth


def _parsed(text: str) -> IpAddress | IpNetwork:
    return ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text)


def _address(where: MatchField) -> Callable[[Address], Match]:
    version = 4 if where.width == 32 else 6

    def word(address: Address) -> Match:
        if version == 4 and isinstance(address, str):
            number = _ipv4_number(address)
            if number is not None:
                return matching(where, number)
        network = unscoped(_parsed(address) if isinstance(address, str) else address)
        if network.version != version:
            raise ValueError(f"{where.name} takes IPv{version}, not {address}")
        if isinstance(network, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
            return matching(where, int(network.network_address), int(network.netmask))
        return matching(where, int(network))

    return word


ipv4_src, ipv4_dst = _address(FIELD["ipv4_src"]), _address(FIELD["ipv4_dst"])
ipv6_src, ipv6_dst = _address(FIELD["ipv6_src"]), _address(FIELD["ipv6_dst"])
arp_spa, arp_tpa = _address(FIELD["arp_spa"]), _address(FIELD["arp_tpa"])
tun_src, tun_dst = _address(FIELD["tun_src"]), _address(FIELD["tun_dst"])
tun_ipv6_src, tun_ipv6_dst = _address(FIELD["tun_ipv6_src"]), _address(FIELD["tun_ipv6_dst"])
ct_nw_src, ct_nw_dst = _address(FIELD["ct_nw_src"]), _address(FIELD["ct_nw_dst"])
ct_ipv6_src, ct_ipv6_dst = _address(FIELD["ct_ipv6_src"]), _address(FIELD["ct_ipv6_dst"])
nd_target = _address(FIELD["nd_target"])


def ip_src(address: Address) -> Match:
    """Match the source, IPv4 or IPv6 by the family of *address*, with the protocol it needs."""
    return _either(address, ipv4_src, ipv6_src)


def ip_dst(address: Address) -> Match:
    """Match the destination, IPv4 or IPv6 by the family of *address*, with its protocol."""
    return _either(address, ipv4_dst, ipv6_dst)


def _either(
    address: Address, four: Callable[[Address], Match], six: Callable[[Address], Match]
) -> Match:
    if isinstance(address, str):
        address = _parsed(address)
    return ipv4() & four(address) if address.version == 4 else ipv6() & six(address)
