"""Parser and encoder of DHCP options, for drivers that speak DHCP themselves.  Pure.

An option is given by its number or name.  Its value is text: one value, or several separated by
commas, in the format of the option.  A value of an option without a fixed format is encoded as what
it looks like: addresses, octets (``01:ff``), a whole number, or else text.  IPv4 only.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen

from netfw.errors import InvalidInput
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.route import Route
from netfw.model.values.text_validation import (
    check_dhcp_option_name,
    check_dhcp_option_value,
    check_dns_name,
    quote,
)


class OptionFormat(enum.Enum):
    """The format of the value of an option."""

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
    """One option of DHCP: number, format and name."""

    code: int
    format: OptionFormat = OptionFormat.FREE
    name: str = ""


_A, _T, _D = OptionFormat.ADDRESSES, OptionFormat.TEXT, OptionFormat.DOMAINS
_B, _S, _L, _F = OptionFormat.BYTE, OptionFormat.SHORT, OptionFormat.LONG, OptionFormat.FREE
_KNOWN = {
    4: (
        Option(1, _A, "netmask"), Option(2, _L, "time-offset"),
        Option(3, _A, "router"), Option(6, _A, "dns-server"),
        Option(7, _A, "log-server"), Option(9, _A, "lpr-server"),
        Option(12, _T), Option(13, _S, "boot-file-size"), Option(15, _T, "domain-name"),
        Option(16, _A, "swap-server"), Option(17, _T, "root-path"),
        Option(18, _T, "extension-path"), Option(19, _B, "ip-forward-enable"),
        Option(20, _B, "non-local-source-routing"), Option(21, _A, "policy-filter"),
        Option(22, _S, "max-datagram-reassembly"), Option(23, _B, "default-ttl"),
        Option(26, _S, "mtu"), Option(27, _B, "all-subnets-local"),
        Option(28, _A), Option(31, _B, "router-discovery"),
        Option(32, _A, "router-solicitation"),
        Option(33, _A, "static-route"), Option(34, _B, "trailer-encapsulation"),
        Option(35, _L, "arp-timeout"), Option(36, _B, "ethernet-encap"),
        Option(37, _B, "tcp-ttl"), Option(38, _L, "tcp-keepalive"),
        Option(40, _T, "nis-domain"), Option(41, _A, "nis-server"), Option(42, _A, "ntp-server"),
        Option(43, OptionFormat.OCTETS), Option(44, _A, "netbios-ns"), Option(45, _A, "netbios-dd"),
        Option(46, _B, "netbios-nodetype"), Option(47, _F, "netbios-scope"),
        Option(48, _A, "x-windows-fs"), Option(49, _A, "x-windows-dm"),
        Option(58, OptionFormat.TIME, "t1"), Option(59, OptionFormat.TIME, "t2"),
        Option(60, _F, "vendor-class"), Option(64, _T, "nis+-domain"),
        Option(65, _A, "nis+-server"), Option(66, _T, "tftp-server"),
        Option(67, _T, "bootfile-name"), Option(68, _A, "mobile-ip-home"),
        Option(69, _A, "smtp-server"), Option(70, _A, "pop3-server"),
        Option(71, _A, "nntp-server"), Option(74, _A, "irc-server"),
        Option(77, _F, "user-class"), Option(80, _F, "rapid-commit"),
        Option(93, _S, "client-arch"), Option(94, _F, "client-interface-id"),
        Option(97, _F, "client-machine-id"), Option(100, _T, "posix-timezone"),
        Option(101, _T, "tzdb-timezone"), Option(108, _L, "ipv6-only"),
        Option(119, _D, "domain-search"), Option(120, OptionFormat.SERVERS, "sip-server"),
        Option(121, OptionFormat.ROUTES, "classless-static-route"),
        Option(125, _F, "vendor-id-encap"), Option(150, _A, "tftp-server-address"),
        Option(249, OptionFormat.ROUTES), Option(255, _A, "server-ip-address"),
    ),
    6: (
        Option(21, _D, "sip-server-domain"), Option(22, _A, "sip-server"),
        Option(23, _A, "dns-server"), Option(24, _D, "domain-search"),
        Option(27, _A, "nis-server"), Option(28, _A, "nis+-server"),
        Option(29, _D, "nis-domain"), Option(30, _D, "nis+-domain"),
        Option(31, _A, "sntp-server"), Option(32, OptionFormat.TIME, "information-refresh-time"),
        Option(41, _T, "posix-timezone"), Option(42, _T, "tzdb-timezone"),
        Option(56, OptionFormat.SERVERS, "ntp-server"), Option(59, _T, "bootfile-url"),
        Option(60, OptionFormat.TEXTS, "bootfile-param"),
    ),
}  # fmt: skip
_BY_NAME = {version: {o.name: o for o in known if o.name} for version, known in _KNOWN.items()}
_BY_CODE = {version: {o.code: o for o in known} for version, known in _KNOWN.items()}
_CODES = {4: range(1, 256), 6: range(1, 1 << 16)}
_OWN: Mapping[int, frozenset[int]] = {
    4: frozenset({*range(50, 58), 61, 81, 82, 118}),
    6: frozenset({*range(1, 21), 25, 26, 39}),
}
"""Options of the protocol itself, which the server sets."""
CLIENT_ID = {4: ("client-id", "61"), 6: ("client-id", "1")}
"""Names of the client identifier: not sent to a client, but used to recognise it."""


def find_option(version: int, name: str) -> Option:
    """Return the option of that name or number.

    :raises ValueError: it does not exist, or belongs to the protocol.
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
        raise ValueError(f"option {code} belongs to the protocol and cannot be chosen")
    return _BY_CODE[version].get(code) or Option(code)


