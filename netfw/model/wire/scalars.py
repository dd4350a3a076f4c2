"""The codecs of single values: texts, numbers, addresses, times, words from a fixed set."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from netfw.errors import nearest
from netfw.model.binding import check_vif_type
from netfw.model.router import VRIDS
from netfw.model.subnet import PREFIX_DELEGATION
from netfw.model.values.address import IpAddress, IpNetwork, Mac, as_address, as_network
from netfw.model.values.device_names import check_device_name
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import NAMES, NUMBERS
from netfw.model.values.text_validation import (
    check_dhcp_option_name,
    check_dhcp_option_value,
    check_dns_name,
    check_host,
    check_physical_network,
    check_socket_path,
    check_text,
    check_token,
    quote,
)
from netfw.model.values.validation import InvalidValue
from netfw.model.wire.codec import ABSENT, Absent, CodecError, Json, Scalar, describe

E = TypeVar("E", bound=enum.Enum)

ADDRESS_LENGTH = 64
"""No address, prefix, id or time is longer; longer text is refused unparsed."""

_UUID = re.compile(
    r"(?i)[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.ASCII
)
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_INTERFACE = re.compile(r"[0-9A-Fa-f.:]+/[0-9]{1,3}")
_RANGE = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def text(check: Callable[[str], object] | None = None) -> Scalar[str]:
    """Return a codec of one line of text that *check* accepts."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"not text: {describe(raw)}")
        check_text(raw)
        if check is not None:
            check(raw)
        return str(raw)

    return Scalar(parse, str)


def integer(least: int, most: int) -> Scalar[int]:
    """Return a codec of a whole number, also as decimal digits.  ``True`` is not 1."""

    def parse(raw: object) -> int:
        if isinstance(raw, str) and _INTEGER.fullmatch(raw):
            raw = int(raw)
        if isinstance(raw, bool) or not isinstance(raw, int):
            raise ValueError(f"not a whole number: {describe(raw)}")
        if not least <= raw <= most:
            raise ValueError(f"{describe(raw)} is outside {least} to {most}")
        return int(raw)

    return Scalar(parse, int)


def choice(words: type[E], fold: bool = False) -> Scalar[E]:
    """Return a codec of a word of *words*; with *fold*, in upper or lower case."""
    known = {_folded(word.value, fold): word for word in words}

    def parse(raw: object) -> E:
        word = known.get(_folded(raw, fold)) if isinstance(raw, str) else None
        if word is None:
            names = [member.value for member in words]
            near = nearest(raw, names) if isinstance(raw, str) and len(raw) < 64 else ""
            raise ValueError(f"{describe(raw)} is none of {', '.join(names)}{near}")
        return word

    return Scalar(parse, lambda word: str(word.value))


def _folded(word: str, fold: bool) -> str:
    return word.lower() if fold else word


def _short(raw: object, what: str) -> str:
    if not isinstance(raw, str) or len(raw) > ADDRESS_LENGTH:
        raise ValueError(f"not {what}: {describe(raw)}")
    return raw


def _parse_boolean(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"neither true nor false: {describe(raw)}")
    return raw


def _parse_id(raw: object) -> UUID:
    known = _short(raw, "an id")
    if not _UUID.fullmatch(known):
        raise ValueError(f"not an id: {quote(known)}")
    return UUID(known)


def _parse_subnet_pool(raw: object) -> UUID | str:
    return PREFIX_DELEGATION if raw == PREFIX_DELEGATION else _parse_id(raw)


def _parse_address(raw: object) -> IpAddress:
    known = _short(raw, "an IP address")
    try:
        return as_address(known)
    except ValueError as exc:
        raise ValueError(f"not an IP address: {quote(known)}") from exc


def _parse_prefix(raw: object) -> IpNetwork:
    known = _short(raw, "an IP prefix")
    try:
        return as_network(known)
    except ValueError as exc:
        hint = _prefix_of(known) or "192.0.2.0/24 or 2001:db8::/64"
        raise ValueError(f"not an IP prefix like {hint}: {quote(known)}") from exc


def _parse_cidr(raw: object) -> IpNetwork:
    known = _short(raw, "an IP prefix")
    return _parse_prefix(_prefix_of(known) or known)


def _prefix_of(known: str) -> str | None:
    """Return the prefix that an address with a prefix length belongs to."""
    if not _INTERFACE.fullmatch(known):
        return None
    try:
        return str(ipaddress.ip_interface(known).network)
    except ValueError:
        return None


