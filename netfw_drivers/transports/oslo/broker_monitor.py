"""Whether the broker is there: a connection of our own that does nothing but last.

oslo.messaging waits for a broker for as long as it takes, without a word, and does not say when it
has come back.  So it is asked only while this connection stands, and whoever listens is told when
it stands again.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import amqp

from netfw_drivers.transports.oslo.messaging import BrokerHost
from netfw_drivers.transports.oslo.options import Settings

LOG = logging.getLogger(__name__)
_TICK = 1.0
"""Seconds that a read takes at most."""


def make_connection(host: BrokerHost, settings: Settings, heartbeat: int = 0) -> amqp.Connection:
    """A connection to *host*, which is not made yet; whoever asks for a *heartbeat* sends it."""
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
    """Keeps a connection to one of the *hosts*, and makes it again with pauses that grow.

    *connected* is called, in the watch's thread, each time it stands.
    """

    def __init__(
        self,
        settings: Settings,
        hosts: Sequence[BrokerHost],
        connected: Callable[[], None],
    ) -> None:
        self._settings, self._hosts, self._connected = settings, hosts, connected
        self._lock = threading.Condition()
        self._there = False
        self._closed = False
        self._socket: socket.socket | None = None
        self.epoch = 0
        """How often it was connected."""
        self.why = "no connection was tried"
        """Why it is not."""
        self._thread = threading.Thread(target=self._run, name="netfw-broker-monitor", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    @property
    def there(self) -> bool:
        """Whether the broker is there, as far as is known."""
        return self._there

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the broker is there; ``False``: it is not, or this is closed."""
        with self._lock:
            self._lock.wait_for(lambda: self._there or self._closed, seconds)
            return self._there and not self._closed

    def close(self) -> None:
        """End the connection.  Twice is once."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            if self._socket is not None:
                with suppress(OSError):  # it reads, and so learns of it; below TLS
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._thread.join(self._settings.connect + 2 * _TICK)

    def _run(self) -> None:
        pause = self._settings.pause
        while not self._closed:
            if self._visit():
                pause = self._settings.pause
            with self._lock:
                self._lock.wait_for(lambda: self._closed, random.uniform(0.5, 1.5) * pause)
            pause = min(2 * pause, self._settings.pause_max)

    def _visit(self) -> bool:
        """Be connected as long as that lasts; ``False``: it never was."""
        hosts = random.sample(self._hosts, len(self._hosts))
        for each in hosts:
            connection = make_connection(each, self._settings, self._settings.heartbeat)
            where = f"{each.host} port {each.port}"
            try:
                connection.connect()
            except (OSError, amqp.AMQPError) as exc:
                self._complain(f"no broker at {where}: {exc}")
                close_quietly(connection)
                continue
            LOG.info("connected to the broker at %s", where)
            self._stand(connection)
            try:
                self._last(connection)
            except (OSError, amqp.AMQPError) as exc:
                if not self._closed:
                    self._complain(f"the broker at {where} is gone: {exc}")
            close_quietly(connection)
            self._fall()
            return True
        return False

    def _last(self, connection: amqp.Connection) -> None:
        """Until the connection breaks, or this is closed."""
        while not self._closed:
            with suppress(TimeoutError):
                connection.drain_events(timeout=_TICK)
            connection.heartbeat_tick()

    def _stand(self, connection: amqp.Connection) -> None:
        with self._lock:
            self._there, self._socket = True, connection.sock
            self.epoch += 1
            self._lock.notify_all()
        self._connected()

    def _fall(self) -> None:
        with self._lock:
            there, self._there, self._socket = self._socket, False, None
        if there is not None:
            there.close()

    def _complain(self, why: str) -> None:
        LOG.log(logging.DEBUG if why == self.why else logging.WARNING, "%s", why)
        self.why = why
