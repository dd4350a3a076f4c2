"""Check again and again that the broker has a consumer for requests of a topic.

A broker keeps the queue of a server that is gone, and requests in it, without an error: only the
number of its consumers shows that nothing answers.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Protocol

import amqp
from attrs import define

from netfw_drivers.transports.oslo.messaging import OsloMessaging

LOG = logging.getLogger(__name__)
_CHANNEL = 1
"""Reused: a channel that the broker closed with an error can be opened again."""
_INTERVAL = 2.0
"""Seconds between two checks of a topic at most; each client of the broker makes them."""


class ServerListener(Protocol):
    """Callback for the loss of the last server of a topic, and for the return of one."""

    def __call__(self, topic: str, *, is_there: bool) -> None: ...


@define
class TopicState:
    """What checks of a topic found."""

    was_seen: bool = False
    """There was a server."""
    misses: int = 0
    """Checks without a server since then."""
    reason: str | None = None
    """Why the topic has no server any more."""


class ConsumerProbe:
    """Knows which topics have lost their servers, of those that `loss_reason` was called with.

    *changed* is called in the thread of `check` for each topic whose last server is gone, and when
    one is back.
    """

    def __init__(self, messaging: OsloMessaging, changed: ServerListener) -> None:
        self._messaging, self._changed = messaging, changed
        self._topics: dict[str, TopicState] = {}
        self._next_check = 0.0

    def loss_reason(self, topic: str) -> str | None:
        """Return why *topic* has no server any more; ``None``: it has one, or never had."""
        return self._topics.setdefault(topic, TopicState()).reason

    def record_answer(self, topic: str) -> None:
        """Record that a server of *topic* has answered a request."""
        state = self._topics.get(topic)
        if state is not None:
            state.was_seen = True

    def check(self, connection: amqp.Connection) -> None:
        """Check the topics over an open *connection*, if that is due.

        One check may fall between the end of a server and the start of the next: two must fail.

        :raises OSError: the connection failed.
        :raises amqp.AMQPError: the connection failed.
        """
        now, topics = time.monotonic(), tuple(self._topics.items())
        missed = any(state.misses == 1 for _, state in topics)
        if now < self._next_check and not missed:
            return
        self._next_check = now + random.uniform(0.5, 1.0) * _INTERVAL
        for topic, state in topics:
            problem = self._missing_consumers(connection, topic)
            state.was_seen |= problem is None
            state.misses = state.misses + 1 if problem and state.was_seen else 0
            former, state.reason = state.reason, problem if state.misses > 1 else None
            if (former is None) != (state.reason is None):
                LOG.warning("%s: %s", topic, state.reason or "the queue has a consumer again")
                self._changed(topic, is_there=state.reason is None)

    def _missing_consumers(self, connection: amqp.Connection, topic: str) -> str | None:
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
