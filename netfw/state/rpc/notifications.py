"""Hints between processes: which topic of a transport is whose, and which hints are stale."""

from __future__ import annotations

import threading
from hashlib import sha256

from netfw.drivers.state_source import Cursor, Hint
from netfw.drivers.transport import Message
from netfw.errors import InvalidInput
from netfw.state.dependencies import AgentRoot
from netfw.state.rpc.codecs import CURSOR, read
from netfw.state.rpc.envelope import VERSION, pack, unpack

METHOD = "hint"
TOPIC_LENGTH = 100


def hint_topic(root: AgentRoot) -> str:
    """Where hints for *root* are published: ``l2.compute-7``; for all hosts, ``l2.``."""
    name = f"{root.service}.{root.host}"
    if len(name) <= TOPIC_LENGTH:
        return name
    return f"{root.service}.{sha256(root.host.encode()).hexdigest()}"


def hint_for(root: AgentRoot, cursor: Cursor | None) -> Message:
    """The hint that there are commits up to *cursor* which concern *root*."""
    body = b"" if cursor is None else pack(CURSOR.render(cursor))
    return Message(topic=hint_topic(root), method=METHOD, version=VERSION, body=body)


class NotificationFilter:
    """Passes hints on, once for each place in the journal.

    Each of several servers publishes every hint, and each topic of an agent has its own.  A hint
    for what was hinted already is left out; one that does not say what it is for is passed on.
    """

    def __init__(self, hint: Hint) -> None:
        self._hint = hint
        self._lock = threading.Lock()
        self._latest: Cursor | None = None

    def __call__(self, message: Message) -> None:
        if self._is_news(_cursor(message)):
            self._hint()

    def _is_news(self, cursor: Cursor | None) -> bool:
        with self._lock:
            latest = self._latest
            if cursor is None:
                return True
            if latest is not None and latest.epoch == cursor.epoch and cursor.seq <= latest.seq:
                return False
            self._latest = cursor
            return True


def _cursor(message: Message) -> Cursor | None:
    try:
        cursor: Cursor = read(CURSOR, unpack(message.body), "cursor")
    except InvalidInput:
        return None
    return cursor
