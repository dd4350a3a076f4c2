"""Handlers and listeners of one process, for transports to build on."""

from __future__ import annotations

import logging
import threading

from netfw.drivers.support.thread_pool import BoundedThreadPool, InFlight
from netfw.drivers.transport import Caller, Handler, Listener, Message
from netfw.errors import BackendBroken, BackendUnavailable, Conflict, NetfwError

LOG = logging.getLogger(__name__)


class HandlerRegistry:
    """Answers requests by the handler of their topic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[str, tuple[Handler, InFlight]] = {}

    def serves(self, topic: str) -> bool:
        """Whether there is a handler for *topic*."""
        return topic in self._handlers

    @property
    def idle(self) -> bool:
        """Whether there is no handler at all."""
        return not self._handlers

    def add(self, topic: str, handler: Handler) -> InFlight:
        """Have *handler* answer what is asked about *topic*, until the activity ends.

        :raises Conflict: it has a handler already.
        """
        activity = InFlight()
        with self._lock:
            if topic in self._handlers:
                raise Conflict(f"{topic} is served already: stop that first")
            self._handlers[topic] = handler, activity
        return activity

    def remove(self, topic: str, activity: InFlight) -> bool:
        """Have requests about *topic* refused from now on, and wait for those under way.

        ``False``: it was called by the handler itself, and did not wait.
        """
        with self._lock:
            if topic in self._handlers and self._handlers[topic][1] is activity:
                del self._handlers[topic]
        return activity.end()

    def answer(self, message: Message, caller: Caller) -> Message:
        """What the handler answers, in this thread.

        :raises BackendUnavailable: there is none.
        :raises BackendBroken: it failed; the log says how.
        :raises NetfwError: what it raised.
        """
        handler, activity = self._handlers.get(message.topic, (None, None))
        if handler is None or activity is None or not activity.enter():
            raise BackendUnavailable(f"nobody answers on {message.topic} there")
        try:
            answer: object = handler(message, caller)
        except NetfwError:
            raise
        except BaseException as exc:
            LOG.exception("%s of %s failed (%s)", message.method, caller.name, message.request_id)
            raise BackendBroken("the request failed in the server; its log says why") from exc
        finally:
            activity.leave()
        if not isinstance(answer, Message):
            LOG.error("the handler of %s answered %s", message.method, type(answer).__name__)
            raise BackendBroken("the request failed in the server; its log says why")
        return answer

    def end(self) -> None:
        """Have all requests refused from now on, and wait for those under way."""
        with self._lock:
            handlers, self._handlers = self._handlers, {}
        for _, activity in handlers.values():
            activity.end()


class CoalescingSubscriber:
    """One listener and the last hint that it has not heard yet."""

    def __init__(self, topic: str, listener: Listener, thread: BoundedThreadPool) -> None:
        self.topic, self._listener, self._thread = topic, listener, thread
        self.activity = InFlight()
        self._lock = threading.Lock()
        self._unheard: Message | None = None

    def offer(self, message: Message) -> None:
        """Have *message* heard soon, instead of one that was not heard yet.  From any thread."""
        with self._lock:
            scheduled = self._unheard is not None
            self._unheard = message
        if not scheduled:
            self._thread.submit(self._hear)

    def _hear(self) -> None:
        with self._lock:
            message, self._unheard = self._unheard, None
        if message is None or not self.activity.enter():
            return
        try:
            self._listener(message)
        except Exception:
            LOG.exception("a listener for %s failed", self.topic)
        finally:
            self.activity.leave()
