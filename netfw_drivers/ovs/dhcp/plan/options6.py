"""Requested options of DHCPv6, encoded.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address
from typing import Final

from netfw.drivers.support.dhcp_options import (
    OptionFormat,
    encode_domains,
    find_option,
    is_client_id,
    parse_seconds,
)
from netfw.errors import InvalidInput
from netfw.model.values.dhcp_option import DhcpOption

_LONGEST: Final = 800
_OCTETS: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2})+")
_NTP_ADDRESS: Final = bytes((0, 1, 0, 16))
_NTP_SERVER: Final = 56


def options6_for(options: Iterable[DhcpOption]) -> dict[int, bytes]:
    """Return the IPv6 options, encoded, by number; one with an empty value is not sent.

    :raises InvalidInput: a name is not known, or a value is invalid.
    """
    coded = (
        _encode(option)
        for option in options
        if option.ip_version == 6 and not is_client_id(option) and not option.tags
    )
    return dict(coded)


def option6_problem(option: DhcpOption) -> tuple[str, str] | None:
    """Return the field of an IPv6 option that cannot be sent, and why; ``None``: it can be."""
    try:
        options6_for((option,))
    except InvalidInput as exc:
        return next(iter(exc.problems.items()))
    return None


def encode_addresses6(text: str) -> bytes:
    """Encode IPv6 addresses, separated by commas.

    :raises ValueError: one of them is none.
    """
    words = (each.strip().removeprefix("[").removesuffix("]") for each in text.split(","))
    return b"".join(IPv6Address(word).packed for word in words)


def _encode(option: DhcpOption) -> tuple[int, bytes]:
    try:
        found = find_option(6, option.code)
    except ValueError as exc:
        raise InvalidInput({"name": str(exc)}) from exc
    if not option.value:
        return found.code, b""
    try:
        value = _FORMS.get(found.format, _as_it_looks)(option.value)
    except (ValueError, OverflowError) as exc:
        raise InvalidInput({"value": f"{option.value!r} is none for {option.code}: {exc}"}) from exc
    if found.code == _NTP_SERVER:
        value = b"".join(_NTP_ADDRESS + value[at : at + 16] for at in range(0, len(value), 16))
    if len(value) > _LONGEST:
        raise InvalidInput({"value": f"longer than {_LONGEST} octets"})
    return found.code, value


def _texts(text: str) -> bytes:
    parts = [each.strip().encode() for each in text.split(",")]
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def _as_it_looks(text: str) -> bytes:
    if _OCTETS.fullmatch(text):
        return bytes.fromhex(text.replace(":", ""))
    try:
        return encode_addresses6(text)
    except ValueError:
        return text.encode()


_FORMS: Final[Mapping[OptionFormat, Callable[[str], bytes]]] = {
    OptionFormat.ADDRESSES: encode_addresses6,
    OptionFormat.SERVERS: encode_addresses6,
    OptionFormat.DOMAINS: encode_domains,
    OptionFormat.TIME: lambda text: parse_seconds(text).to_bytes(4, "big"),
    OptionFormat.TEXT: str.encode,
    OptionFormat.TEXTS: _texts,
}
"""Encoders by format; any other format is encoded as it looks."""
