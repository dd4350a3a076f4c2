"""A server of oslo.messaging that is started once the broker is there."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
from netfw_drivers.transports.oslo.messaging import OsloMessaging

LOG = logging.getLogger(__name__)
_PATIENCE = 10.0
"""Seconds after which what oslo.messaging has not let go of is left to itself."""

_AGAIN = 2.0
"""Seconds until the broker is asked again for a queue that it refused."""


class Endpoint:
    """What oslo.messaging calls; its method names are those on the wire."""

    def __init__(
        self,
        request: Callable[[Mapping[str, Any], float], dict[str, Any]],
        hint: Callable[[Mapping[str, Any]], None],
        woken: Callable[[str], None],
    ) -> None:
        self._request, self._hint, self._woken = request, hint, woken

    def request(self, context: object, fields: Mapping[str, Any], wait: float) -> dict[str, Any]:
        """Answer a request that somebody waits for so long."""
        return self._request(fields, wait)

    def hint(self, context: object, fields: Mapping[str, Any]) -> None:
        """Take a hint."""
        self._hint(fields)

    def wake(self, context: object, token: str) -> None:
        """Learn that this server is connected."""
        self._woken(token)


class TopicServer:
    """One topic that is listened to, for requests (``call``) or hints (``hint``)."""

    def __init__(
        self,
        bus: OsloMessaging,
        watch: BrokerMonitor,
        kind: str,
        topic: str,
        *,
        endpoint: Endpoint,
        threads: int,
        ready: Callable[[], None],
    ) -> None:
        self._bus, self._watch, self._kind, self._topic = bus, watch, kind, topic
        self._endpoint, self._threads, self._ready = endpoint, threads, ready
        self._name = uuid.uuid4().hex
        self._server: Any = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"netfw-{kind}-start", daemon=True)
        self._thread.start()

    @property
    def started(self) -> bool:
        """Whether the broker knows of it."""
        return self._server is not None

    def send_probe(self, token: str) -> None:
        """Send *token* to this station itself, which hears it when it is connected."""
        self._bus.send_probe(self._kind, self._topic, self._name, token)

    def stop_consuming(self) -> None:
        """Take nothing any more; what was taken goes on."""
        self._stopping.set()
        if self._server is not None:
            run_with_timeout(self._server.stop, self._patience, self._rouse)

    def close(self) -> None:
        """Wait for what was taken to be answered, and let go of the connection."""
        if self._server is not None:
            run_with_timeout(self._server.wait, self._patience)

    @property
    def _patience(self) -> float:
        return _PATIENCE if self._watch.connected else 0.1

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._watch.wait(1.0):
                if self._starts():
                    return
                self._stopping.wait(_AGAIN)

    def _starts(self) -> bool:
        server = self._bus.server(self._kind, self._topic, self._name, self._endpoint)
        try:
            server.start(override_pool_size=self._threads)
        except Exception as exc:  # noqa: BLE001 - of kombu, of sockets, of the broker
            LOG.error(
                "%s cannot be served yet, and is tried again in %g s: %s",
                self._topic, _AGAIN, exc,
            )  # fmt: skip
            return False
        self._server = server
        if self._stopping.is_set():
            server.stop()
            server.wait()
        else:
            self._ready()
        return True

    def _rouse(self) -> None:
        """Send it a message: it would look up in a few seconds only."""
        try:
            if self._watch.connected:
                self.send_probe("")
        except Exception as exc:  # noqa: BLE001 - then it ends a little later
            LOG.debug("a station could not be woken: %s", exc)


def run_with_timeout(
    work: Callable[[], None], seconds: float, meanwhile: Callable[[], None] | None = None
) -> None:
    """Do *work*, which may wait for a broker that is away: then it is left to itself."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    if meanwhile is not None:
        meanwhile()
    thread.join(seconds)
