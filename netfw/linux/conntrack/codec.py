"""The netlink messages of connection tracking.  Pure: bytes and values.

Implemented here because a dump of thousands of connections has to be fast, and because an entry
is removed by sending back the very bytes that identify it.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

from netfw.linux.conntrack.entry import ConntrackEntry, ConntrackTuple, TrackedConnection
from netfw.linux.netlink.messages import (
    NLM_F_ACK,
    NLM_F_DUMP,
    parse_attributes,
    render_attribute,
    render_message,
)

_SUBSYSTEM = 1 << 8
_GET, _DELETE = _SUBSYSTEM | 1, _SUBSYSTEM | 2
_NESTED = 0x8000

_ORIGINAL, _REPLY, _STATUS, _TIMEOUT, _MARK, _ID, _ZONE, _MARK_MASK = 1, 2, 3, 7, 8, 12, 18, 21
_TUPLE_IP, _TUPLE_PROTO, _TUPLE_ZONE = 1, 2, 3
_V4_SOURCE, _V4_DESTINATION, _V6_SOURCE, _V6_DESTINATION = 1, 2, 3, 4
_PROTOCOL, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3

_GENERIC = struct.Struct("=BBH")


def dump_request(sequence: int, family: int, mark: tuple[int, int] | None) -> bytes:
    """Build a request for all entries of a family (0: all), or those with *mark* (value, mask)."""
    body = _GENERIC.pack(family, 0, 0)
    if mark is not None:
        body += render_attribute(_MARK, struct.pack(">I", mark[0]))
        body += render_attribute(_MARK_MASK, struct.pack(">I", mark[1]))
    return render_message(_GET, NLM_F_DUMP, sequence, body)


def delete_request(sequence: int, entry: ConntrackEntry) -> bytes:
    """Build a request to remove exactly this entry, not a successor with the same addresses."""
    body = _GENERIC.pack(entry.address_family, 0, 0) + render_attribute(
        _ORIGINAL | _NESTED, entry.raw
    )
    # A zone of the original direction alone is among the bytes; the kernel refuses it twice.
    if entry.connection.zone and _TUPLE_ZONE not in parse_attributes(memoryview(entry.raw)):
        body += render_attribute(_ZONE, struct.pack(">H", entry.connection.zone))
    body += render_attribute(_ID, struct.pack(">I", entry.id))
    return render_message(_DELETE, NLM_F_ACK, sequence, body)


def decode_entry(body: memoryview) -> ConntrackEntry:
    """Decode the entry in the body of a message."""
    attributes = parse_attributes(body[_GENERIC.size :])
    raw = attributes[_ORIGINAL]
    original = parse_attributes(raw)
    zone = attributes.get(_ZONE) or original.get(_TUPLE_ZONE)
    connection = TrackedConnection(
        original=_flow(original),
        reply=_flow(parse_attributes(attributes[_REPLY])),
        mark=_number(attributes.get(_MARK)),
        zone=_number(zone),
        status=_number(attributes.get(_STATUS)),
        timeout=_number(attributes.get(_TIMEOUT)),
    )
    return ConntrackEntry(connection, _number(attributes.get(_ID)), body[0], bytes(raw))


def _flow(attributes: dict[int, memoryview]) -> ConntrackTuple:
    addresses = parse_attributes(attributes[_TUPLE_IP])
    protocol = parse_attributes(attributes[_TUPLE_PROTO])
    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    if _V4_SOURCE in addresses:
        source = IPv4Address(bytes(addresses[_V4_SOURCE]))
        destination = IPv4Address(bytes(addresses[_V4_DESTINATION]))
    else:
        source = IPv6Address(bytes(addresses[_V6_SOURCE]))
        destination = IPv6Address(bytes(addresses[_V6_DESTINATION]))
    ports = [protocol.get(_SOURCE_PORT), protocol.get(_DESTINATION_PORT)]
    source_port, destination_port = (None if each is None else _number(each) for each in ports)
    return ConntrackTuple(
        protocol=_number(protocol.get(_PROTOCOL)),
        source=source,
        destination=destination,
        source_port=source_port,
        destination_port=destination_port,
    )


def _number(value: memoryview | None) -> int:
    return 0 if value is None else int.from_bytes(value, "big")
