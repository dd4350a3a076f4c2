"""Messages of OpenFlow 1.4 as bytes: frames, flow-mods, bundles, dumps and monitors.

Nothing in here does I/O.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from netfw.flows import BitLimit, Flow, PacketLimit, RateLimit
from netfw.ovs.openflow.encode import Encoded, Key, State
from netfw.ovs.openflow.nicira import NICIRA

VERSION = 5
HEADER = Struct("!BBHI")
_LONGEST = 0xFFFF
MULTIPART_SIZE = 16
"""Bytes of a multipart reply before its body."""


class Type(enum.IntEnum):
    """Kinds of messages."""

    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    EXPERIMENTER = 4
    FEATURES_REQUEST = 5
    FEATURES_REPLY = 6
    SET_CONFIG = 9
    PACKET_IN = 10
    FLOW_REMOVED = 11
    PORT_STATUS = 12
    PACKET_OUT = 13
    FLOW_MOD = 14
    MULTIPART_REQUEST = 18
    MULTIPART_REPLY = 19
    BARRIER_REQUEST = 20
    BARRIER_REPLY = 21
    METER_MOD = 29
    BUNDLE_CONTROL = 33
    BUNDLE_ADD = 34


class OpenFlowMessage(NamedTuple):
    """One whole message."""

    version: int
    type: int
    xid: int
    data: bytes
    """All of it, header included."""


class Framer:
    """Cuts a stream of bytes into messages, however they arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[OpenFlowMessage]:
        """Yield the messages that *chunk* completes.

        :raises ValueError: what arrives is not OpenFlow.
        """
        self._buffer += chunk
        position = 0
        try:
            while len(self._buffer) - position >= HEADER.size:
                version, kind, length, xid = HEADER.unpack_from(self._buffer, position)
                if length < HEADER.size or not 1 <= version <= 6:
                    raise ValueError(f"a message of version {version} and {length} bytes")
                if len(self._buffer) - position < length:
                    break
                data = bytes(self._buffer[position : position + length])
                position += length
                yield OpenFlowMessage(version, kind, xid, data)
        finally:
            del self._buffer[:position]


def message(kind: Type, xid: int, body: bytes = b"") -> bytes:
    """Encode a message of our version."""
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), xid) + body


_FLUSH_ZONE = Struct("!II6xH")
_FLUSH = 29


def match_first_fragments(xid: int) -> bytes:
    """Return the message (OFPC_FRAG_NX_MATCH) that makes first fragments match by their ports."""
    return message(Type.SET_CONFIG, xid, Struct("!HH").pack(3, 0))


def flush_zone(xid: int, zone: int) -> bytes:
    """Forget the connections of a zone."""
    return message(Type.EXPERIMENTER, xid, _FLUSH_ZONE.pack(NICIRA, _FLUSH, zone))


_ADD_METER, _MODIFY_METER, _DELETE_METER = 0, 1, 2
_KILOBITS, _PACKETS, _BURST = 1, 2, 4
_METER = Struct("!HHIHHII4x")
_NO_BAND = Struct("!HHI")


def add_meter(xid: int, limit: RateLimit) -> bytes:
    """Add a meter that drops packets beyond *limit*."""
    return _meter(xid, _ADD_METER, limit)


def modify_meter(xid: int, limit: RateLimit) -> bytes:
    """Change the meter of *limit*, which exists."""
    return _meter(xid, _MODIFY_METER, limit)


def delete_meter(xid: int, meter: int) -> bytes:
    """Delete a meter; the switch deletes all flows that name it."""
    return message(Type.METER_MOD, xid, _NO_BAND.pack(_DELETE_METER, 0, meter))


def _meter(xid: int, command: int, limit: RateLimit) -> bytes:
    band = (1, 16, limit.rate, limit.burst)
    unit = _KILOBITS if isinstance(limit, BitLimit) else _PACKETS
    body = _METER.pack(command, unit | _BURST, limit.meter, *band)
    return message(Type.METER_MOD, xid, body)


def hello() -> bytes:
    """Return a greeting that offers this version only."""
    return message(Type.HELLO, 0, Struct("!HHI").pack(1, 8, 1 << VERSION))


def speaks_ours(greeting: OpenFlowMessage) -> bool:
    """Return whether the sender of *greeting* supports our version."""
    position, data = HEADER.size, greeting.data
    while position + 8 <= len(data):
        kind, length, versions = Struct("!HHI").unpack_from(data, position)
        if kind == 1:
            return bool(versions >> VERSION & 1)
        position += max(8, length + -length % 8)
    return greeting.version >= VERSION


