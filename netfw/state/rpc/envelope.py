"""The envelope of every message: a version, and a body that is one JSON object.

The version is that of the messages, not of netfw.  A peer with another minor number runs an older
or newer release: each side ignores unknown names.  Another major number is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from netfw.drivers.support.message_limits import (
    ANSWER_SIZE,
    ANSWER_VALUES,
    REQUEST_SIZE,
    REQUEST_VALUES,
)
from netfw.errors import InvalidInput, NotSupported
from netfw.model.values.bounded_json import load_bounded

VERSION: Final = "1.0"
SERVER: Final = "server"
"""The topic of the RPC server."""
REVIVED: Final = "revived"
"""Key in the answer to a report: the agent was considered dead, or was switched on again."""
TRACE: Final = "trace"
"""Key in a request: the trace context of the agent."""
TRACES: Final = "traces"
"""Key in a page of changes: trace contexts of the requests that made them."""

Content = dict[str, Any]


def pack(content: Mapping[str, Any]) -> bytes:
    """Render *content* as the body of a message."""
    return text(content).encode()


def text(content: object) -> str:
    """Render *content* as compact JSON."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def unpack_request(body: bytes) -> Content:
    """Parse the body of a request or notification.

    :raises InvalidInput: it is no JSON object, or larger than any that a peer sends.
    """
    return _unpack(body, REQUEST_SIZE, REQUEST_VALUES)


def unpack_answer(body: bytes) -> Content:
    """Parse the body of an answer, which can be a large resource.

    :raises InvalidInput: it is no JSON object, or larger than any that a server sends.
    """
    return _unpack(body, ANSWER_SIZE, ANSWER_VALUES)


def _unpack(body: bytes, size: int, values: int) -> Content:
    try:
        content = load_bounded(body, size=size, values=values)
    except ValueError as exc:
        raise InvalidInput({"body": f"cannot be read: {exc}"}) from exc
    if not isinstance(content, dict):
        raise InvalidInput({"body": "is not a JSON object"})
    return content


def check_version(version: str, peer: str) -> None:
    """Check the message version of a peer.

    :raises NotSupported: its major number is another one.
    """
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise NotSupported(
            f"{peer} speaks version {version} of the messages and this side version {VERSION}; "
            "they understand each other only while the first number is the same: bring server "
            "and agents to releases next to each other"
        )
