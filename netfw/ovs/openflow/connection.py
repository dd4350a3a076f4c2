"""OpenFlow connection: handshake, keepalive, reconnect, and state callbacks.

Everything that arrives is handled in the order of arrival on one thread of its own, which ends
with :meth:`Connection.close`.  Listeners are called on that thread: they must not wait for
replies, only record what they received.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from math import inf
from queue import Empty, SimpleQueue

from attrs import define, field

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.errors import OpenFlowError, reason
from netfw.ovs.openflow.messages import Message, Type

LOG = logging.getLogger(__name__)
_CHUNK = 1 << 18
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 2.0
_LONGEST_LOCAL_PAUSE = 0.1
"""Seconds at most until a unix socket is tried again: an attempt costs little, and nothing passes
through a switch that has started again without its flows."""
_STEADY = 1.0
"""Seconds after which a connection resets the reconnect back-off."""

Listener = Callable[[Message], None]
StateListener = Callable[[bool], None]


@define
class _Waiting:
    """A request whose answer is not complete."""

    answered: Callable[[], None] | None = None
    arrived: Listener | None = None
    future: Future[list[Message]] = field(factory=Future)
    parts: list[Message] = field(factory=list)


class Connection:
    """A connection to *target*, ``unix:PATH`` or ``tcp:HOST:PORT``, for as long as it is open.

    ``timeout`` limits how long a request waits.  ``probe`` is how long the switch may be silent
    before it gets an echo request, and again how long it may take to answer that.
    """

    def __init__(self, target: str, *, timeout: float = 10.0, probe: float = 5.0) -> None:
        self.target = target
        self.timeout = timeout
        self._probe = probe
        self._socket: socket.socket | None = None
        self._sending = threading.Lock()
        self._echoes: deque[bytes] = deque()
        self._state_lock = threading.RLock()
        self._numbering = threading.Lock()
        self._last_xid = 0
        self._waiting: dict[int, _Waiting] = {}
        self._followed: dict[int, Listener] = {}
        self._listeners: dict[int, list[Listener]] = {}
        self._on_state: list[StateListener] = []
        self._up = threading.Event()
        self._closing = threading.Event()
        self._since = inf
        self._last_error = "not connected yet"
        self._thread = threading.Thread(target=self._run, name=f"openflow {target}", daemon=True)
        self._thread.start()

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
        self._hang_up()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def on_state(self, listener: StateListener) -> None:
        """Call *listener* with True when the connection is up, also now, and False when lost."""
        with self._state_lock:
            self._on_state.append(listener)
            if self.connected:
                listener(True)

    def on_message(self, kind: int, listener: Listener) -> None:
        """Call *listener* with every message of *kind* that is no reply to a request."""
        self._listeners.setdefault(kind, []).append(listener)

    def next_xid(self) -> int:
        return self.reserve_xids(1)

    def reserve_xids(self, count: int) -> int:
        """Reserve *count* consecutive xids, and return the first."""
        with self._numbering:
            first = self._last_xid + 1
            if first + count > 0xFFFFFFFF:
                first = 1
            self._last_xid = first + count - 1
        return first

    def send(self, data: bytes) -> None:
        """Send whole messages.

        :raises BackendUnavailable: there is no connection, or the switch does not read.
        """
        sock = self._socket
        if sock is None or not self.connected:
            raise self._unavailable()
        self._send(sock, data)

    def ask(
        self, xid: int, data: bytes, answered: Callable[[], None] | None = None
    ) -> Future[list[Message]]:
        """Send *data* and return a future of the answer with the same *xid*.

        *answered* is called on the connection's thread, in order with all that arrives, before
        the future is set; not for errors.  An error of the switch becomes
        :class:`OpenFlowError`, a lost connection :class:`~netfw.errors.BackendUnavailable`.
        """
        waiting = self._waiting[xid] = _Waiting(answered)
        try:
            self.send(data)
        except BackendUnavailable:
            self._waiting.pop(xid, None)
            raise
        return waiting.future

    def request(self, xid: int, data: bytes) -> list[Message]:
        """Send *data* and wait for the whole answer.

        :raises BackendUnavailable: no connection, or no answer in time.
        :raises SwitchRefused: the answer is an error.
        """
        return self.result(xid, self.ask(xid, data))

    def result(self, xid: int, future: Future[list[Message]]) -> list[Message]:
        """Return the answer to a request of :meth:`ask`; see :meth:`request` for what it raises."""
        try:
            return future.result(self.timeout)
        except FutureTimeout as exc:
            self._waiting.pop(xid, None)
            raise self._silent() from exc

    def stream(self, xid: int, data: bytes) -> Iterator[Message]:
        """Send *data*; yield the parts of the answer as they arrive.

        Raises what :meth:`request` raises.
        """
        arrivals: SimpleQueue[Message | None] = SimpleQueue()
        waiting = self._waiting[xid] = _Waiting(arrived=arrivals.put)
        waiting.future.add_done_callback(lambda _: arrivals.put(None))
        try:
            self.send(data)
            while (part := arrivals.get(timeout=self.timeout)) is not None:
                yield part
        except Empty as exc:
            raise self._silent() from exc
        finally:
            self.forget(xid)
        waiting.future.result()

    def forget(self, xid: int) -> None:
        """Stop waiting for an answer that need not come."""
        self._waiting.pop(xid, None)

    def follow(self, xid: int, listener: Listener) -> None:
        """Call *listener* with every message with *xid*, until the connection is lost."""
        self._followed[xid] = listener

    def unfollow(self, xid: int) -> None:
        """Stop calling the listener of *xid*."""
        self._followed.pop(xid, None)

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
        self._lost(sock)
        return time.monotonic() - self._since

    def _connect(self) -> socket.socket:
        kind, _, rest = self.target.partition(":")
        if kind == "unix":
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(self.timeout)
            try:
                sock.connect(rest)
            except OSError:
                sock.close()
                raise
        elif kind == "tcp":
            host, _, port = rest.rpartition(":")
            timeout = min(self.timeout, self._probe)
            sock = socket.create_connection((host.strip("[]"), int(port)), timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            raise OSError(f"{self.target!r} is neither unix:PATH nor tcp:HOST:PORT")
        sock.settimeout(self.timeout)
        self._socket = sock
        if self._closing.is_set():
            self._hang_up()
        return sock

    def _serve(self, sock: socket.socket) -> None:
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

    def _handle(self, received: Message) -> None:
        if not self.connected:
            self._greeted(received)
            return
        if received.type == Type.ECHO_REQUEST:
            self._echoes.append(messages.message(Type.ECHO_REPLY, received.xid, received.data[8:]))
            return
        waiting = self._waiting.get(received.xid)
        if waiting is not None:
            self._answer(waiting, received)
        elif received.xid in self._followed:
            self._call(self._followed[received.xid], received)
        else:
            for listener in self._listeners.get(received.type, ()):
                self._call(listener, received)

    def _greeted(self, received: Message) -> None:
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

    def _answer(self, waiting: _Waiting, received: Message) -> None:
        if received.type == Type.ERROR:
            self._waiting.pop(received.xid, None)
            waiting.future.set_exception(OpenFlowError(reason(received), received))
            return
        if waiting.arrived is None:
            waiting.parts.append(received)
        else:
            waiting.arrived(received)
        if received.type == Type.MULTIPART_REPLY and received.data[11] & messages.MORE:
            return
        self._waiting.pop(received.xid, None)
        try:
            if waiting.answered is not None:
                waiting.answered()
        except Exception as exc:  # noqa: BLE001 - it is raised in the thread that waits for the answer
            waiting.future.set_exception(exc)
        else:
            waiting.future.set_result(waiting.parts)

    def _call(self, listener: Callable[..., None], what: object) -> None:
        try:
            listener(what)
        except Exception:
            LOG.exception("%s: a listener failed", self.target)

    def _lost(self, sock: socket.socket) -> None:
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

    def _fail_waiting(self) -> None:
        for xid in list(self._waiting):  # other threads call forget at the same time
            waiting = self._waiting.pop(xid, None)
            if waiting is not None:
                waiting.future.set_exception(self._unavailable())

    def _hang_up(self) -> None:
        sock = self._socket
        if sock is not None:
            self._shut(sock)

    def _shut(self, sock: socket.socket) -> None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            LOG.debug("%s: was already closed", self.target)

    def _send_echoes(self, sock: socket.socket) -> None:
        """Answer probes without waiting for a sender, which may wait for this thread to read."""
        if self._echoes and self._sending.acquire(blocking=False):
            try:
                while self._echoes:
                    sock.sendall(self._echoes.popleft())
            finally:
                self._sending.release()

    def _send(self, sock: socket.socket, data: bytes) -> None:
        try:
            with self._sending:
                while self._echoes:
                    sock.sendall(self._echoes.popleft())
                sock.sendall(data)
        except OSError as exc:
            self._shut(sock)
            raise BackendUnavailable(f"{self.target}: {exc}") from exc

    def _unavailable(self) -> BackendUnavailable:
        return BackendUnavailable(f"{self.target}: {self._last_error}")

    def _silent(self) -> BackendUnavailable:
        return BackendUnavailable(f"{self.target} did not answer within {self.timeout:g} s")
