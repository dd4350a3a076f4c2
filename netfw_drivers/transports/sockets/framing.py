"""What goes over a connection: frames of a header in JSON and a body.  Pure.

A frame is four bytes of length (of what follows), two bytes of the header's length, the header and
the body.  Its length is looked at before anything of it is kept.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from netfw.drivers.transport import Message

_LENGTH = struct.Struct("!I")
_HEADER_LENGTH = struct.Struct("!H")
_LARGEST_HEADER = 0xFFFF


class Malformed(ValueError):
    """The peer sent what is no frame, or none that fits here; the text says why."""


@frozen
class Frame:
    """A header and a body, as they arrived: fields are checked when they are asked for."""

    header: Mapping[str, Any]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """What the frame is for."""
        return self.text("kind")

    @property
    def number(self) -> int:
        """Which request it belongs to."""
        number = self.header.get("number")
        if not isinstance(number, int) or isinstance(number, bool):
            raise Malformed(f"a number was expected, not {str(number)[:40]!r}")
        return number

    def text(self, name: str) -> str:
        """A field that is text."""
        value = self.header.get(name)
        if not isinstance(value, str):
            raise Malformed(f"{name} should be text, not {str(value)[:40]!r}")
        return value

    def amount(self, name: str, otherwise: float) -> float:
        """A field that is a positive number; *otherwise* when it is not there."""
        value = self.header.get(name, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise Malformed(f"{name} should be a positive number, not {str(value)[:40]!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A field that is a list of texts."""
        value = self.header.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Malformed(f"{name} should be a list of texts")
        return tuple(value)

    def message(self) -> Message:
        """The message in it."""
        return Message(
            topic=self.text("topic"),
            method=self.text("method"),
            version=self.text("version"),
            request_id=self.text("request_id"),
            body=self.body,
        )


def encode(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a frame.

    :raises Malformed: the header is larger than any header may be.
    """
    head = json.dumps(header, separators=(",", ":")).encode()
    if len(head) > _LARGEST_HEADER:
        raise Malformed(f"its header has {len(head)} bytes, and {_LARGEST_HEADER} is the most")
    length = _HEADER_LENGTH.size + len(head) + len(body)
    return b"".join((_LENGTH.pack(length), _HEADER_LENGTH.pack(len(head)), head, body))


def encode_message(kind: str, message: Message, **more: Any) -> bytes:
    """The bytes of a frame that carries *message*."""
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
    """Puts frames together from what arrives, in whatever pieces.

    ``limit`` is the size of the largest frame that is taken from now on.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    @property
    def halfway(self) -> bool:
        """Whether something has arrived that was not taken yet."""
        return bool(self._buffer)

    def add(self, data: bytes) -> None:
        """Something has arrived."""
        self._buffer += data

    def next(self) -> Frame | None:
        """The next frame, if it has arrived in full.

        :raises Malformed: what arrived is no frame, or a larger one.  Nothing of it is kept.
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
