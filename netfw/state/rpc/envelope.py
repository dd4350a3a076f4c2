"""What every message has: a version, and a body that is one JSON object.

The version is that of the messages, not of netfw.  A peer with another minor number is a release
older or newer: each side leaves out what it does not know.  Another major number is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from netfw.errors import InvalidInput, NotSupported

VERSION: Final = "1.0"
SERVER: Final = "server"
"""The topic on which servers answer."""
REVIVED: Final = "revived"
"""Said in the answer to an agent's report: it was believed dead."""

Content = dict[str, Any]


def pack(content: Mapping[str, Any]) -> bytes:
    """*content* as the body of a message."""
    return text(content).encode()


def text(content: object) -> str:
    """*content* as JSON, without a blank."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def unpack(body: bytes) -> Content:
    """The content of a message.

    :raises InvalidInput: it is no JSON object.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput({"body": f"is not JSON: {exc}"}) from exc
    if not isinstance(content, dict):
        raise InvalidInput({"body": "is not a JSON object"})
    return content


def check_version(theirs: str, who: str) -> None:
    """Accept what *who* speaks.

    :raises NotSupported: its major number is another one.
    """
    if theirs.partition(".")[0] != VERSION.partition(".")[0]:
        raise NotSupported(
            f"{who} speaks version {theirs} of the messages and this side version {VERSION}; "
            "they understand each other only while the first number is the same: bring server "
            "and agents to releases next to each other"
        )
