"""Wire format: frames of a JSON header and a body.  Pure.

A frame is four bytes of length (of what follows), two bytes of the header's length, the header and
the body.  The length is checked before any of the frame is stored.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from netfw.drivers.transport import Message

PROTOCOL: Final = 2
"""Version of frames and handshake; the first frame of a server states it."""
_LENGTH = struct.Struct("!I")
_HEADER_LENGTH = struct.Struct("!H")
_LARGEST_HEADER = 0xFFFF


class Malformed(ValueError):
    """The peer sent an invalid or unexpected frame; the text says why."""


@frozen
class Frame:
    """Header and body as received; fields are validated on access."""

    header: Mapping[str, Any]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """Type of the frame."""
        return self.text("kind")

    @property
    def number(self) -> int:
        """Number of the request that it belongs to."""
        number = self.header.get("number")
        if not isinstance(number, int) or isinstance(number, bool):
            raise Malformed(f"a number was expected, not {str(number)[:40]!r}")
        return number

    def text(self, name: str) -> str:
        """Return a text field."""
        value: Any = self.header.get(name)
        if not _is_text(value):
            raise Malformed(f"{name} should be text, not {str(value)[:40]!r}")
        return str(value)

    def amount(self, name: str, otherwise: float) -> float:
        """Return a field that is a positive number; *otherwise* if it is missing."""
        value = self.header.get(name, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise Malformed(f"{name} should be a positive number, not {str(value)[:40]!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of texts."""
        value = self.header.get(name)
        if not isinstance(value, list) or not all(map(_is_text, value)):
            raise Malformed(f"{name} should be a list of texts")
        return tuple(value)

    def message(self) -> Message:
        """Decode the message in the frame."""
        return Message(
            topic=self.text("topic"),
            method=self.text("method"),
            version=self.text("version"),
            request_id=self.text("request_id"),
            body=self.body,
        )


def _is_text(value: object) -> bool:
    """Return whether *value* is text that can be encoded: JSON may have half a character."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def encode(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Encode a frame.

    :raises Malformed: the header is larger than any header may be.
    """
    head = json.dumps(header, separators=(",", ":")).encode()
    if len(head) > _LARGEST_HEADER:
        raise Malformed(f"its header has {len(head)} bytes, and {_LARGEST_HEADER} is the most")
    length = _HEADER_LENGTH.size + len(head) + len(body)
    return b"".join((_LENGTH.pack(length), _HEADER_LENGTH.pack(len(head)), head, body))


def encode_message(kind: str, message: Message, **more: Any) -> bytes:
    """Encode a frame that carries *message*."""
    header = {
        "kind": kind,
        "topic": message.topic,
        "method": message.method,
        "version": message.version,
        "request_id": message.request_id,
        **more,
    }
    return encode(header, message.body)


class FrameReader:
    """Assembles frames from received data.

    ``limit`` is the size of the largest frame that is accepted from now on.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    @property
    def halfway(self) -> bool:
        """Whether the buffer has data."""
        return bool(self._buffer)

    def add(self, data: bytes) -> None:
        """Append received data."""
        self._buffer += data

    def next(self) -> Frame | None:
        """Return the next complete frame, or ``None``.

        :raises Malformed: the data is not a frame, or exceeds the limit; it is discarded.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self.limit:
            self._buffer.clear()
            raise Malformed(f"a message of {length} bytes is larger than the limit of {self.limit}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        whole = bytes(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return _parse(whole)


def _parse(whole: bytes) -> Frame:
    if len(whole) < _HEADER_LENGTH.size:
        raise Malformed("a frame without a header")
    (length,) = _HEADER_LENGTH.unpack_from(whole)
    end = _HEADER_LENGTH.size + length
    if len(whole) < end:
        raise Malformed("a header that is longer than its frame")
    try:
        header = json.loads(whole[_HEADER_LENGTH.size : end])
    except (ValueError, RecursionError) as exc:
        raise Malformed("a header that is not JSON") from exc
    if not isinstance(header, dict):
        raise Malformed("a header that is no JSON object")
    return Frame(header, whole[end:])
