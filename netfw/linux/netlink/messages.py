"""Netlink messages (nlmsghdr, nlattr, nlmsgerr) as bytes.  Pure."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x1, 0x4, 0x10, 0x300

_FINAL = (NLMSG_ERROR, NLMSG_DONE)
_NLM_F_CAPPED, _NLM_F_ACK_TLVS = 0x100, 0x200
_NLMSGERR_ATTR_MSG = 1
HEADER = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence number, port."""
_ATTRIBUTE = struct.Struct("=HH")
_ERRNO = struct.Struct("=i")
_TYPE_MASK = 0x3FFF
"""Without the flags of nested attributes and network byte order."""


class NetlinkMessage(NamedTuple):
    """One message of a datagram; the body follows the header."""

    kind: int
    flags: int
    sequence: int
    body: memoryview

    @property
    def is_final(self) -> bool:
        """Whether the kernel sends no more in reply: an error, an acknowledgement, or the end."""
        return self.kind in _FINAL

    @property
    def error_number(self) -> int:
        """The errno of a final message; 0 for success."""
        return -int(_ERRNO.unpack_from(self.body)[0]) if len(self.body) >= _ERRNO.size else 0

    @property
    def error_text(self) -> str:
        """The kernel's explanation in an extended acknowledgement; empty if there is none."""
        if not self.flags & _NLM_F_ACK_TLVS:
            return ""
        start = _ERRNO.size if self.kind == NLMSG_DONE else self._end_of_echo()
        text = parse_attributes(self.body[start:]).get(_NLMSGERR_ATTR_MSG, b"")
        return bytes(text).rstrip(b"\0").decode(errors="replace")

    def _end_of_echo(self) -> int:
        """Return where the request that an error repeats ends: its header alone, or all of it."""
        if self.flags & _NLM_F_CAPPED:
            return _ERRNO.size + HEADER.size
        (length,) = struct.unpack_from("=I", self.body, _ERRNO.size)
        return _ERRNO.size + _aligned(int(length))


def parse_messages(data: bytes, containing: Collection[bytes] = ()) -> Iterator[NetlinkMessage]:
    """Yield the messages of a datagram.

    :param containing: skip messages that contain none of these bytes and are not final, at a small
        part of the cost of decoding them.
    """
    view, offset = memoryview(data), 0
    sought = [each for each in containing if each in data]
    while offset + HEADER.size <= len(data):
        length, kind, flags, sequence, _port = HEADER.unpack_from(data, offset)
        if length < HEADER.size:
            return
        start, end = offset + HEADER.size, offset + length
        if (
            not containing
            or (sought and any(data.find(each, start, end) >= 0 for each in sought))
            or kind in _FINAL
        ):
            yield NetlinkMessage(kind, flags, sequence, view[start:end])
        offset += _aligned(length)


def parse_attributes(data: memoryview) -> dict[int, memoryview]:
    """Return the values of the attributes in *data*, by type."""
    attributes, offset = {}, 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size:
            break
        attributes[kind & _TYPE_MASK] = data[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
    return attributes


def render_message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """Render one request."""
    size = HEADER.size + len(body)
    return HEADER.pack(size, kind, flags | NLM_F_REQUEST, sequence, 0) + body


def render_attribute(kind: int, value: bytes) -> bytes:
    """Render one attribute, padded to four bytes."""
    padding = b"\0" * (-len(value) % 4)
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + padding


def _aligned(length: int) -> int:
    return (length + 3) & ~3
