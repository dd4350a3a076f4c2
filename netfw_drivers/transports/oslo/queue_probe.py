"""Check that the broker has a queue for a topic before a request is sent.

The first server of a topic declares its queue; a broker that restarts has lost it.  The broker
silently discards requests without a queue.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

import amqp

from netfw_drivers.transports.oslo.broker_monitor import (
    BrokerMonitor,
    close_quietly,
    make_connection,
)
from netfw_drivers.transports.oslo.messaging import OsloMessaging
from netfw_drivers.transports.oslo.options import Settings

LOG = logging.getLogger(__name__)
_CHANNEL = 1
"""Reused: a channel that the broker closed with an error can be opened again."""
_PAUSE, _PAUSE_MAX = 0.05, 1.0
"""Seconds until the next check; each pause is twice as long as the one before."""


class QueueProbe:
    """Checks the queue of a topic, once for each connection of *monitor*."""

    def __init__(
        self, settings: Settings, messaging: OsloMessaging, monitor: BrokerMonitor
    ) -> None:
        self._settings, self._messaging, self._monitor = settings, messaging, monitor
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}
        self._connection: amqp.Connection | None = None
        self._closed = False

    def is_known(self, topic: str) -> bool:
        """Return whether a queue for *topic* was found over the present broker connection."""
        return self._known.get(topic) == self._monitor.epoch

    def wait(self, topic: str, deadline: float, over: Callable[[], bool]) -> bool:
        """Wait until *topic* has a queue; ``False``: none by *deadline*, or *over* is true."""
        pause = _PAUSE
        while not self._check(topic, deadline):
            left = deadline - time.monotonic()
            if left <= 0 or over():
                return False
            time.sleep(min(left, random.uniform(0.5, 1.5) * pause))
            pause = min(2 * pause, _PAUSE_MAX)
        return True

    def close(self) -> None:
        """Close the connection for good."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _check(self, topic: str, deadline: float) -> bool:
        if self.is_known(topic):
            return True
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        try:
            epoch = self._monitor.epoch  # read first: a broker that restarts has lost its queues
            if not self._closed and not self.is_known(topic) and self._queue_exists(topic):
                self._known[topic] = epoch
            return self.is_known(topic)
        finally:
            self._lock.release()

    def _queue_exists(self, topic: str) -> bool:
        exchange, queue = self._messaging.route_to(topic)
        hold = False
        try:
            connection = self._connect()
            # Its server declares the same binding.  Repeated it has no effect; without the queue it
            # fails.
            connection.channel(_CHANNEL).queue_bind(queue, exchange=exchange, routing_key=queue)
            connection.close()
        except amqp.NotFound:
            LOG.info("%s: no server has declared its queue yet", topic)
            hold = True
            return False
        except amqp.AccessRefused as exc:
            LOG.warning("%s: requests are lost while no server runs: %s", topic, exc)
        except (OSError, amqp.AMQPError) as exc:
            LOG.info("%s: queue cannot be checked: %s", topic, exc)
            return False
        finally:
            if not hold:
                self._disconnect()
        return True

    def _connect(self) -> amqp.Connection:
        if self._connection is None:
            self._connection = make_connection(
                random.choice(self._messaging.hosts()), self._settings
            )
            self._connection.connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            close_quietly(self._connection)
            self._connection = None
