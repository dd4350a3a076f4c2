"""Cuts a byte stream into JSON messages, and decodes them with the standard library.

The ``ovs`` package reads character by character where its C extension was not built, which is fifty
times slower.  Here a regular expression skips to the next brace outside of text, and each message
is decoded once it is complete.  The cut is made on bytes, so that a character that arrives in two
pieces is put together again.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_SKIP = re.compile(rb'[^{}"]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^{}"]*){0,256}', re.DOTALL)
"""What is between braces: at most 256 strings at a time, since each can be tried again and is
remembered for that.  Possessive quantifiers would not need it, but those of Python 3.11.2 (Debian
12) match a string that has no end yet."""
_BLANK = re.compile(rb"[ \t\r\n]*")


class JsonStream:
    """Messages out of whatever pieces the network makes of them; every message is an object."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0
        self._depth = 0

    @property
    def pending(self) -> bool:
        """Whether anything is left that was fed and not taken."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> dict[str, Any] | None:
        """Return the next whole message, or ``None`` until more was fed.

        :raises ValueError: this is not a stream of JSON objects; it cannot be read any further.
        """
        if not self._depth:
            self._begin()
        end = self._find_end()
        if end is None:
            return None
        text = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._seen = 0
        return json.loads(text.decode("utf-8"), parse_constant=_refuse)  # type: ignore[no-any-return]

    def _begin(self) -> None:
        blank = _BLANK.match(self._buffer)
        assert blank is not None
        del self._buffer[: blank.end()]
        if self._buffer and self._buffer[0] != ord("{"):
            raise ValueError(f"a message begins with {bytes(self._buffer[:20])!r}")

    def _find_end(self) -> int | None:
        while True:
            skipped = _SKIP.match(self._buffer, self._seen)
            assert skipped is not None
            advanced = skipped.end() > self._seen
            self._seen = skipped.end()
            match self._buffer[self._seen : self._seen + 1]:
                case b"{":
                    self._depth += 1
                case b"}":
                    self._depth -= 1
                case b'"' if advanced:
                    continue
                case _:  # the end of what we have, or text whose end we do not have
                    return None
            self._seen += 1
            if not self._depth:
                return self._seen


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
