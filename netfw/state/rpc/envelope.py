"""The envelope of every message: a version, and a body that is one JSON object.

The version is that of the messages, not of netfw.  A peer with another minor number runs an older
or newer release: each side ignores unknown names.  Another major number is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from netfw.errors import InvalidInput, NotSupported

VERSION: Final = "1.0"
SERVER: Final = "server"
"""The topic of the RPC server."""
REVIVED: Final = "revived"
"""Key in the answer to a report: the agent was considered dead, or was switched on again."""

Content = dict[str, Any]


def pack(content: Mapping[str, Any]) -> bytes:
    """Render *content* as the body of a message."""
    return text(content).encode()


def text(content: object) -> str:
    """Render *content* as compact JSON."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def unpack(body: bytes) -> Content:
    """Parse the body of a message.

    :raises InvalidInput: it is no JSON object.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput({"body": f"is not JSON: {exc}"}) from exc
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
