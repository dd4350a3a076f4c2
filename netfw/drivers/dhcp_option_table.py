"""The options of DHCP and DHCPv6: by which names operators know them, and what their values are.

The names are those of dnsmasq, which the API has always taken.  Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from attrs import frozen


class Kind(enum.Enum):
    """What the value of an option is."""

    ADDRESSES = "addresses"
    ROUTES = "routes: prefixes, each with its next hop"
    BYTE = 1
    SHORT = 2
    LONG = 4
    TIME = "a time"
    DOMAINS = "DNS names"
    SERVERS = "addresses or DNS names"
    OCTETS = "bytes in hexadecimal, or text"
    TEXT = "text"
    TEXTS = "several texts"
    FREE = "whatever it looks like"
    """A number, bytes in hexadecimal, addresses or else text."""


@frozen
class Option:
    """One option."""

    code: int
    kind: Kind = Kind.FREE
    name: str = ""


_A, _T, _D = Kind.ADDRESSES, Kind.TEXT, Kind.DOMAINS
_KNOWN = {
    4: (
        Option(1, _A, "netmask"), Option(2, Kind.LONG, "time-offset"),
        Option(3, _A, "router"), Option(6, _A, "dns-server"),
        Option(7, _A, "log-server"), Option(9, _A, "lpr-server"),
        Option(12, _T), Option(13, Kind.SHORT, "boot-file-size"), Option(15, _T, "domain-name"),
        Option(16, _A, "swap-server"), Option(17, _T, "root-path"),
        Option(18, _T, "extension-path"), Option(19, Kind.BYTE, "ip-forward-enable"),
        Option(20, Kind.BYTE, "non-local-source-routing"), Option(21, _A, "policy-filter"),
        Option(22, Kind.SHORT, "max-datagram-reassembly"), Option(23, Kind.BYTE, "default-ttl"),
        Option(26, Kind.SHORT, "mtu"), Option(27, Kind.BYTE, "all-subnets-local"),
        Option(28, _A), Option(31, Kind.BYTE, "router-discovery"),
        Option(32, _A, "router-solicitation"),
        Option(33, _A, "static-route"), Option(34, Kind.BYTE, "trailer-encapsulation"),
        Option(35, Kind.LONG, "arp-timeout"), Option(36, Kind.BYTE, "ethernet-encap"),
        Option(37, Kind.BYTE, "tcp-ttl"), Option(38, Kind.LONG, "tcp-keepalive"),
        Option(40, _T, "nis-domain"), Option(41, _A, "nis-server"), Option(42, _A, "ntp-server"),
        Option(43, Kind.OCTETS), Option(44, _A, "netbios-ns"), Option(45, _A, "netbios-dd"),
        Option(46, Kind.BYTE, "netbios-nodetype"), Option(47, Kind.FREE, "netbios-scope"),
        Option(48, _A, "x-windows-fs"), Option(49, _A, "x-windows-dm"),
        Option(58, Kind.TIME, "t1"), Option(59, Kind.TIME, "t2"),
        Option(60, Kind.FREE, "vendor-class"), Option(64, _T, "nis+-domain"),
        Option(65, _A, "nis+-server"), Option(66, _T, "tftp-server"),
        Option(67, _T, "bootfile-name"), Option(68, _A, "mobile-ip-home"),
        Option(69, _A, "smtp-server"), Option(70, _A, "pop3-server"),
        Option(71, _A, "nntp-server"), Option(74, _A, "irc-server"),
        Option(77, Kind.FREE, "user-class"), Option(80, Kind.FREE, "rapid-commit"),
        Option(93, Kind.SHORT, "client-arch"), Option(94, Kind.FREE, "client-interface-id"),
        Option(97, Kind.FREE, "client-machine-id"), Option(100, _T, "posix-timezone"),
        Option(101, _T, "tzdb-timezone"), Option(108, Kind.LONG, "ipv6-only"),
        Option(119, _D, "domain-search"), Option(120, Kind.SERVERS, "sip-server"),
        Option(121, Kind.ROUTES, "classless-static-route"),
        Option(125, Kind.FREE, "vendor-id-encap"), Option(150, _A, "tftp-server-address"),
        Option(249, Kind.ROUTES), Option(255, _A, "server-ip-address"),
    ),
    6: (
        Option(21, _D, "sip-server-domain"), Option(22, _A, "sip-server"),
        Option(23, _A, "dns-server"), Option(24, _D, "domain-search"),
        Option(27, _A, "nis-server"), Option(28, _A, "nis+-server"),
        Option(29, _D, "nis-domain"), Option(30, _D, "nis+-domain"),
        Option(31, _A, "sntp-server"), Option(32, Kind.TIME, "information-refresh-time"),
        Option(41, _T, "posix-timezone"), Option(42, _T, "tzdb-timezone"),
        Option(56, Kind.SERVERS, "ntp-server"), Option(59, _T, "bootfile-url"),
        Option(60, Kind.TEXTS, "bootfile-param"),
    ),
}  # fmt: skip
_BY_NAME = {version: {o.name: o for o in known if o.name} for version, known in _KNOWN.items()}
_BY_CODE = {version: {o.code: o for o in known} for version, known in _KNOWN.items()}
_CODES = {4: range(1, 256), 6: range(1, 1 << 16)}
_OWN: Mapping[int, frozenset[int]] = {
    4: frozenset({*range(50, 58), 61, 81, 82, 118}),
    6: frozenset({*range(1, 21), 25, 26, 39}),
}
"""Options with which the protocol itself works: the server gives them."""
CLIENT_ID = {4: ("client-id", "61"), 6: ("client-id", "1")}
"""Who a client says that he is: no option for him, but a way to know him."""


def find_option(version: int, name: str) -> Option:
    """The option by that name or number.

    :raises ValueError: there is none, or it is the server's own business.
    """
    name = name.lower()
    if not name.isdecimal():
        known = _BY_NAME[version]
        if name not in known:
            raise ValueError(
                f"no option {name!r} of DHCPv{version} is known by that name: give its number"
            )
        return known[name]
    code = int(name)
    if code not in _CODES[version]:
        codes = _CODES[version]
        raise ValueError(f"{code} is no option: {codes.start} to {codes.stop - 1}")
    if code in _OWN[version]:
        raise ValueError(f"option {code} belongs to the protocol and can not be chosen")
    return _BY_CODE[version].get(code) or Option(code)