# Flow-mods and bundles

ADD, DELETE_STRICT = b"\0", b"\4"
OPEN, CLOSE, COMMIT, DISCARD = 0, 2, 4, 6
_ATOMIC_ORDERED = 3
_ADD_HEAD = Struct("!BBHIIxxHBBHI")
COMPARED = (1 << 63) - 1
"""The bits of a cookie that a removal compares; see `bundled_delete`."""
_NO_MASK, _SAME_COOKIE = bytes(8), COMPARED.to_bytes(8, "big")
_ANY = Struct("!IIIHH").pack(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0)
"""No buffer, any port, any group, no flags, no importance."""
_MATCH_TYPE = b"\0\x01"
_PADDING = tuple(bytes(-size % 8) for size in range(8))
_CONTROL = Struct("!IHH")


def bundle_control(xid: int, bundle: int, step: int) -> bytes:
    return message(Type.BUNDLE_CONTROL, xid, _CONTROL.pack(bundle, step, _ATOMIC_ORDERED))


def bundled_add(xid: int, bundle: int, key: Key, state: State) -> bytes:
    """Add a flow, or put it in the place of the one with the same key, as part of a bundle."""
    return _bundled(xid, bundle, ADD, _NO_MASK, key, state)


def bundled_delete(xid: int, bundle: int, key: Key, cookie: int) -> bytes:
    """Delete the flow with exactly this key, if it still has this cookie, as part of a bundle.

    The highest bit is not compared: asked for one whole cookie, the switch looks at all flows that
    have it, for each of the deletions, instead of at the one with the key.
    """
    state = cookie.to_bytes(8, "big") + bytes(4)
    return _bundled(xid, bundle, DELETE_STRICT, _SAME_COOKIE, key, state)


def flow_add(xid: int, key: Key, state: State) -> bytes:
    """Add a flow by a message of its own."""
    return bundled_add(xid, 0, key, state)[16:]


def encoding_problem(flow: Flow) -> str:
    """Return why *flow* does not fit into a message, or an empty text."""
    encoded = Encoded(flow)
    try:
        bundled_add(0, 0, encoded.key, encoded.state)
    except struct_error:
        return f"its message would have more than {_LONGEST} octets"
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError) as exc:
        return f"OpenFlow cannot express it ({exc!r})"
    return ""


def _bundled(  # noqa: PLR0917 - called ten thousand times in a row
    xid: int, bundle: int, command: bytes, mask: bytes, key: Key, state: State
) -> bytes:
    match_length = len(key) + 1  # a frame of four bytes in place of table and priority
    padding = _PADDING[match_length & 7]
    length = 48 + match_length + len(padding) + len(state) - 12
    return b"".join(
        (
            _ADD_HEAD.pack(
                VERSION, 34, 16 + length, xid, bundle, _ATOMIC_ORDERED, VERSION, 14, length, xid
            ),
            state[:8],
            mask,
            key[:1],
            command,
            state[8:12],
            key[1:3],
            _ANY,
            _MATCH_TYPE,
            match_length.to_bytes(2, "big"),
            key[3:],
            padding,
            state[12:],
        )
    )


# Dumps and monitors

MORE = 1
MULTIPART = Struct("!HHxxxx")
FLOW_STATS, METER_CONFIG, FLOW_MONITOR = 1, 10, 16
_FLOW_REQUEST = Struct("!BxxxIIxxxxQQ")
_MONITOR_REQUEST = Struct("!IIIHBB")
_EMPTY_MATCH = Struct("!HHxxxx").pack(1, 4)
_INITIAL, _ADDED, _REMOVED, _MODIFIED, _WITH_INSTRUCTIONS = 1, 2, 4, 8, 16
ALL_TABLES = 0xFF


def multipart(xid: int, kind: int, body: bytes) -> bytes:
    return message(Type.MULTIPART_REQUEST, xid, MULTIPART.pack(kind, 0) + body)


def dump_request(xid: int, table: int, cookie: int, mask: int) -> bytes:
    """Ask for the flows of *table* whose cookie is *cookie* in the bits of *mask*."""
    body = _FLOW_REQUEST.pack(table, 0xFFFFFFFF, 0xFFFFFFFF, cookie, mask)
    return multipart(xid, FLOW_STATS, body + _EMPTY_MATCH)