IPXE: Final = "ipxe"
"""The tag of options for clients that boot by iPXE, which send option 175."""

Form = Callable[[str], bytes]

_OCTETS = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2})+")
_NUMBER = re.compile(r"-?[0-9]+")
_TIME = re.compile(r"([0-9]{1,9})([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_IDENTIFIER = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2})+|[A-Za-z0-9_.@+=/-]+")
_NEVER_EMPTY: Final = {4: frozenset({1, 26, 28}), 6: frozenset[int]()}
"""Options that every client needs: netmask, MTU and broadcast address."""
_LONGEST = 255
_BY_NAME_ENCODING, _BY_ADDRESS_ENCODING = b"\0", b"\1"
"""First octet of a list of SIP servers (RFC 3361)."""


def _addresses(text: str) -> bytes:
    return b"".join(ipaddress.IPv4Address(each.strip()).packed for each in text.split(","))


def _whole(octets: int) -> Form:
    def form(text: str) -> bytes:
        if not _NUMBER.fullmatch(text):
            raise ValueError("not a whole number")
        return int(text).to_bytes(octets, signed=octets == 4 and text.startswith("-"))

    return form


def parse_seconds(text: str) -> int:
    """Return the seconds of a time.

    :raises ValueError: it is none.
    """
    found = _TIME.fullmatch(text.lower())
    if not found:
        raise ValueError(f"is no time such as 3600, 60m or 12h: {quote(text)}")
    return int(found[1]) * _SECONDS[found[2]]


def _time(text: str) -> bytes:
    return parse_seconds(text).to_bytes(4)


def _text(text: str) -> bytes:
    return text.encode()


def encode_domains(text: str) -> bytes:
    """Encode DNS names, separated by commas, as in RFC 1035.

    :raises ValueError: one of them is none.
    """
    coded = b""
    for name in (each.strip().removesuffix(".") for each in text.split(",")):
        if not name:
            raise ValueError("an empty name")
        check_dns_name(name)
        coded += b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        coded += b"\0"
    return coded


def _servers(text: str) -> bytes:
    """Encode SIP servers, by address or by name, as in RFC 3361."""
    if re.fullmatch(r"[0-9., ]*", text):
        return _BY_ADDRESS_ENCODING + _addresses(text)
    return _BY_NAME_ENCODING + encode_domains(text)


def routes(advertised: Iterable[Route]) -> bytes:
    """Encode routes as in RFC 3442."""
    coded = b""
    for route in advertised:
        length, significant = route.destination.prefixlen, (route.destination.prefixlen + 7) // 8
        coded += bytes([length]) + route.destination.network_address.packed[:significant]
        coded += route.nexthop.packed
    return coded


def _routes(text: str) -> bytes:
    words = [word.strip() for word in text.split(",")]
    pairs = zip(words[::2], words[1::2], strict=True)
    advertised = [(ipaddress.IPv4Network(to), ipaddress.IPv4Address(by)) for to, by in pairs]
    return routes(Route(destination=to, nexthop=by) for to, by in advertised)


