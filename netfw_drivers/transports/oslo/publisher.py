"""Hints on their way to the broker, and the proof that those for us arrive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from netfw.drivers.transport import Message
from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
from netfw_drivers.transports.oslo.message_codec import from_message
from netfw_drivers.transports.oslo.messaging import OsloMessaging
from netfw_drivers.transports.oslo.rpc_server import TopicServer

LOG = logging.getLogger(__name__)
_AGAIN = 0.5
"""Seconds after which a station that did not hear itself is called again."""
_TOPICS = 100_000
"""Topics whose hints wait at most while the broker is away."""


class Publisher:
    """Sends hints in a thread of its own, the last one of each topic.

    *unheard* are stations that may have missed something: they are sent a token, the number of
    the connection, until they hear it.
    """

    def __init__(
        self,
        bus: OsloMessaging,
        watch: BrokerMonitor,
        unheard: Callable[[], Mapping[str, TopicServer]],
    ) -> None:
        self._bus, self._watch, self._unheard = bus, watch, unheard
        self._lock = threading.Condition()
        self._unsent: dict[str, Message] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="netfw-publisher", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Have a hint sent soon."""
        with self._lock:
            if len(self._unsent) < _TOPICS or message.topic in self._unsent:
                self._unsent[message.topic] = message
            self._lock.notify()

    def look(self) -> None:
        """There may be stations that have not been heard."""
        with self._lock:
            self._lock.notify()

    def close(self) -> None:
        """Send no more.  Twice is once."""
        with self._lock:
            self._closed = True
            self._lock.notify()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._closed:
            unheard = self._unheard()
            with self._lock:
                if not (self._unsent or self._closed):
                    self._lock.wait(_AGAIN if unheard else None)
                unsent, self._unsent = self._unsent, {}
            if not self._watch.wait(_AGAIN) and not self._closed:
                self._keep(unsent)
                continue
            for message in unsent.values():
                self._try(lambda each=message: self._send(each))  # type: ignore[misc]
            for station in self._unheard().values():
                if not station.started:
                    continue
                token = str(self._watch.epoch)
                self._try(lambda each=station, say=token: each.wake(say))  # type: ignore[misc]

    def _send(self, message: Message) -> None:
        self._bus.tell_all(message.topic, from_message(message))

    def _keep(self, unsent: Mapping[str, Message]) -> None:
        with self._lock:
            self._unsent = {**unsent, **self._unsent}

    def _try(self, work: Callable[[], None]) -> None:
        if self._closed:
            return
        try:
            work()
        except Exception as exc:  # noqa: BLE001 - hints may be lost, whatever the reason
            LOG.warning("a hint could not be sent: %s", exc)
