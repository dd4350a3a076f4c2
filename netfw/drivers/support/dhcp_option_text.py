"""Values of DHCP options as text, in the format of dnsmasq's files.  Pure.

The server refuses by the same functions what a driver could not send.  dnsmasq guesses from the
letters of a value what it is, and takes some that it cannot read for something else.  So a value is
refused here unless it is known what dnsmasq makes of it; nothing is escaped or put right.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from netfw.drivers.support.dhcp_options import (
    Option,
    OptionFormat,
    check_client_id,
    check_left_out,
    find_option,
    is_client_id,
    is_of_other_family,
    option_value,
    parse_seconds,
)
from netfw.errors import InvalidInput
from netfw.model.values.address import IpAddress, as_address, as_network
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.text_validation import check_dns_name, quote

LENGTH = {4: 255, 6: 800}
"""Limit of an option's value in bytes; DHCPv6 allows more, but dnsmasq reads the rest of a line
after its 1024th byte as another line."""
_LINE_LENGTH = 900
_PRINTABLE = re.compile(r"[ -~]*")
_BYTES = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2})+")
_LIKE_BYTES = re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_NUMBER = re.compile(r"[0-9]{1,10}[bsi]?")
_LIKE_NUMBER = re.compile(r"[0-9-]*[0-9][0-9-]*[bsi]?")
_LIKE_ADDRESSES = {4: re.compile(r"[0-9., /]*"), 6: re.compile(r"[0-9a-fA-F:., \[\]]*:[^/]*")}
_INT_MAX = (1 << 31) - 1


def check_option(option: DhcpOption) -> None:
    """Refuse an option that a driver cannot send to a client.  Tags are not checked.

    :raises InvalidInput: names its ``name`` or ``value``.
    """
    try:
        found = None if is_client_id(option) else find_option(option.ip_version, option.code)
    except ValueError as exc:
        raise InvalidInput({"name": str(exc)}) from exc
    try:
        if found is None:
            render_client_id(option.value)
        elif not option.value:
            check_left_out(option, found)
        elif not is_of_other_family(option, found):
            render_value(found, option.ip_version, option.value)
    except ValueError as exc:
        raise InvalidInput({"value": str(exc)}) from exc
    if found is not None and option.ip_version == 4 and not is_of_other_family(option, found):
        option_value(option)


def check_line(text: str) -> None:
    """Validate that dnsmasq reads *text* literally.

    :raises ValueError: it would end the line, begin a comment or a quotation, or be stripped.
    """
    if not _PRINTABLE.fullmatch(text):
        raise ValueError(f"has other than printable ASCII characters: {quote(text)}")
    if '"' in text:
        raise ValueError(f"has a quotation mark, which dnsmasq takes out: {quote(text)}")
    if " #" in text or text.startswith("#"):
        raise ValueError(f"has a # that dnsmasq takes for a comment: {quote(text)}")
    if text != text.strip():
        raise ValueError(f"begins or ends with a space: {quote(text)}")


def render_value(option: Option, version: int, value: str) -> str:
    """Render *value* for a file; empty: the option is not sent.

    :raises ValueError: it is invalid for that option, or dnsmasq would misread it.
    """
    if not value:
        return ""
    check_line(value)
    text, size = _RENDER[option.format](value, version)
    if size > LENGTH[version]:
        raise ValueError(f"is {size} bytes long; {LENGTH[version]} is the most")
    if len(text) > _LINE_LENGTH:
        raise ValueError(f"has {len(text)} characters; {_LINE_LENGTH} is the most")
    return text


Rendered = tuple[str, int]
"""Text, and its number of bytes on the wire."""


def _addresses(value: str, version: int) -> Rendered:
    found = [_address(word.strip(), version) for word in value.split(",")]
    texts = [str(address) if version == 4 else f"[{address}]" for address in found]
    return ",".join(texts), sum(len(address.packed) for address in found)


def _address(word: str, version: int) -> IpAddress:
    bare = word[1:-1] if version == 6 and word.startswith("[") and word.endswith("]") else word
    address = as_address(bare)
    if address.version != version:
        raise ValueError(f"{address} is no IPv{version} address")
    return address


def _routes(value: str, version: int) -> Rendered:
    words = [word.strip() for word in value.split(",")]
    if len(words) % 2:
        raise ValueError(f"is no list of PREFIX,NEXTHOP,...: {quote(value)}")
    texts, size = [], 0
    for prefix, nexthop in zip(words[::2], words[1::2], strict=True):
        network, address = as_network(prefix), as_address(nexthop)
        if {network.version, address.version} != {version}:
            raise ValueError(f"{network},{address} is of another family")
        texts.append(f"{network},{address}")
        size += 1 + (network.prefixlen + 7) // 8 + len(address.packed)
    return ",".join(texts), size


def _whole(size: int) -> Callable[[str, int], Rendered]:
    low, high = (-(1 << 31), _INT_MAX) if size == 4 else (0, (1 << 8 * size) - 1)

    def render(value: str, version: int) -> Rendered:
        if not re.fullmatch(r"-?[0-9]{1,10}", value) or not low <= int(value) <= high:
            raise ValueError(f"is no whole number from {low} to {high}: {quote(value)}")
        return value, size

    return render


def _time(value: str, version: int) -> Rendered:
    if parse_seconds(value) > _INT_MAX:
        raise ValueError(f"is more than {_INT_MAX} seconds: {quote(value)}")
    return value, 4


def _domains(value: str, version: int) -> Rendered:
    names = [word.strip() for word in value.split(",")]
    for name in names:
        check_domain(name)
    return ",".join(names), sum(len(name.removesuffix(".")) + 2 for name in names)


def _servers(value: str, version: int) -> Rendered:
    return (_addresses if _LIKE_ADDRESSES[version].fullmatch(value) else _domains)(value, version)


def _octets(value: str, version: int) -> Rendered:
    if _LIKE_NUMBER.fullmatch(value):
        raise ValueError(f"is a number; write bytes in hexadecimal such as 0a:ff: {quote(value)}")
    return _free(value, version)


def _text(value: str, version: int) -> Rendered:
    return value, len(value)


def _texts(value: str, version: int) -> Rendered:
    words = value.split(",")
    if any(not word or word != word.strip() for word in words):
        raise ValueError(f"has an empty part, or spaces around one: {quote(value)}")
    return value, sum(2 + len(word) for word in words)


def _free(value: str, version: int) -> Rendered:
    if _BYTES.fullmatch(value):
        return value, value.count(":") + 1
    if version == 4 and _LIKE_BYTES.fullmatch(value):
        raise ValueError(f"is nearly bytes in hexadecimal such as 0a:ff:12: {quote(value)}")
    if _NUMBER.fullmatch(value) and int(value.rstrip("bsi")) <= _INT_MAX:
        return value, 4
    if _LIKE_NUMBER.fullmatch(value):
        raise ValueError(f"is nearly a number up to {_INT_MAX}: {quote(value)}")
    if _LIKE_ADDRESSES[version].fullmatch(value):
        if version == 6 and "[" not in value:
            raise ValueError(f"is an address only in brackets: {quote(value)}")
        return _routes(value, version) if "/" in value else _addresses(value, version)
    return _text(value, version)


_RENDER: dict[OptionFormat, Callable[[str, int], Rendered]] = {
    OptionFormat.ADDRESSES: _addresses,
    OptionFormat.ROUTES: _routes,
    OptionFormat.BYTE: _whole(1),
    OptionFormat.SHORT: _whole(2),
    OptionFormat.LONG: _whole(4),
    OptionFormat.TIME: _time,
    OptionFormat.DOMAINS: _domains,
    OptionFormat.SERVERS: _servers,
    OptionFormat.OCTETS: _octets,
    OptionFormat.TEXT: _text,
    OptionFormat.TEXTS: _texts,
    OptionFormat.FREE: _free,
}


def check_domain(name: str) -> None:
    """Validate a DNS name for dnsmasq.

    :raises ValueError: it is invalid, or dnsmasq would treat it as an internationalised name, as
        it does with capital letters.
    """
    if not name:
        raise ValueError("is empty")
    check_dns_name(name)
    labels = name.removesuffix(".").split(".")
    if name != name.lower() and any(label[2:4] == "--" for label in labels):
        raise ValueError(f"has -- in third place and a capital letter: {quote(name)}")


def render_client_id(value: str) -> str:
    """Render a client identifier for ``id:`` in a host file.

    :raises ValueError: it is invalid, or would be more than one word.
    """
    check_line(value)
    check_client_id(value)
    return value
