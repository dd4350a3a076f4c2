"""DHCP options as people write them, for drivers that speak DHCP themselves.  Pure.

An option is said by its number, or by the name that operators know.  Its value is text: one value,
or several with commas between them, of the form that the option has.  A number that is in no table
takes what the text looks like: addresses, octets (``01:ff``), a whole number, or else the text.
IPv4 only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from netfw.errors import InvalidInput, nearest
from netfw.model.dhcp_option import DhcpOption
from netfw.model.route import Route
from netfw.model.text import check_dhcp_option_name, check_dhcp_option_value, check_dns_name

SERVER_ADDRESS: Final = 255
"""No option on the wire, but the address in the message's header from which a client boots."""
IPXE: Final = "ipxe"
"""The tag of options for clients that boot by iPXE, and say so by option 175."""

Form = Callable[[str], bytes]

_OCTETS = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2})+")
_LONGEST = 255


def _addresses(text: str) -> bytes:
    return b"".join(ipaddress.IPv4Address(each.strip()).packed for each in text.split(","))


def _whole(octets: int) -> Form:
    return lambda text: int(text).to_bytes(octets)


def _text(text: str) -> bytes:
    return text.encode()


def _domains(text: str) -> bytes:
    coded = b""
    for name in (each.strip().removesuffix(".") for each in text.split(",")):
        check_dns_name(name)
        coded += b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        coded += b"\0"
    return coded


def routes(told: Iterable[Route]) -> bytes:
    """Routes as RFC 3442 writes them."""
    coded = b""
    for route in told:
        length, significant = route.destination.prefixlen, (route.destination.prefixlen + 7) // 8
        coded += bytes([length]) + route.destination.network_address.packed[:significant]
        coded += route.nexthop.packed
    return coded


def _routes(text: str) -> bytes:
    words = [word.strip() for word in text.split(",")]
    pairs = zip(words[::2], words[1::2], strict=True)
    told = [(ipaddress.IPv4Network(to), ipaddress.IPv4Address(by)) for to, by in pairs]
    return routes(Route(destination=to, nexthop=by) for to, by in told)


def _as_it_looks(text: str) -> bytes:
    if _OCTETS.fullmatch(text):
        return bytes.fromhex(text.replace(":", ""))
    if text.isascii() and text.isdigit():
        return int(text).to_bytes(max(1, (int(text).bit_length() + 7) // 8))
    try:
        return _addresses(text)
    except ValueError:
        return _text(text)


_NUMBERED: Final[Mapping[Form, Mapping[str, int]]] = {
    _addresses: {
        "netmask": 1,
        "router": 3,
        "dns-server": 6,
        "log-server": 7,
        "lpr-server": 9,
        "swap-server": 16,
        "policy-filter": 21,
        "router-solicitation": 32,
        "static-route": 33,
        "nis-server": 41,
        "ntp-server": 42,
        "netbios-ns": 44,
        "netbios-dd": 45,
        "x-windows-fs": 48,
        "x-windows-dm": 49,
        "mobile-ip-home": 68,
        "smtp-server": 69,
        "pop3-server": 70,
        "nntp-server": 71,
        "irc-server": 74,
        "tftp-server-address": 150,
        "server-ip-address": 255,
    },
    _whole(1): {
        "ip-forward-enable": 19,
        "non-local-source-routing": 20,
        "default-ttl": 23,
        "all-subnets-local": 27,
        "router-discovery": 31,
        "trailer-encapsulation": 34,
        "ethernet-encap": 36,
        "tcp-ttl": 37,
        "netbios-nodetype": 46,
    },
    _whole(2): {
        "boot-file-size": 13,
        "max-datagram-reassembly": 22,
        "mtu": 26,
    },
    _whole(4): {
        "time-offset": 2,
        "arp-timeout": 35,
        "tcp-keepalive": 38,
        "T1": 58,
        "T2": 59,
        "ipv6-only": 108,
    },
    _text: {
        "domain-name": 15,
        "root-path": 17,
        "extension-path": 18,
        "nis-domain": 40,
        "netbios-scope": 47,
        "vendor-class": 60,
        "tftp-server": 66,
        "bootfile-name": 67,
        "user-class": 77,
        "posix-timezone": 100,
        "tzdb-timezone": 101,
    },
    _domains: {
        "domain-search": 119,
    },
    _routes: {
        "classless-static-route": 121,
    },
}
NUMBERS: Final[Mapping[str, int]] = {
    name: number for named in _NUMBERED.values() for name, number in named.items()
}
_FORMS: Final[Mapping[int, Form]] = {
    number: form for form, named in _NUMBERED.items() for number in named.values()
} | {249: _routes}


def check_options(options: Sequence[DhcpOption]) -> None:
    """Look at options, whatever the source let pass; of those for IPv6, whether they are one each.

    :raises InvalidInput: one that could be several in somebody's files, or that is not known, or
        whose value is none for it; ``options[1].value`` is named.
    """
    for at, option in enumerate(options):
        try:
            _check(option)
            if option.ip_version == 4:
                _conditions(option)
                option_value(option)
        except InvalidInput as exc:
            faults = {f"options[{at}].{name}": why for name, why in exc.faults.items()}
            raise InvalidInput(faults) from exc


def options_for(options: Iterable[DhcpOption], *, ipxe: bool) -> dict[int, bytes]:
    """What a client is told, by number; an empty value: it is not told.

    One that has a condition wins over one without.

    :raises InvalidInput: see :func:`check_options`.
    """
    return {
        option_number(option): option_value(option)
        for option in sorted(options, key=lambda option: len(option.tags))
        if option.ip_version == 4 and _conditions(option) <= {ipxe}
    }


def option_number(option: DhcpOption) -> int:
    """The number of an option, whatever it was called.

    :raises InvalidInput: nobody knows that name, or there is no such number.
    """
    if not option.code.isdigit():
        if option.code in NUMBERS:
            return NUMBERS[option.code]
        hint = nearest(option.code, NUMBERS)
        raise InvalidInput({"name": f"{option.code!r} is no option{hint}: say its number"})
    if not 0 < int(option.code) < SERVER_ADDRESS:
        raise InvalidInput({"name": f"{option.code} is no option's number (1 to 254)"})
    return int(option.code)


def option_value(option: DhcpOption) -> bytes:
    """The value of an option as it is sent; empty: the option is not to be sent.

    :raises InvalidInput: it is none for that option.
    """
    form = _FORMS.get(option_number(option), _as_it_looks)
    try:
        value = form(option.value) if option.value else b""
    except (ValueError, OverflowError) as exc:
        raise InvalidInput({"value": f"{option.value!r} is none for {option.code}: {exc}"}) from exc
    if len(value) > _LONGEST:
        raise InvalidInput({"value": f"longer than {_LONGEST} octets"})
    return value


def _check(option: DhcpOption) -> None:
    checks = {"name": check_dhcp_option_name, "value": check_dhcp_option_value}
    for name, check in checks.items():
        try:
            check(getattr(option, name))
        except ValueError as exc:
            raise InvalidInput({name: str(exc)}) from exc


def _conditions(option: DhcpOption) -> frozenset[bool]:
    """Whether it is for clients that boot by iPXE, for those that do not, or for all."""
    strange = [tag for tag in option.tags if tag.removeprefix("!") != IPXE]
    if strange:
        raise InvalidInput({"name": f"tag:{strange[0]} means nothing here"})
    return frozenset(not tag.startswith("!") for tag in option.tags)
