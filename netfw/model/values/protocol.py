"""IP protocols by the API's names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ICMP = 1
TCP = 6
UDP = 17
DCCP = 33
ICMPV6 = 58
SCTP = 132
UDPLITE = 136

PORTED = frozenset({TCP, UDP, DCCP, SCTP, UDPLITE})
"""Protocols that have ports."""

NAMES: Mapping[int, str] = MappingProxyType(
    {
        ICMP: "icmp",
        2: "igmp",
        4: "ipip",
        TCP: "tcp",
        8: "egp",
        UDP: "udp",
        DCCP: "dccp",
        41: "ipv6-encap",
        43: "ipv6-route",
        44: "ipv6-frag",
        46: "rsvp",
        47: "gre",
        50: "esp",
        51: "ah",
        ICMPV6: "ipv6-icmp",
        59: "ipv6-nonxt",
        60: "ipv6-opts",
        89: "ospf",
        112: "vrrp",
        113: "pgm",
        SCTP: "sctp",
        UDPLITE: "udplite",
    }
)
"""The name the API gives each; a number that is not here is its own name."""

NUMBERS: Mapping[str, int] = MappingProxyType(
    {name: number for number, name in NAMES.items()} | {"icmpv6": ICMPV6, "icmp6": ICMPV6}
)
