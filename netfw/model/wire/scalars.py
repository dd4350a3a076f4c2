"""The codecs of single values: texts, numbers, addresses, times, words from a fixed set."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from netfw.errors import nearest
from netfw.model.binding import check_vif_type
from netfw.model.router import VRIDS
from netfw.model.segment import NAME_PATTERN, NetworkType
from netfw.model.subnet import PREFIX_DELEGATION
from netfw.model.values import text_validation
from netfw.model.values.address import IpAddress, IpNetwork, Mac, as_address, as_network
from netfw.model.values.device_names import check_device_name
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import NAMES, NUMBERS
from netfw.model.values.text_validation import (
    TEXT_LENGTH,
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
from netfw.model.wire.codec import (
    ABSENT,
    NULL,
    Absent,
    CodecError,
    Json,
    Scalar,
    Schema,
    describe,
)

E = TypeVar("E", bound=enum.Enum)

ADDRESS_LENGTH = 64
"""No address, prefix, id or time is longer; longer text is refused unparsed."""

_UUID = re.compile(
    r"(?i)[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.ASCII
)
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_PRINTABLE = "[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]"
_INTERFACE = re.compile(r"[0-9A-Fa-f.:]+/[0-9]{1,3}")
_LABEL = text_validation.LABEL.pattern
_RANGE = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def text(
    check: Callable[[str], object] | None = None,
    pattern: str = f"{_PRINTABLE}*",
) -> Scalar[str]:
    """Return a codec of one line of text that *check* accepts; *pattern* is for its schema."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"not text: {describe(raw)}")
        check_text(raw)
        if check is not None:
            check(raw)
        return str(raw)

    return Scalar(
        parse, str, {"type": "string", "maxLength": TEXT_LENGTH, "pattern": f"^{pattern}$"}
    )


def _parse_network_type(raw: object) -> NetworkType:
    if not isinstance(raw, str):
        raise ValueError(f"not text: {describe(raw)}")
    return NetworkType(raw)


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

    return Scalar(parse, int, {"type": "integer", "minimum": least, "maximum": most})


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

    schema = {"type": "string", "enum": [word.value for word in words]}
    return Scalar(parse, lambda word: str(word.value), schema)


def word_of(words: Sequence[str]) -> Scalar[str]:
    """Return a codec of one of *words*."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str) or raw not in words:
            raise ValueError(f"{describe(raw)} is none of {', '.join(words)}")
        return raw

    return Scalar(parse, str, {"type": "string", "enum": list(words)})


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
TAG = text(_check_filled, f"{_PRINTABLE}+")
HOST = text(check_host, text_validation.HOST.pattern)
HOST_OR_EMPTY = text(_empty_or(check_host), f"({text_validation.HOST.pattern})?")
TOKEN = text(check_token, text_validation.TOKEN.pattern)
DNS_NAME = text(check_dns_name, rf"({_LABEL}(\.{_LABEL})*\.?)?")
NETWORK_TYPE = Scalar(_parse_network_type, str, {"type": "string", "pattern": f"^{NAME_PATTERN}$"})
"""The name of any type: which of them a server or a host has is known to its drivers."""
PHYSICAL_NETWORK = text(check_physical_network, text_validation.PHYSICAL_NETWORK.pattern)
DHCP_OPTION_NAME = text(check_dhcp_option_name, text_validation.DHCP_OPTION_NAME.pattern)
DHCP_OPTION_VALUE = text(check_dhcp_option_value)
DEVICE_NAME = text(check_device_name)
SOCKET_PATH = text(check_socket_path, text_validation.SOCKET_PATH.pattern)
VIF_TYPE = text(check_vif_type)

BOOLEAN: Scalar[bool] = Scalar(_parse_boolean, bool, {"type": "boolean"})
REVISION = integer(0, 2**63 - 1)
NUMBER = integer(0, 2**32 - 1)
PORT_NUMBER = integer(1, 65535)
VRID = integer(VRIDS[0], VRIDS[-1])
IP_VERSION: Scalar[int] = Scalar(_parse_ip_version, int, {"type": "integer", "enum": [4, 6]})

_ID: Schema = {"type": "string", "format": "uuid"}
_ADDRESS: Schema = {
    "anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]
}
_PREFIX: Schema = {"type": "string", "format": "ip-prefix", "maxLength": ADDRESS_LENGTH}
_MAC: Schema = {"type": "string", "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"}

ID: Scalar[Any] = Scalar(_parse_id, str, _ID)
SUBNET_POOL: Scalar[Any] = Scalar(
    _parse_subnet_pool, str, {"anyOf": [_ID, {"const": PREFIX_DELEGATION}]}
)
ADDRESS: Scalar[IpAddress] = Scalar(_parse_address, str, _ADDRESS)
PREFIX: Scalar[IpNetwork] = Scalar(_parse_prefix, str, _PREFIX)
PREFIX_OR_ADDRESS: Scalar[IpNetwork] = Scalar(
    _parse_prefix, _render_prefix, {"anyOf": [_PREFIX, *_ADDRESS["anyOf"]]}
)
CIDR: Scalar[IpNetwork] = Scalar(_parse_cidr, str, _PREFIX)
"""A prefix whose host bits do not matter: they are cleared."""
DOCUMENT: Scalar[JsonDocument] = Scalar(_parse_document, JsonDocument.content, {"type": "object"})
MAC: Scalar[Mac] = Scalar(_parse_mac, str, _MAC)
TIME: Scalar[datetime] = Scalar(
    _parse_time, _render_time, {"type": "string", "format": "date-time"}
)
PROTOCOL_SCHEMA: Schema = {
    "anyOf": [
        {"type": "string", "enum": ["any", *NUMBERS]},
        {"type": "string", "pattern": "^(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])$"},
        NULL,
    ]
}
PROTOCOL: Scalar[int | None] = Scalar(_parse_protocol, _render_protocol, PROTOCOL_SCHEMA)
PORT_RANGE: Scalar[PortRange] = Scalar(
    _parse_port_range, str, {"type": "string", "pattern": "^[0-9]{1,5}:[0-9]{1,5}$"}
)
SINGLE_PORT: Scalar[PortRange] = Scalar(_parse_single_port, _render_single_port, PORT_NUMBER.schema)
