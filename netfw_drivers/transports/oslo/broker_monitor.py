"""Broker monitor: a separate AMQP connection that shows whether the broker is reachable.

oslo.messaging waits for a broker indefinitely, without a log line, and does not report that it has
returned.  Requests are sent only while this connection is open; callbacks run each time it opens
or is lost.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import amqp

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw_drivers.transports.oslo.messaging import BrokerHost
from netfw_drivers.transports.oslo.options import Settings

LOG = logging.getLogger(__name__)
_TICK = 1.0
"""Seconds that a read takes at most."""


def make_connection(host: BrokerHost, settings: Settings, heartbeat: int = 0) -> amqp.Connection:
    """Build a connection to *host* without connecting; with *heartbeat* the caller sends it."""
    return amqp.Connection(
        host=f"[{host.host}]:{host.port}" if ":" in host.host else f"{host.host}:{host.port}",
        userid=host.user,
        password=host.password,
        virtual_host=host.virtual_host,
        login_method="AMQPLAIN",
        ssl=host.tls or False,
        connect_timeout=settings.connect,
        read_timeout=settings.connect,
        heartbeat=heartbeat,
        client_properties={"capabilities": {"authentication_failure_close": True}},
    )


def close_quietly(connection: amqp.Connection) -> None:
    """Close a connection, whatever its state."""
    with suppress(OSError, amqp.AMQPError, AttributeError, ValueError):
        connection.collect()


class BrokerMonitor:
    """Keeps a connection to one of the *hosts*, and reconnects with back-off.

    *connected* and *disconnected* are called in the monitor's thread each time the connection
    opens or is lost; *check* is called with the open connection, about once a second.
    """

    def __init__(
        self,
        settings: Settings,
        hosts: Sequence[BrokerHost],
        connected: Callable[[], None],
        disconnected: Callable[[], None],
        check: Callable[[amqp.Connection], None],
    ) -> None:
        self._settings, self._hosts = settings, hosts
        self._on_connected, self._on_disconnected = connected, disconnected
        self._check = check
        self._lock = threading.Condition()
        self._is_connected = False
        self._closed = False
        self._socket: socket.socket | None = None
        self.epoch = 0
        """Number of connections so far."""
        self.last_error = "no connection was tried"
        """Reason of the last failure."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start connecting.

        :raises BackendUnavailable: the machine has no thread left.
        """
        failure = "the broker cannot be connected"
        self._thread = start_daemon_thread("netfw-broker-monitor", failure, self._run)

    @property
    def connected(self) -> bool:
        """Whether the connection is open."""
        return self._is_connected

    @property
    def loss_reason(self) -> str | None:
        """Why there is no connection any more; ``None``: there is, or never was one."""
        return self.last_error if self.epoch and not self._is_connected else None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the connection is open; ``False``: it is not, or the monitor is closed."""
        with self._lock:
            self._lock.wait_for(lambda: self._is_connected or self._closed, seconds)
            return self._is_connected and not self._closed

    def close(self) -> None:
        """Close the connection.  Idempotent."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            if self._socket is not None:
                with suppress(OSError):  # wakes the reader; below TLS
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(self._settings.connect + 2 * _TICK)

    def _run(self) -> None:
        pause = self._settings.pause
        while not self._closed:
            if self._connect_once():
                pause = self._settings.pause
            with self._lock:
                self._lock.wait_for(lambda: self._closed, random.uniform(0.5, 1.5) * pause)
            pause = min(2 * pause, self._settings.pause_max)

    def _connect_once(self) -> bool:
        """Connect, and stay connected until that fails; ``False``: no host could be reached."""
        hosts = random.sample(self._hosts, len(self._hosts))
        for each in hosts:
            connection = make_connection(each, self._settings, self._settings.heartbeat_timeout)
            where = f"{each.host} port {each.port}"
            try:
                connection.connect()
            except Exception as exc:  # noqa: BLE001 - of sockets, of the broker, of py-amqp
                self._log_error(f"no broker at {where}: {exc}")
                close_quietly(connection)
                continue
            LOG.info("connected to the broker at %s", where)
            try:
                self._set_connected(connection)
                self._hold(connection)
            except (OSError, amqp.AMQPError) as exc:
                if not self._closed:
                    self._log_error(f"the broker at {where} is gone: {exc}")
            except Exception as exc:
                LOG.exception("the connection to the broker at %s is made anew", where)
                self.last_error = f"{type(exc).__name__}: {exc}"
            close_quietly(connection)
            self._set_disconnected()
            return True
        return False

    def _hold(self, connection: amqp.Connection) -> None:
        """Read until the connection fails, or the monitor is closed."""
        while not self._closed:
            self._check(connection)
            with suppress(TimeoutError):
                connection.drain_events(timeout=_TICK)
            connection.heartbeat_tick()

    def _set_connected(self, connection: amqp.Connection) -> None:
        with self._lock:
            self._is_connected, self._socket = True, connection.sock
            self.epoch += 1
            self._lock.notify_all()
        self._on_connected()

    def _set_disconnected(self) -> None:
        with self._lock:
            there, self._is_connected, self._socket = self._socket, False, None
        if there is not None:
            there.close()
        if self._closed:
            return
        try:
            self._on_disconnected()
        except Exception:  # the thread serves all users of the broker
            LOG.exception("the loss of the broker was not handled")

    def _log_error(self, why: str) -> None:
        LOG.log(logging.DEBUG if why == self.last_error else logging.WARNING, "%s", why)
        self.last_error = why
