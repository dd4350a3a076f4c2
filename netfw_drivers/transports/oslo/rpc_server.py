"""Server of oslo.messaging that starts once the broker is connected."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable
from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
from netfw_drivers.transports.oslo.messaging import OsloMessaging
from netfw_drivers.transports.oslo.no_eventlet import futurist_threads

LOG = logging.getLogger(__name__)
_CLOSE_TIMEOUT = 10.0
"""Seconds after which a close of oslo.messaging is abandoned."""

_RETRY_INTERVAL = 2.0
"""Seconds until a start that the broker refused is retried."""


class RpcEndpoint:
    """Endpoint for oslo.messaging; its method names are those on the wire."""

    def __init__(
        self,
        request: Callable[[Mapping[str, Any], float], dict[str, Any]],
        notify: Callable[[Mapping[str, Any]], None],
        probed: Callable[[str], None],
    ) -> None:
        self._request, self._notify, self._probed = request, notify, probed

    def request(self, context: object, fields: Mapping[str, Any], wait: float) -> dict[str, Any]:
        """Answer a request; its caller waits for *wait* seconds."""
        return self._request(fields, wait)

    def notify(self, context: object, fields: Mapping[str, Any]) -> None:
        """Handle a notification."""
        self._notify(fields)

    def wake(self, context: object, token: str) -> None:
        """Handle a probe: this server is connected."""
        self._probed(token)


class TopicServer:
    """Server of one topic, for requests (``call``) or notifications (``notification``).

    :raises BackendUnavailable: the machine has no thread left.
    """

    def __init__(
        self,
        messaging: OsloMessaging,
        monitor: BrokerMonitor,
        kind: str,
        topic: str,
        *,
        endpoint: RpcEndpoint,
        threads: int,
        ready: Callable[[], None],
    ) -> None:
        self._messaging, self._monitor, self._kind, self._topic = messaging, monitor, kind, topic
        self._endpoint, self._threads, self._ready = endpoint, threads, ready
        self._name = uuid.uuid4().hex
        self._server: Any = None
        self._stopping = threading.Event()
        start_daemon_thread(f"netfw-{kind}-start", f"{topic} cannot be served", self._run)

    @property
    def started(self) -> bool:
        """Whether the broker has its queue."""
        return self._server is not None

    def send_probe(self, token: str) -> None:
        """Send *token* to this server itself; it arrives once the server is connected."""
        self._messaging.send_probe(self._kind, self._topic, self._name, token)

    def stop_consuming(self) -> None:
        """Stop consuming; messages under way are finished."""
        self._stopping.set()
        if self._server is not None:
            run_with_timeout(self._server.stop, self._close_timeout, self._wake)

    def close(self) -> None:
        """Wait for messages under way, and close the connection."""
        server = self._server
        if server is not None and not run_with_timeout(server.wait, self._close_timeout):
            abandon_threads(server)

    @property
    def _close_timeout(self) -> float:
        return _CLOSE_TIMEOUT if self._monitor.connected else 0.1

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._monitor.wait(1.0):
                if self._start():
                    return
                self._stopping.wait(_RETRY_INTERVAL)

    def _start(self) -> bool:
        server = self._messaging.server(self._kind, self._topic, self._name, self._endpoint)
        try:
            server.start(override_pool_size=self._threads)
        except Exception as exc:  # noqa: BLE001 - of kombu, of sockets, of the broker
            LOG.error(
                "%s: cannot be served yet, retrying in %g s: %s",
                self._topic, _RETRY_INTERVAL, exc,
            )  # fmt: skip
            return False
        self._server = server
        if self._stopping.is_set():
            server.stop()
            server.wait()
        else:
            self._ready()
        return True

    def _wake(self) -> None:
        """Send the server a message: without one it notices the stop seconds later."""
        try:
            if self._monitor.connected:
                self.send_probe("")
        except Exception as exc:  # noqa: BLE001 - it stops a little later then
            LOG.debug("topic server could not be woken: %s", exc)


def abandon_threads(server: Any) -> None:
    """Let the process end without the threads of an oslo.messaging *server*.

    They are daemon threads that retry to send answers; at exit, futurist would wait until the
    broker takes them.
    """
    for worker in server._work_executor._workers:
        futurist_threads._to_be_cleaned.pop(worker, None)


def run_with_timeout(
    work: Callable[[], None], seconds: float, meanwhile: Callable[[], None] | None = None
) -> bool:
    """Run *work* in a thread; return whether it ended within *seconds*, else abandon it.

    It may wait for the broker, so it is not run at all if there is no thread for it.
    """
    try:
        thread = start_daemon_thread("netfw-broker-wait", "a connection stays open", work)
    except BackendUnavailable as exc:
        LOG.warning("%s", exc)
        return False
    if meanwhile is not None:
        meanwhile()
    thread.join(seconds)
    return not thread.is_alive()
