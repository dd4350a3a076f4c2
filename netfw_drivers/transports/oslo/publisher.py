"""Publisher of notifications, and of probes that confirm subscriptions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.transport import Message
from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
from netfw_drivers.transports.oslo.message_codec import from_message
from netfw_drivers.transports.oslo.messaging import OsloMessaging
from netfw_drivers.transports.oslo.rpc_server import TopicServer

LOG = logging.getLogger(__name__)
_PROBE_INTERVAL = 0.5
"""Seconds between two probes of an unconfirmed subscription."""
_MAX_TOPICS = 100_000
"""Topics with a pending notification at most, while the broker is unreachable."""


class Publisher:
    """Sends notifications in a thread of its own, the last one of each topic.

    *unconfirmed* returns the topic servers that may have missed notifications: each is sent a
    token, the number of the broker connection, until it receives it.

    :raises BackendUnavailable: the machine has no thread left.
    """

    def __init__(
        self,
        messaging: OsloMessaging,
        monitor: BrokerMonitor,
        unconfirmed: Callable[[], Mapping[str, TopicServer]],
    ) -> None:
        self._messaging, self._monitor, self._unconfirmed = messaging, monitor, unconfirmed
        self._lock = threading.Condition()
        self._unsent: dict[str, Message] = {}
        self._closed = False
        self._thread = start_daemon_thread("netfw-publisher", "notifications", self._run)

    def send(self, message: Message) -> None:
        """Queue a notification."""
        with self._lock:
            if len(self._unsent) < _MAX_TOPICS or message.topic in self._unsent:
                self._unsent[message.topic] = message
            self._lock.notify()

    def wake(self) -> None:
        """Check for unconfirmed subscriptions now."""
        with self._lock:
            self._lock.notify()

    def close(self) -> None:
        """Stop sending.  Idempotent."""
        with self._lock:
            self._closed = True
            self._lock.notify()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._closed:
            with self._lock:
                if not (self._unsent or self._closed):
                    # read under the lock: a broker that connects now wakes the wait
                    self._lock.wait(_PROBE_INTERVAL if self._unconfirmed() else None)
                unsent, self._unsent = self._unsent, {}
            if not self._monitor.wait(_PROBE_INTERVAL) and not self._closed:
                self._requeue(unsent)
                continue
            for message in unsent.values():
                self._try(lambda each=message: self._send(each))  # type: ignore[misc]
            for server in self._unconfirmed().values():
                if not server.started:
                    continue
                token = str(self._monitor.epoch)
                self._try(lambda each=server, say=token: each.send_probe(say))  # type: ignore[misc]

    def _send(self, message: Message) -> None:
        self._messaging.publish(message.topic, from_message(message))

    def _requeue(self, unsent: Mapping[str, Message]) -> None:
        with self._lock:
            self._unsent = {**unsent, **self._unsent}

    def _try(self, work: Callable[[], None]) -> None:
        if self._closed:
            return
        try:
            work()
        except Exception as exc:  # noqa: BLE001 - notifications may be lost
            LOG.warning("notification could not be sent: %s", exc)
