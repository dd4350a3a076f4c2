"""Numbers and fixed headers of rtnetlink messages (rtnetlink(7)), for encoding and decoding."""

from __future__ import annotations

import struct

NEW_LINK, DEL_LINK, GET_LINK, SET_LINK = 16, 17, 18, 19
NEW_ADDRESS, DEL_ADDRESS, GET_ADDRESS = 20, 21, 22
NEW_ROUTE, DEL_ROUTE, GET_ROUTE = 24, 25, 26
NEW_NEIGHBOUR, DEL_NEIGHBOUR, GET_NEIGHBOUR = 28, 29, 30
NEW_RULE, DEL_RULE, GET_RULE = 32, 33, 34

NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400

LINK = struct.Struct("=BxHiII")
"""ifinfomsg: family, type, index, flags, mask of the flags to change."""
ADDRESS = struct.Struct("=4BI")
"""ifaddrmsg: family, prefix length, flags, scope, index."""
ROUTE = struct.Struct("=8BI")
"""rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type, flags."""
RULE = struct.Struct("=8BI")
"""fib_rule_hdr: as rtmsg, but two unused bytes and the action follow the table."""
NEIGHBOUR = struct.Struct("=BxxxiHBB")
"""ndmsg: family, index, state, flags, type."""
NEXT_HOP = struct.Struct("=HBBi")
"""rtnexthop: length, flags, weight - 1, index."""
VIA = struct.Struct("=H")
"""rtvia: family; the address follows."""

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 3, 4, 5, 10
IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_NET_NS_FD, IFLA_EXT_MASK = 16, 18, 28, 29
IFLA_CARRIER, IFLA_LINK_NETNSID = 33, 37
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, IFA_FLAGS, IFA_PROTO = 1, 2, 4, 8, 11
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC = 1, 4, 5, 6, 7
RTA_MULTIPATH, RTA_TABLE, RTA_VIA = 9, 15, 18
RTA_SRC, RTA_CACHEINFO, RTA_PREF, RTA_PAD, RTA_NH_ID = 2, 12, 20, 24, 30
FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK = 1, 2, 3, 6, 10
FRA_SUPPRESS_IFGROUP, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_FWMASK = 13, 14, 15, 16
FRA_OIFNAME, FRA_PAD, FRA_PROTOCOL = 17, 18, 21
NDA_DST, NDA_LLADDR = 1, 2

IFF_UP = 0x1
IFA_F_SECONDARY, IFA_F_NODAD, IFA_F_DADFAILED = 0x01, 0x02, 0x08
IFA_F_TENTATIVE, IFA_F_PERMANENT, IFA_F_NOPREFIXROUTE = 0x40, 0x80, 0x200
RTNH_F_ONLINK, FIB_RULE_INVERT = 0x4, 0x2
NUD_PERMANENT, NTF_PROXY = 0x80, 0x8
RTEXT_FILTER_SKIP_STATS = 0x8
