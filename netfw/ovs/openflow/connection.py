"""Connection with a switch: numbers requests, and routes what arrives to requests and listeners."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue

from attrs import define, field

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.errors import OpenFlowError, reason
from netfw.ovs.openflow.messages import OpenFlowMessage, Type

LOG = logging.getLogger(__name__)

Listener = Callable[[OpenFlowMessage], None]
StateListener = Callable[[bool], None]


@define
class _Waiting:
    """A request whose answer is not complete."""

    answered: Callable[[], None] | None = None
    arrived: Listener | None = None
    future: Future[list[OpenFlowMessage]] = field(factory=Future)
    parts: list[OpenFlowMessage] = field(factory=list)


class OpenFlowConnection(ABC):
    """What clients of a switch need of a connection to *target*.

    Everything that arrives is handled in the order of arrival on one thread.  Listeners are called
    on that thread: they must not wait for replies, only record what they received.  ``timeout``
    limits how long a request waits.
    """

    def __init__(self, target: str, timeout: float) -> None:
        self.target = target
        self.timeout = timeout
        self._numbering = threading.Lock()
        self._last_xid = 0
        self._waiting: dict[int, _Waiting] = {}
        self._followed: dict[int, Listener] = {}
        self._listeners: dict[int, list[Listener]] = {}
        self._last_error = "not connected yet"

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether messages can be sent now."""

    @abstractmethod
    def wait_connected(self, timeout: float | None = None) -> None:
        """Wait until messages can be sent.

        :raises BackendUnavailable: they could not in time; the message says why.
        """

    @abstractmethod
    def on_state(self, listener: StateListener) -> None:
        """Call *listener* with True when the connection is up, also now, and False when lost."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send whole messages.

        :raises BackendUnavailable: there is no connection, or the switch does not read.
        """

    @abstractmethod
    def close(self) -> None:
        """End; state listeners are not called."""

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

    def ask(
        self, xid: int, data: bytes, answered: Callable[[], None] | None = None
    ) -> Future[list[OpenFlowMessage]]:
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

    def request(self, xid: int, data: bytes) -> list[OpenFlowMessage]:
        """Send *data* and wait for the whole answer.

        :raises BackendUnavailable: no connection, or no answer in time.
        :raises SwitchRefused: the answer is an error.
        """
        return self.result(xid, self.ask(xid, data))

    def result(self, xid: int, future: Future[list[OpenFlowMessage]]) -> list[OpenFlowMessage]:
        """Return the answer to a request of :meth:`ask`; see :meth:`request` for what it raises."""
        try:
            return future.result(self.timeout)
        except FutureTimeout as exc:
            self._waiting.pop(xid, None)
            raise self._silent() from exc

    def stream(self, xid: int, data: bytes) -> Iterator[OpenFlowMessage]:
        """Send *data*; yield the parts of the answer as they arrive.

        Raises what :meth:`request` raises.
        """
        parts: SimpleQueue[OpenFlowMessage | None] = SimpleQueue()
        waiting = self._waiting[xid] = _Waiting(arrived=parts.put)
        waiting.future.add_done_callback(lambda _: parts.put(None))
        try:
            self.send(data)
            while (part := parts.get(timeout=self.timeout)) is not None:
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

    def _deliver(self, received: OpenFlowMessage) -> None:
        """Give a message to the request that it answers, or to its listeners."""
        waiting = self._waiting.get(received.xid)
        if waiting is not None:
            self._answer(waiting, received)
        elif received.xid in self._followed:
            self._call(self._followed[received.xid], received)
        else:
            for listener in self._listeners.get(received.type, ()):
                self._call(listener, received)

    def _answer(self, waiting: _Waiting, received: OpenFlowMessage) -> None:
        """Pass a received message to the request that waits for it.

        :raises ValueError: the message is too short for its type.
        """
        if received.type == Type.MULTIPART_REPLY and len(received.data) < messages.MULTIPART_SIZE:
            raise ValueError(f"a multipart reply of {len(received.data)} bytes")
        if received.type == Type.ERROR:
            if self._waiting.pop(received.xid, None) is not None:
                waiting.future.set_exception(OpenFlowError(reason(received), received))
            return
        if waiting.arrived is None:
            waiting.parts.append(received)
        else:
            waiting.arrived(received)
        if received.type == Type.MULTIPART_REPLY and received.data[11] & messages.MORE:
            return
        if self._waiting.pop(received.xid, None) is None:
            return  # another thread has given up, or closed the connection
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

    def _fail_waiting(self) -> None:
        for xid in list(self._waiting):  # other threads call forget at the same time
            waiting = self._waiting.pop(xid, None)
            if waiting is not None:
                waiting.future.set_exception(self._unavailable())

    def _unavailable(self) -> BackendUnavailable:
        return BackendUnavailable(f"{self.target}: {self._last_error}")

    def _silent(self) -> BackendUnavailable:
        return BackendUnavailable(f"{self.target} did not answer within {self.timeout:g} s")
