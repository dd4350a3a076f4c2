"""Which topics the broker knows a way to.

It learns of a topic from the first server there, and has forgotten it when it is started again.
What is sent there before is thrown away without a word, so requests are not sent before.
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
"""It is used again: one that the broker closed, as it does to say no, is open again after that."""
_PAUSE, _PAUSE_MAX = 0.05, 2.0
"""Seconds until the broker is asked again; each further pause is twice as long."""


class QueueProbe:
    """Asks the broker for the queue of a topic, once for each connection of *watch*."""

    def __init__(self, settings: Settings, bus: OsloMessaging, watch: BrokerMonitor) -> None:
        self._settings, self._bus, self._watch = settings, bus, watch
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}
        self._line: amqp.Connection | None = None
        self._closed = False

    def knows(self, topic: str) -> bool:
        """Whether the broker that is connected is known to have a queue for *topic*."""
        return self._known.get(topic) == self._watch.epoch

    def wait(self, topic: str, deadline: float, over: Callable[[], bool]) -> bool:
        """Wait until requests to *topic* arrive somewhere; ``False``: they do not by *deadline*,
        or it is *over* before.
        """
        pause = _PAUSE
        while not self._learns(topic, deadline):
            left = deadline - time.monotonic()
            if left <= 0 or over():
                return False
            time.sleep(min(left, random.uniform(0.5, 1.5) * pause))
            pause = min(2 * pause, _PAUSE_MAX)
        return True

    def close(self) -> None:
        """Let go of the connection, and make none any more."""
        with self._lock:
            self._closed = True
            self._hang_up()

    def _learns(self, topic: str, deadline: float) -> bool:
        if self.knows(topic):
            return True
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        try:
            epoch = self._watch.epoch  # of before: a broker that is started again has forgotten
            if not self._closed and not self.knows(topic) and self._finds(topic):
                self._known[topic] = epoch
            return self.knows(topic)
        finally:
            self._lock.release()

    def _finds(self, topic: str) -> bool:
        exchange, queue = self._bus.way_to(topic)
        hold = False
        try:
            line = self._dial()
            # What its server does as well; done again it changes nothing, and it fails before.
            line.channel(_CHANNEL).queue_bind(queue, exchange=exchange, routing_key=queue)
            line.close()
        except amqp.NotFound:
            LOG.info("nobody has served %s yet", topic)
            hold = True
            return False
        except amqp.AccessRefused as exc:
            LOG.warning("requests to %s get lost while nobody serves it: %s", topic, exc)
        except (OSError, amqp.AMQPError) as exc:
            LOG.info("the broker cannot be asked about %s: %s", topic, exc)
            return False
        finally:
            if not hold:
                self._hang_up()
        return True

    def _dial(self) -> amqp.Connection:
        if self._line is None:
            self._line = make_connection(random.choice(self._bus.hosts()), self._settings)
            self._line.connect()
        return self._line

    def _hang_up(self) -> None:
        if self._line is not None:
            close_quietly(self._line)
            self._line = None