def _render_prefix(prefix: IpNetwork) -> str:
    """Render a prefix of full length as an address alone, as users write it."""
    whole = prefix.prefixlen == prefix.max_prefixlen
    return str(prefix.network_address) if whole else str(prefix)


def _parse_mac(raw: object) -> Mac:
    return Mac(_short(raw, "a MAC address"))


def _parse_time(raw: object) -> datetime:
    known = _short(raw, "a time")
    if not _TIME.fullmatch(known):
        raise ValueError(f"not a time like 2030-01-31T12:00:00Z: {quote(known)}")
    try:
        moment = datetime.fromisoformat(known)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"no such time: {quote(known)}") from exc


def _render_time(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _parse_protocol(raw: object) -> int | None:
    """Parse a name or a number; ``any`` and 0 are all protocols."""
    if raw is None:
        return None
    if isinstance(raw, str) and len(raw) < 32:
        word = raw.lower()
        if word in NUMBERS:
            return NUMBERS[word]
        if word == "any":
            return None
        if not _INTEGER.fullmatch(word):
            raise ValueError(f"no such protocol: {quote(raw)}{nearest(word, NUMBERS)}")
    return integer(0, 255).parse(raw) or None


def _render_protocol(number: int | None) -> Json:
    return None if number is None else NAMES.get(number, str(number))


def _parse_ip_version(raw: object) -> int:
    version = integer(0, 255).parse(raw)
    if version not in (4, 6):
        raise ValueError(f"neither 4 nor 6: {version}")
    return version


def _parse_port_range(raw: object) -> PortRange:
    match = _RANGE.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        raise ValueError(f"not a range of ports like 80:90: {describe(raw)}")
    return PortRange(int(match[1]), int(match[2]))


def _parse_single_port(raw: object) -> PortRange:
    return PortRange.single(PORT_NUMBER.parse(raw))


def _render_single_port(ports: PortRange) -> int | Absent:
    return ports.first if len(ports) == 1 else ABSENT


def _parse_document(raw: object) -> JsonDocument:
    if not isinstance(raw, Mapping):
        raise ValueError(f"not an object: {describe(raw)}")
    try:
        return JsonDocument(raw)
    except InvalidValue as exc:
        raise CodecError(dict(exc.problems)) from exc


def _empty_or(check: Callable[[str], object]) -> Callable[[str], object]:
    return lambda value: check(value) if value else None


def _check_filled(value: str) -> None:
    if not value:
        raise ValueError("must not be empty")


TEXT = text()
TAG = text(_check_filled)
HOST = text(check_host)
HOST_OR_EMPTY = text(_empty_or(check_host))
TOKEN = text(check_token)
DNS_NAME = text(check_dns_name)
PHYSICAL_NETWORK = text(check_physical_network)
DHCP_OPTION_NAME = text(check_dhcp_option_name)
DHCP_OPTION_VALUE = text(check_dhcp_option_value)
DEVICE_NAME = text(check_device_name)
SOCKET_PATH = text(check_socket_path)
VIF_TYPE = text(check_vif_type)

BOOLEAN: Scalar[bool] = Scalar(_parse_boolean, bool)
REVISION = integer(0, 2**63 - 1)
NUMBER = integer(0, 2**32 - 1)
PORT_NUMBER = integer(1, 65535)
VRID = integer(VRIDS[0], VRIDS[-1])
IP_VERSION: Scalar[int] = Scalar(_parse_ip_version, int)

ID: Scalar[Any] = Scalar(_parse_id, str)
SUBNET_POOL: Scalar[Any] = Scalar(_parse_subnet_pool, str)
ADDRESS: Scalar[IpAddress] = Scalar(_parse_address, str)
PREFIX: Scalar[IpNetwork] = Scalar(_parse_prefix, str)
PREFIX_OR_ADDRESS: Scalar[IpNetwork] = Scalar(_parse_prefix, _render_prefix)
CIDR: Scalar[IpNetwork] = Scalar(_parse_cidr, str)
"""A prefix whose host bits do not matter: they are cleared."""
DOCUMENT: Scalar[JsonDocument] = Scalar(_parse_document, JsonDocument.content)
MAC: Scalar[Mac] = Scalar(_parse_mac, str)
TIME: Scalar[datetime] = Scalar(_parse_time, _render_time)
PROTOCOL: Scalar[int | None] = Scalar(_parse_protocol, _render_protocol)
PORT_RANGE: Scalar[PortRange] = Scalar(_parse_port_range, str)
SINGLE_PORT: Scalar[PortRange] = Scalar(_parse_single_port, _render_single_port)