def meters_request(xid: int) -> bytes:
    """Ask for the configuration of all meters."""
    return multipart(xid, METER_CONFIG, Struct("!I4x").pack(0xFFFFFFFF))


def monitor_request(xid: int, monitor: int) -> bytes:
    """Ask for every flow there is and every change from now on; our own changes only as marks."""
    flags = _INITIAL | _ADDED | _REMOVED | _MODIFIED | _WITH_INSTRUCTIONS
    return _monitor(xid, monitor, flags, 0)


def monitor_end(xid: int, monitor: int) -> bytes:
    """Ask for no more reports of *monitor*."""
    return _monitor(xid, monitor, 0, 2)


def _monitor(xid: int, monitor: int, flags: int, command: int) -> bytes:
    body = _MONITOR_REQUEST.pack(monitor, 0xFFFFFFFF, 0xFFFFFFFF, flags, ALL_TABLES, command)
    return multipart(xid, FLOW_MONITOR, body + _EMPTY_MATCH)


def _after(position: int, length: int, least: int, end: int) -> int:
    if length < least or position + length > end:
        raise ValueError(f"an entry of {length} bytes where {end - position} are left")
    return position + length


_ENTRY = Struct("!Hcx8x2s4s6x8s16x2xH")
"""Length, table, priority, timeouts, cookie, and the length of the match."""


def read_dump(part: bytes) -> Iterator[tuple[Key, State]]:
    """Yield the flows in one part of a dump, as raw entries.

    :raises ValueError: it is cut short.
    """
    position, end = 16, len(part)
    while position < end:
        if end - position < 56:
            raise ValueError(f"an entry of {end - position} bytes")
        length, table, priority, timeouts, cookie, match = _ENTRY.unpack_from(part, position)
        after = _after(position, length, 56, end)
        fields = position + 48 + match
        yield (
            table + priority + part[position + 52 : fields],
            cookie + timeouts + part[fields + -match % 8 : after],
        )
        position = after


_METER_CONFIG = Struct("!HHI")
_BAND = Struct("!4xII")


def read_meters(part: bytes) -> Iterator[RateLimit]:
    """Yield the rate limit of each meter in one part of the answer: that of its first band.

    :raises ValueError: it is cut short.
    """
    position, end = 16, len(part)
    while position < end:
        if end - position < _METER_CONFIG.size + _BAND.size:
            raise ValueError(f"a meter of {end - position} bytes")
        length, flags, meter = _METER_CONFIG.unpack_from(part, position)
        rate, burst = _BAND.unpack_from(part, position + _METER_CONFIG.size)
        after = _after(position, length, _METER_CONFIG.size, end)
        if meter and rate and burst:  # without a burst, the meter is not ours
            yield (BitLimit if flags & _KILOBITS else PacketLimit)(meter, rate, burst)
        position = after


class FlowUpdateEvent(enum.IntEnum):
    """What a monitor tells about a flow."""

    INITIAL = 0
    ADDED = 1
    REMOVED = 2
    MODIFIED = 3
    OWN = 4
    PAUSED = 5
    RESUMED = 6


class FlowEvent(NamedTuple):
    """A flow that is there, was added, changed or removed; or a mark for our own change *xid*."""

    event: FlowUpdateEvent
    key: Key = b""
    state: State = b""
    xid: int = 0


_MARK = Struct("!HHI")
_UPDATE = Struct("!2x2xcx4s2s4x8s2xH")
"""Table, timeouts, priority, cookie, and the length of the match."""


def read_monitor(part: bytes) -> Iterator[FlowEvent]:
    """Yield the events in one part of the report of a monitor.

    :raises ValueError: it is cut short.
    """
    position, end = 16, len(part)
    while position < end:
        if end - position < _MARK.size:
            raise ValueError(f"a report of {end - position} bytes")
        length, number, xid = _MARK.unpack_from(part, position)
        event = FlowUpdateEvent(number)
        after = _after(position, length, 8 if event >= FlowUpdateEvent.OWN else 32, end)
        if event >= FlowUpdateEvent.OWN:
            yield FlowEvent(event, xid=xid)
        else:
            yield FlowEvent(event, *_update(part, position, after))
        position = after


def _update(part: bytes, position: int, after: int) -> tuple[Key, State]:
    table, timeouts, priority, cookie, match = _UPDATE.unpack_from(part, position)
    fields = position + 24 + match
    return (
        table + priority + part[position + 28 : fields],
        cookie + timeouts + part[fields + -match % 8 : after],
    )
