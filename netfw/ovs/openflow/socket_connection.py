"""OpenFlow connection by a socket: handshake, keepalive, reconnect, and state callbacks."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.connection import OpenFlowConnection, StateListener
from netfw.ovs.openflow.endpoint import OpenFlowEndpoint
from netfw.ovs.openflow.errors import reason
from netfw.ovs.openflow.messages import OpenFlowMessage, Type

if TYPE_CHECKING:
    from netfw.ovs.openflow.endpoint import Socket
    from netfw.ovs.openflow.tls import SwitchTls

LOG = logging.getLogger(__name__)
_CHUNK = 1 << 18
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 2.0
_LONGEST_LOCAL_PAUSE = 0.1
"""Seconds at most until a unix socket is tried again: an attempt costs little, and nothing passes
through a switch that has started again without its flows."""
_STEADY = 1.0
"""Seconds after which a connection resets the reconnect back-off."""


class SocketConnection(OpenFlowConnection):
    """A connection to *target* for as long as it is open, with a thread of its own.

    *target* is ``unix:PATH``, ``tcp:HOST:PORT``, ``ssl:HOST:PORT``, ``ptcp:PORT[:ADDRESS]`` or
    ``pssl:PORT[:ADDRESS]``; see :class:`~netfw.ovs.openflow.endpoint.OpenFlowEndpoint`.  ``probe``
    is how long the switch may be silent before it gets an echo request, and again how long it may
    take to answer that.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout: float = 10.0,
        probe: float = 5.0,
        tls: SwitchTls | None = None,
    ) -> None:
        """Start to connect to *target*.

        :raises ConfigError: the files of TLS are missing or cannot be used.
        :raises BackendUnavailable: the machine has no thread left.
        """
        super().__init__(target, timeout)
        self._probe = probe
        self._endpoint = OpenFlowEndpoint(target, min(timeout, probe), tls)
        if self._endpoint.listens:
            self._last_error = "no switch has connected yet"
        self._socket: Socket | None = None
        self._sending = threading.Lock()
        self._echoes: deque[bytes] = deque()
        self._state_lock = threading.RLock()
        self._on_state: list[StateListener] = []
        self._up = threading.Event()
        self._closing = threading.Event()
        self._since = inf
        name = f"openflow {target}"
        self._thread = start_daemon_thread(name, f"{target} cannot be connected", self._run)

    # Called by any thread

    @property
    def connected(self) -> bool:
        return self._up.is_set()

    def wait_connected(self, timeout: float | None = None) -> None:
        """Wait until the handshake is complete.

        :raises BackendUnavailable: it did not in time; the message says why.
        """
        if not self._up.wait(self.timeout if timeout is None else timeout):
            raise self._unavailable()

    def close(self) -> None:
        """Close the connection and stop the thread; state listeners are not called."""
        self._closing.set()
        self._endpoint.close()
        self._hang_up()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def on_state(self, listener: StateListener) -> None:
        """Call *listener* with True when the connection is up, also now, and False when lost."""
        with self._state_lock:
            self._on_state.append(listener)
            if self.connected:
                with suppress(BackendUnavailable):  # it is lost again, which is reported next
                    listener(True)

    def send(self, data: bytes) -> None:
        """Send whole messages.

        :raises BackendUnavailable: there is no connection, or the switch does not read.
        """
        sock = self._socket
        if sock is None or not self.connected:
            raise self._unavailable()
        self._send(sock, data)

    # The thread

    def _run(self) -> None:
        pause = _SHORTEST_PAUSE
        longest = _LONGEST_LOCAL_PAUSE if self.target.startswith("unix:") else _LONGEST_PAUSE
        while not self._closing.is_set():
            lasted = self._live()
            pause = _SHORTEST_PAUSE if lasted > _STEADY else min(2 * pause, longest)
            self._closing.wait(pause)

    def _live(self) -> float:
        """Connect and serve the connection until it ends; return how long it was up."""
        self._since = inf
        try:
            sock = self._connect()
        except (OSError, ValueError) as exc:
            self._last_error = getattr(exc, "strerror", None) or str(exc)
            return 0
        try:
            self._serve(sock)
        except (OSError, ValueError, BackendUnavailable) as exc:
            self._last_error = str(exc)
        except Exception as exc:
            # Without this thread nothing would be connected again.
            LOG.exception("%s: a message was not understood", self.target)
            self._last_error = f"a message was not understood: {type(exc).__name__}: {exc}"
        self._lost(sock)
        return time.monotonic() - self._since

    def _connect(self) -> Socket:
        sock = self._endpoint.open()
        sock.settimeout(self.timeout)
        self._socket = sock
        if self._closing.is_set():
            self._hang_up()
        return sock

    def _serve(self, sock: Socket) -> None:
        """Send a hello, then handle messages until the switch closes or does not answer.

        :raises OSError: the connection broke, or the switch does not answer.
        :raises ValueError: what arrives is not OpenFlow, or not our version of it.
        """
        self._send(sock, messages.hello())
        framer = messages.Framer()
        poller = select.poll()
        poller.register(sock, select.POLLIN)
        requested = False
        while True:
            if not poller.poll(self._probe * 1000):
                if requested or not self.connected:
                    raise OSError(f"nothing received for {self._probe:g} s")
                requested = True
                self._send(sock, messages.message(Type.ECHO_REQUEST, self.next_xid()))
                continue
            chunk = sock.recv(_CHUNK)
            if not chunk:
                raise OSError("the switch hung up")
            requested = False
            for received in framer.feed(chunk):
                self._handle(received)
            self._send_echoes(sock)

    def _handle(self, received: OpenFlowMessage) -> None:
        if not self.connected:
            self._greeted(received)
            return
        if received.type == Type.ECHO_REQUEST:
            self._echoes.append(messages.message(Type.ECHO_REPLY, received.xid, received.data[8:]))
            return
        self._deliver(received)

    def _greeted(self, received: OpenFlowMessage) -> None:
        if received.type == Type.ERROR:
            raise ValueError(f"the switch refused the greeting: {reason(received)}")
        if received.type != Type.HELLO:
            raise ValueError(f"a message of type {received.type} in place of a greeting")
        if not messages.speaks_ours(received):
            raise ValueError(
                "the bridge does not speak OpenFlow 1.4: "
                "ovs-vsctl set Bridge NAME protocols=OpenFlow10,OpenFlow13,OpenFlow14"
            )
        with self._state_lock:
            self._since = time.monotonic()
            self._up.set()
            for listener in self._on_state:
                self._call(listener, True)

    def _lost(self, sock: Socket) -> None:
        with self._state_lock:
            was_up = self.connected
            self._up.clear()
            self._socket = None
            sock.close()
            self._followed.clear()
            self._echoes.clear()
            self._fail_waiting()
            if was_up and not self._closing.is_set():
                for listener in self._on_state:
                    self._call(listener, False)

    def _hang_up(self) -> None:
        sock = self._socket
        if sock is not None:
            self._shut(sock)

    def _shut(self, sock: Socket) -> None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            LOG.debug("%s: was already closed", self.target)

    def _send_echoes(self, sock: Socket) -> None:
        """Answer probes without waiting for a sender, which may wait for this thread to read."""
        if self._echoes and self._sending.acquire(blocking=False):
            try:
                while self._echoes:
                    sock.sendall(self._echoes.popleft())
            finally:
                self._sending.release()

    def _send(self, sock: Socket, data: bytes) -> None:
        try:
            with self._sending:
                while self._echoes:
                    sock.sendall(self._echoes.popleft())
                sock.sendall(data)
        except OSError as exc:
            self._shut(sock)
            raise BackendUnavailable(f"{self.target}: {exc}") from exc
