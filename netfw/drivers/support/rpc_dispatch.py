"""Handlers and listeners of one process, for implementations of transports."""

from __future__ import annotations

import logging
import threading

from netfw.drivers.support.thread_pool import BoundedThreadPool, InFlight
from netfw.drivers.transport import Caller, Handler, Listener, Message
from netfw.errors import BackendBroken, BackendUnavailable, Conflict, NetfwError

LOG = logging.getLogger(__name__)


class HandlerRegistry:
    """Dispatches requests to the handler of their topic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[str, tuple[Handler, InFlight]] = {}

    def serves(self, topic: str) -> bool:
        """Return whether *topic* has a handler."""
        return topic in self._handlers

    @property
    def idle(self) -> bool:
        """Whether no topic has a handler."""
        return not self._handlers

    def add(self, topic: str, handler: Handler) -> InFlight:
        """Register *handler* for *topic*, until the returned activity ends.

        :raises Conflict: the topic has a handler already.
        """
        activity = InFlight()
        with self._lock:
            if topic in self._handlers:
                raise Conflict(f"{topic} is served already: stop that first")
            self._handlers[topic] = handler, activity
        return activity

    def remove(self, topic: str, activity: InFlight) -> bool:
        """Refuse further requests to *topic*, and wait for running ones.

        Return ``False`` if the handler itself called this, which does not wait.
        """
        with self._lock:
            if topic in self._handlers and self._handlers[topic][1] is activity:
                del self._handlers[topic]
        return activity.end()

    def answer(self, message: Message, caller: Caller) -> Message:
        """Return the answer of the handler, called in this thread.

        :raises BackendUnavailable: the topic has no handler.
        :raises BackendBroken: the handler failed; the log has the details.
        :raises NetfwError: the error that the handler raised.
        """
        handler, activity = self._handlers.get(message.topic, (None, None))
        if handler is None or activity is None or not activity.enter():
            raise BackendUnavailable(f"no server answers on {message.topic} there")
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
        """Refuse all further requests, and wait for running ones."""
        with self._lock:
            handlers, self._handlers = self._handlers, {}
        for _, activity in handlers.values():
            activity.end()


class CoalescingSubscriber:
    """One listener and the last notification that it has not received yet."""

    def __init__(self, topic: str, listener: Listener, thread: BoundedThreadPool) -> None:
        self.topic, self._listener, self._thread = topic, listener, thread
        self.activity = InFlight()
        self._lock = threading.Lock()
        self._pending: Message | None = None
        self._scheduled = False

    def offer(self, message: Message) -> None:
        """Queue *message* for the listener, replacing an undelivered one.  From any thread.

        On a machine that refuses the thread, it is queued again with the next one.
        """
        with self._lock:
            self._pending = message
            if self._scheduled:
                return
            self._scheduled = True
        try:
            self._thread.submit(self._deliver)
        except BackendUnavailable as exc:
            LOG.warning("a notification for %s is not delivered yet: %s", self.topic, exc)
            with self._lock:
                self._scheduled = False

    def _deliver(self) -> None:
        with self._lock:
            message, self._pending, self._scheduled = self._pending, None, False
        if message is None or not self.activity.enter():
            return
        try:
            self._listener(message)
        except Exception:
            LOG.exception("a listener for %s failed", self.topic)
        finally:
            self.activity.leave()