def _as_it_looks(text: str) -> bytes:
    if _OCTETS.fullmatch(text):
        return bytes.fromhex(text.replace(":", ""))
    if text.isascii() and text.isdigit():
        return int(text).to_bytes(max(1, (int(text).bit_length() + 7) // 8))
    try:
        return _addresses(text)
    except ValueError:
        return _text(text)


_FORMS: Final[Mapping[OptionFormat, Form]] = {
    OptionFormat.ADDRESSES: _addresses,
    OptionFormat.ROUTES: _routes,
    OptionFormat.BYTE: _whole(1),
    OptionFormat.SHORT: _whole(2),
    OptionFormat.LONG: _whole(4),
    OptionFormat.TIME: _time,
    OptionFormat.DOMAINS: encode_domains,
    OptionFormat.SERVERS: _servers,
    OptionFormat.TEXT: _text,
}
"""Encoders by format; any other format is encoded as it looks."""


def is_client_id(option: DhcpOption) -> bool:
    """Return whether the option names the client instead of being sent to it."""
    return option.code.lower() in CLIENT_ID[option.ip_version]


def check_client_id(value: str) -> None:
    """Refuse an invalid client identifier, in words or octets.

    :raises ValueError: it is neither, or more than one word.
    """
    if not _IDENTIFIER.fullmatch(value) or len(value) > _LONGEST:
        raise ValueError(
            f"is neither bytes in hexadecimal such as 01:0a:ff nor one word: {quote(value)}"
        )


def check_left_out(option: DhcpOption, found: Option) -> None:
    """Refuse an empty value, which omits the option, where that is impossible.

    :raises ValueError: every client needs the option, or only some would be without it.
    """
    if option.tags:
        raise ValueError("is empty; an option is left out for all clients or for none")
    if found.code in _NEVER_EMPTY[option.ip_version]:
        raise ValueError("is empty; every client needs one")


def is_of_other_family(option: DhcpOption, found: Option) -> bool:
    """Return whether it has only IPv6 addresses, which mean nothing to IPv4 clients.

    The API has always accepted such options, from requests that leave out the family.
    """
    if option.ip_version != 4 or found.format is not OptionFormat.ADDRESSES:
        return False
    try:
        return all(ipaddress.IPv6Address(each.strip()) for each in option.value.split(","))
    except ValueError:
        return False


def check_options(options: Sequence[DhcpOption]) -> None:
    """Validate options, whatever the source let pass; IPv6 ones only for being one option each.

    :raises InvalidInput: an option that could be read as several in a file, is not known, or has
        an invalid value; ``options[1].value`` is named.
    """
    for at, option in enumerate(options):
        try:
            _check(option)
            if _is_advertised(option):
                _conditions(option)
                _coded(option)
        except InvalidInput as exc:
            problems = {f"options[{at}].{name}": why for name, why in exc.problems.items()}
            raise InvalidInput(problems) from exc


def options_for(options: Iterable[DhcpOption], *, ipxe: bool) -> dict[int, bytes]:
    """Return the options for a client, by number; an option with an empty value is not sent.

    An option with a condition takes precedence over one without.

    :raises InvalidInput: see :func:`check_options`.
    """
    return dict(
        _coded(option)
        for option in sorted(options, key=lambda option: len(option.tags))
        if _is_advertised(option) and _conditions(option) <= {ipxe}
    )


def option_value(option: DhcpOption) -> bytes:
    """Return the encoded value of an option; empty: the option is not sent.

    :raises InvalidInput: the name is not known, or the value is invalid.
    """
    return _coded(option)[1]


def _coded(option: DhcpOption) -> tuple[int, bytes]:
    found = _found(option)
    try:
        form = _FORMS.get(found.format, _as_it_looks)
        value = form(option.value) if option.value else b""
    except (ValueError, OverflowError) as exc:
        raise InvalidInput({"value": f"{option.value!r} is none for {option.code}: {exc}"}) from exc
    if len(value) > _LONGEST:
        raise InvalidInput({"value": f"longer than {_LONGEST} octets"})
    return found.code, value


def _found(option: DhcpOption) -> Option:
    try:
        return find_option(option.ip_version, option.code)
    except ValueError as exc:
        raise InvalidInput({"name": str(exc)}) from exc


def _is_advertised(option: DhcpOption) -> bool:
    """Return whether it is sent to IPv4 clients; a client identifier is not."""
    if option.ip_version != 4 or is_client_id(option):
        return False
    return not is_of_other_family(option, _found(option))


def _check(option: DhcpOption) -> None:
    _refuse("name", check_dhcp_option_name, option.name)
    _refuse("value", check_dhcp_option_value, option.value)


def _refuse(field: str, check: Callable[[str], None], text: str) -> None:
    try:
        check(text)
    except ValueError as exc:
        raise InvalidInput({field: str(exc)}) from exc


def _conditions(option: DhcpOption) -> frozenset[bool]:
    """Return the iPXE conditions: for iPXE clients, for others, or for all."""
    strange = [tag for tag in option.tags if tag.removeprefix("!") != IPXE]
    if strange:
        raise InvalidInput({"name": f"tag:{strange[0]} means nothing here"})
    return frozenset(not tag.startswith("!") for tag in option.tags)
