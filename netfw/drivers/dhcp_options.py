"""DHCP options as people write them, for drivers that speak DHCP themselves.  Pure.

An option is said by its number or name (``netfw.drivers.dhcp_option_table``).  Its value is text:
one value, or several with commas between them, of the form that the option has.  One of no certain
form takes what the text looks like: addresses, octets (``01:ff``), a whole number, or else the
text.  IPv4 only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from netfw.drivers.dhcp_option_table import CLIENT_ID, Kind, Option, find_option
from netfw.errors import InvalidInput
from netfw.model.dhcp_option import DhcpOption
from netfw.model.route import Route
from netfw.model.text_validation import (
    check_dhcp_option_name,
    check_dhcp_option_value,
    check_dns_name,
    quote,
)

IPXE: Final = "ipxe"
"""The tag of options for clients that boot by iPXE, and say so by option 175."""

Form = Callable[[str], bytes]

_OCTETS = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2})+")
_NUMBER = re.compile(r"-?[0-9]+")
_TIME = re.compile(r"([0-9]{1,9})([smhdw]?)")
_IDENTIFIER = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2})+|[A-Za-z0-9_.@+=/-]+")
_NEVER_EMPTY: Final = {4: frozenset({1, 26, 28}), 6: frozenset[int]()}
"""Options that nobody is without: netmask, MTU and broadcast address."""
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LONGEST = 255


def _addresses(text: str) -> bytes:
    return b"".join(ipaddress.IPv4Address(each.strip()).packed for each in text.split(","))


def _whole(octets: int) -> Form:
    def form(text: str) -> bytes:
        if not _NUMBER.fullmatch(text):
            raise ValueError("not a whole number")
        return int(text).to_bytes(octets, signed=text.startswith("-"))

    return form


def _time(text: str) -> bytes:
    found = _TIME.fullmatch(text.lower())
    if not found:
        raise ValueError("not a time such as 3600, 60m or 12h")
    return (int(found[1]) * _SECONDS[found[2]]).to_bytes(4)


def _text(text: str) -> bytes:
    return text.encode()


def _domains(text: str) -> bytes:
    coded = b""
    for name in (each.strip().removesuffix(".") for each in text.split(",")):
        if not name:
            raise ValueError("an empty name")
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


_FORMS: Final[Mapping[Kind, Form]] = {
    Kind.ADDRESSES: _addresses,
    Kind.ROUTES: _routes,
    Kind.BYTE: _whole(1),
    Kind.SHORT: _whole(2),
    Kind.LONG: _whole(4),
    Kind.TIME: _time,
    Kind.DOMAINS: _domains,
    Kind.TEXT: _text,
}
"""All else is as it looks."""


def check_option(option: DhcpOption) -> None:
    """Refuse an option that no driver could tell a client, for whoever asks for one.

    Of what an IPv6 option says nothing is looked at, and of tags nothing: a driver may know more.

    :raises InvalidInput: naming its ``name`` or ``value``.
    """
    if option.code.lower() in CLIENT_ID[option.ip_version]:
        _refuse("value", check_client_id, option.value)
        return
    found = _found(option)
    if not option.value:
        _refuse("value", lambda _: check_left_out(option, found), option.value)
    if option.ip_version == 4 and not is_of_other_family(option, found):
        _coded(option)


def check_client_id(value: str) -> None:
    """Refuse what can not be the identifier that a client says, in words or octets.

    :raises ValueError: it is none, or more than one word.
    """
    if not _IDENTIFIER.fullmatch(value) or len(value) > _LONGEST:
        raise ValueError(
            f"is neither bytes in hexadecimal such as 01:0a:ff nor one word: {quote(value)}"
        )


def check_left_out(option: DhcpOption, found: Option) -> None:
    """Refuse to leave an option out, as an empty value asks, where that can not be.

    :raises ValueError: everybody must be told one, or only some are to be without it.
    """
    if option.tags:
        raise ValueError("is empty; an option is left out for all clients or for none")
    if found.code in _NEVER_EMPTY[option.ip_version]:
        raise ValueError("is empty; everybody has to be told one")


def is_of_other_family(option: DhcpOption, found: Option) -> bool:
    """Whether it asks to tell IPv4 clients IPv6 addresses alone, which says nothing to them.

    The API has always taken such, as those who ask leave out for which family they do.
    """
    if option.ip_version != 4 or found.kind is not Kind.ADDRESSES:
        return False
    try:
        return all(ipaddress.IPv6Address(each.strip()) for each in option.value.split(","))
    except ValueError:
        return False


def check_options(options: Sequence[DhcpOption]) -> None:
    """Look at options, whatever the source let pass; of those for IPv6, whether they are one each.

    :raises InvalidInput: one that could be several in somebody's files, or that is not known, or
        whose value is none for it; ``options[1].value`` is named.
    """
    for at, option in enumerate(options):
        try:
            _check(option)
            if _is_told(option):
                _conditions(option)
                _coded(option)
        except InvalidInput as exc:
            faults = {f"options[{at}].{name}": why for name, why in exc.faults.items()}
            raise InvalidInput(faults) from exc


def options_for(options: Iterable[DhcpOption], *, ipxe: bool) -> dict[int, bytes]:
    """What a client is told, by number; an empty value: it is not told.

    One that has a condition wins over one without.

    :raises InvalidInput: see :func:`check_options`.
    """
    return dict(
        _coded(option)
        for option in sorted(options, key=lambda option: len(option.tags))
        if _is_told(option) and _conditions(option) <= {ipxe}
    )


def option_value(option: DhcpOption) -> bytes:
    """The value of an option as it is sent; empty: it is not to be sent.

    :raises InvalidInput: nobody knows it by that name, or the value is none for it.
    """
    return _coded(option)[1]


def _coded(option: DhcpOption) -> tuple[int, bytes]:
    found = _found(option)
    try:
        form = _FORMS.get(found.kind, _as_it_looks)
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


def _is_told(option: DhcpOption) -> bool:
    """Whether it goes to IPv4 clients: a client's identifier is no option for him."""
    if option.ip_version != 4 or option.code.lower() in CLIENT_ID[4]:
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
    """Whether it is for clients that boot by iPXE, for those that do not, or for all."""
    strange = [tag for tag in option.tags if tag.removeprefix("!") != IPXE]
    if strange:
        raise InvalidInput({"name": f"tag:{strange[0]} means nothing here"})
    return frozenset(not tag.startswith("!") for tag in option.tags)
