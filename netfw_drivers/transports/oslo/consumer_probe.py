"""Check again and again that the broker has a consumer for requests of a topic.

A broker keeps the queue of a server that is gone, and requests in it, without an error: only the
number of its consumers shows that nothing answers.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Protocol

import amqp

from netfw_drivers.transports.oslo.messaging import OsloMessaging

LOG = logging.getLogger(__name__)
_CHANNEL = 1
"""Reused: a channel that the broker closed with an error can be opened again."""
_INTERVAL = 2.0
"""Seconds between two checks of a topic at most; each client of the broker makes them."""


class ServerListener(Protocol):
    """Callback for the first server of a topic that came, and the last one that went."""

    def __call__(self, topic: str, *, is_there: bool) -> None: ...


class ConsumerProbe:
    """Knows which topics have no server: those of which `missing_reason` was requested.

    *changed* is called in the thread of `check` for each topic whose first server has come or whose
    last one is gone.
    """

    def __init__(self, messaging: OsloMessaging, changed: ServerListener) -> None:
        self._messaging, self._changed = messaging, changed
        self._reasons: dict[str, str | None] = {}
        """Topics that were checked."""
        self._topics: set[str] = set()
        self._checked = threading.Condition()
        self._next_check = 0.0

    def missing_reason(self, topic: str, timeout: float) -> str | None:
        """Return why *topic* has no server; ``None``: it has one, or is not checked in time."""
        with self._checked:
            self._topics.add(topic)
            self._checked.wait_for(lambda: topic in self._reasons, timeout)
            return self._reasons.get(topic)

    def check(self, connection: amqp.Connection) -> None:
        """Check the topics that are due, and new ones, over an open *connection*.

        :raises OSError: the connection failed.
        :raises amqp.AMQPError: the connection failed.
        """
        now = time.monotonic()
        is_due = now >= self._next_check
        if is_due:
            self._next_check = now + random.uniform(0.5, 1.0) * _INTERVAL
        with self._checked:
            topics = sorted(self._topics if is_due else self._topics - self._reasons.keys())
        for topic in topics:
            reason = self._check_topic(connection, topic)
            with self._checked:
                former = self._reasons.get(topic)
                self._reasons[topic] = reason
                self._checked.notify_all()
            if (reason is None) != (former is None):
                LOG.log(
                    logging.INFO if reason is None else logging.WARNING,
                    "%s: %s", topic, reason or "a server is there",
                )  # fmt: skip
                self._changed(topic, is_there=reason is None)

    def _check_topic(self, connection: amqp.Connection, topic: str) -> str | None:
        _, queue = self._messaging.route_to(topic)
        try:
            found = connection.channel(_CHANNEL).queue_declare(queue, passive=True)
        except amqp.NotFound:
            return f"the broker has no queue {queue}: is the server started?"
        except amqp.AccessRefused:
            return None  # without this permission nothing is known
        if not found.consumer_count:
            return f"the queue {queue} has no consumer: is the server started?"
        return None
