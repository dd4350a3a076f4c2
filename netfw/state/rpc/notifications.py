"""Notifications between processes: topic names, and a filter for stale notifications."""

from __future__ import annotations

import threading
from hashlib import sha256

from netfw.drivers.state_source import Cursor, Hint
from netfw.drivers.transport import Message
from netfw.errors import InvalidInput
from netfw.state.dependencies import AgentRoot
from netfw.state.rpc.codecs import CURSOR, read
from netfw.state.rpc.envelope import VERSION, pack, unpack_request

METHOD = "notification"
TOPIC_LENGTH = 100


def notification_topic(root: AgentRoot) -> str:
    """Return the topic of notifications for *root*: ``l2.compute-7``; for all hosts, ``l2.``."""
    name = f"{root.service}.{root.host}"
    if len(name) <= TOPIC_LENGTH:
        return name
    return f"{root.service}.{sha256(root.host.encode()).hexdigest()}"


def make_notification(root: AgentRoot, cursor: Cursor | None) -> Message:
    """Build the notification that commits up to *cursor* concern *root*."""
    body = b"" if cursor is None else pack(CURSOR.render(cursor))
    return Message(topic=notification_topic(root), method=METHOD, version=VERSION, body=body)


class NotificationFilter:
    """Forwards notifications to *notify*, once for each cursor.

    Each of several servers publishes every notification, on each topic of an agent.  A notification
    with a cursor that is not newer is dropped; one without a cursor is forwarded.
    """

    def __init__(self, notify: Hint) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._latest: Cursor | None = None

    def __call__(self, message: Message) -> None:
        if self._is_newer(_cursor(message)):
            self._notify()

    def reset(self) -> None:
        """Forward the next notification whatever its cursor is: a restored source counts again."""
        with self._lock:
            self._latest = None

    def _is_newer(self, cursor: Cursor | None) -> bool:
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
        cursor: Cursor = read(CURSOR, unpack_request(message.body), "cursor")
    except InvalidInput:
        return None
    return cursor
