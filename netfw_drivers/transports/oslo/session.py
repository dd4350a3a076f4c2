"""State of a transport in use: requests, answers and notifications over the broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from attrs import define

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.support.rpc_dispatch import CoalescingSubscriber, HandlerRegistry
from netfw.drivers.support.thread_pool import BoundedThreadPool, InFlight
from netfw.drivers.transport import Caller, Handler, Listener, Message, Stop
from netfw.errors import BackendBroken, BackendUnavailable, InvalidInput, NetfwError
from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
from netfw_drivers.transports.oslo.consumer_probe import ConsumerProbe
from netfw_drivers.transports.oslo.message_codec import (
    from_error,
    from_message,
    to_answer,
    to_message,
)
from netfw_drivers.transports.oslo.messaging import OsloMessaging
from netfw_drivers.transports.oslo.no_eventlet import oslo_messaging
from netfw_drivers.transports.oslo.options import Settings
from netfw_drivers.transports.oslo.publisher import Publisher
from netfw_drivers.transports.oslo.queue_probe import QueueProbe
from netfw_drivers.transports.oslo.rpc_server import RpcEndpoint, TopicServer, run_with_timeout

LOG = logging.getLogger(__name__)
_CALLERS = 32
"""Requests of one process in flight at most; more of them wait."""
_SPARE_THREADS = 8
"""Threads that refuse requests beyond the limit."""
_CLOSE_TIMEOUT = 5.0
_CLOSED = "this transport was closed"
_REQUEST_LOST = "the request may have been lost with it"
_GONE = f"the connection to the broker was lost; {_REQUEST_LOST}"
_BROKER = Caller("broker")
_BUSY = BackendUnavailable("the server has more requests than it can answer: wait")


@define(eq=False)
class TopicSubscribers:
    """Subscribers of one topic, and the last broker connection over which it was confirmed."""

    server: TopicServer
    subscribers: tuple[CoalescingSubscriber, ...]
    confirmed_epoch: int = 0


class OsloSession:
    """Resources of a transport, from its first use on.

    :raises ConfigError: the URL cannot be used.
    :raises BackendUnavailable: the machine has no thread left.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._messaging = OsloMessaging(settings)
        self._handlers = HandlerRegistry()
        self._worker_slots = threading.Semaphore(settings.threads)
        self._active = 0
        self._lock = threading.Lock()
        self._callers = BoundedThreadPool("netfw-call", _CALLERS, queue=1000)
        self._waiting: set[Future[Message]] = set()
        self._sent: dict[Future[Message], str] = {}
        """Those of the waiting requests that the broker may have, with their topics."""
        self._listener_pool = BoundedThreadPool("netfw-notifications", threads=1, queue=1 << 30)
        self._servers: dict[str, TopicServer] = {}
        self._subscriptions: dict[str, TopicSubscribers] = {}
        self._closed = False
        self._consumers = ConsumerProbe(self._messaging, self._handle_server)
        self._monitor = BrokerMonitor(
            settings,
            self._messaging.hosts(),
            self._wake_publisher,
            self._handle_loss,
            self._consumers.check,
        )
        self._queue_probe = QueueProbe(settings, self._messaging, self._monitor)
        self._publisher = Publisher(self._messaging, self._monitor, self._unconfirmed)
        try:
            self._monitor.start()
        except BackendUnavailable:
            self._publisher.close()
            raise

    def call(self, message: Message, timeout: float) -> Message:
        deadline = time.monotonic() + timeout
        self._check_size(message)
        if not self._monitor.wait(timeout):
            raise self._refusal(f"no broker within {timeout:g} s: {self._monitor.last_error}")
        answer: Future[Message] = Future()
        with self._lock:
            if self._closed:
                raise BackendUnavailable(_CLOSED)
            self._waiting.add(answer)
        try:
            if not self._callers.submit(lambda: self._send_request(message, deadline, answer)):
                raise self._refusal("this process has too many requests under way")
            return answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError as exc:
            raise BackendUnavailable(self._timeout_reason(message, timeout)) from exc
        finally:
            with self._lock:
                self._waiting.discard(answer)
                self._sent.pop(answer, None)
            answer.cancel()

    def serve(self, topic: str, handler: Handler) -> Stop:
        activity = self._handlers.add(topic, handler)
        endpoint = RpcEndpoint(self._handle_request, _ignore, _ignore)
        threads = self._settings.threads + self._settings.max_queued_requests + _SPARE_THREADS
        try:
            server = TopicServer(
                self._messaging, self._monitor, "call", topic,
                endpoint=endpoint, threads=threads, ready=_nothing,
            )  # fmt: skip
        except BackendUnavailable:
            self._handlers.remove(topic, activity)
            raise
        with self._lock:
            self._servers[topic] = server

        return lambda: self._stop_serving(topic, server, activity)

    def publish(self, message: Message) -> None:
        self._publisher.send(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        subscriber = CoalescingSubscriber(topic, listener, self._listener_pool)
        with self._lock:
            known = self._subscriptions.get(topic)
            if known is None:
                endpoint = RpcEndpoint(
                    _refuse, self._handle_notification, lambda token: self._confirm(topic, token)
                )
                server = TopicServer(
                    self._messaging, self._monitor, "notification", topic,
                    endpoint=endpoint, threads=1, ready=self._wake_publisher,
                )  # fmt: skip
                self._subscriptions[topic] = TopicSubscribers(server, (subscriber,))
            else:
                known.subscribers = (*known.subscribers, subscriber)
                if known.confirmed_epoch == self._monitor.epoch:
                    subscriber.offer(Message(topic=topic, method="subscribed"))
        self._wake_publisher()

        def stop() -> None:
            self._unsubscribe(topic, subscriber)
            subscriber.activity.end()

        return stop

    def unreachable_reason(self, topic: str) -> str | None:
        """Return why no server of *topic* can be reached; see the contract."""
        if self._closed:
            return _CLOSED
        return self._monitor.loss_reason or self._consumers.loss_reason(topic)

    def close(self) -> None:
        """Close all resources; see the contract."""
        with self._lock:
            self._closed = True
            waiting = tuple(self._waiting)
            servers, self._servers = self._servers, {}
            topics, self._subscriptions = self._subscriptions, {}
        for answer in waiting:
            _resolve(answer, BackendUnavailable(_CLOSED))
        ending = [*servers.values(), *(each.server for each in topics.values())]
        _run_all([server.stop_consuming for server in ending])
        self._handlers.end()
        _run_all([server.close for server in ending])
        for each in topics.values():
            for subscriber in each.subscribers:
                subscriber.activity.end()
        self._publisher.close()
        self._monitor.close()
        self._callers.close(wait=False)
        self._listener_pool.close()
        run_with_timeout(self._queue_probe.close, _CLOSE_TIMEOUT)
        run_with_timeout(self._messaging.close, _CLOSE_TIMEOUT)

    def _refusal(self, reason: str) -> BackendUnavailable:
        """Return the error of a request that was not sent: closing explains every other reason."""
        return BackendUnavailable(_CLOSED if self._closed else reason)

    def _timeout_reason(self, message: Message, timeout: float) -> str:
        if self._monitor.connected and not self._queue_probe.is_known(message.topic):
            return f"no server of {message.topic} within {timeout:g} s: is the server started?"
        return f"no answer on {message.topic} to {message.method} within {timeout:g} s"

    def _send_request(self, message: Message, deadline: float, answer: Future[Message]) -> None:
        """Send a request and wait for its answer, in a thread of the pool."""
        if time.monotonic() > deadline or answer.done():
            return
        try:
            if not self._queue_probe.wait(message.topic, deadline, answer.done):
                return  # the caller has timed out, or the transport was closed
            with self._lock:
                if answer not in self._waiting:
                    return
                self._sent[answer] = message.topic
            if not self._monitor.connected:
                raise BackendUnavailable(_GONE)
            left = max(0.001, deadline - time.monotonic())
            fields = self._messaging.call(message.topic, from_message(message), left)
            outcome = self._limit_answer(to_answer(fields))
            self._consumers.record_answer(message.topic)
        except BackendUnavailable as exc:
            outcome = exc
        except oslo_messaging.MessagingTimeout:
            outcome = BackendUnavailable(f"no answer on {message.topic} to {message.method}")
        except oslo_messaging.MessagingException as exc:
            outcome = BackendUnavailable(f"the broker did not take the request: {exc}")
        except Exception as exc:  # noqa: BLE001 - of kombu, of sockets, after this was closed
            outcome = BackendUnavailable(f"the request was lost: {type(exc).__name__}: {exc}")
        _resolve(answer, outcome)

    def _handle_loss(self) -> None:
        """Fail the requests that the broker had: after a restart nothing answers them."""
        self._messaging.renew()
        with self._lock:
            lost = tuple(self._sent)
        for answer in lost:
            _resolve(answer, BackendUnavailable(_GONE))
        self._notify_subscribers("disconnected")

    def _handle_server(self, topic: str, *, is_there: bool) -> None:
        """Fail the requests to the last server of a topic that is gone; notify of both changes."""
        with self._lock:
            lost = () if is_there else tuple(a for a, of in self._sent.items() if of == topic)
        for answer in lost:
            _resolve(answer, BackendUnavailable(f"no server of {topic} any more: {_REQUEST_LOST}"))
        self._notify_subscribers("subscribed" if is_there else "disconnected")

    def _notify_subscribers(self, method: str) -> None:
        for topic in tuple(self._subscriptions):
            self._offer(Message(topic=topic, method=method))

    def _handle_request(self, fields: Mapping[str, Any], wait: float) -> dict[str, Any]:
        """Answer a request, in a thread of oslo.messaging; there are more threads than slots."""
        with self._lock:
            if self._active >= self._settings.threads + self._settings.max_queued_requests:
                return from_error(_BUSY)
            self._active += 1
        try:
            if not self._worker_slots.acquire(timeout=max(0.0, min(wait, 86_400.0))):
                return from_error(_BUSY)
            try:
                return self._answer_request(to_message(fields))
            finally:
                self._worker_slots.release()
        except BaseException as exc:  # noqa: BLE001 - the caller receives it
            return from_error(exc)
        finally:
            with self._lock:
                self._active -= 1

    def _answer_request(self, message: Message) -> dict[str, Any]:
        self._check_size(message)
        answer = self._handlers.answer(message, _BROKER)
        limited = self._limit_answer(answer)
        if isinstance(limited, NetfwError):
            LOG.error("%s: %s", message.method, limited)
            raise limited
        return from_message(limited)

    def _stop_serving(self, topic: str, server: TopicServer, activity: InFlight) -> None:
        with self._lock:
            if self._servers.get(topic) is server:
                del self._servers[topic]
        server.stop_consuming()
        if self._handlers.remove(topic, activity):
            server.close()
        else:  # the handler itself stops, and its answer has to be sent yet
            _run_in_background(server.close)

    def _handle_notification(self, fields: Mapping[str, Any]) -> None:
        try:
            message = to_message(fields)
            self._check_size(message)
        except (ValueError, InvalidInput) as exc:
            LOG.warning("notification is dropped: %s", exc)
            return
        self._offer(message)

    def _offer(self, message: Message) -> None:
        subscription = self._subscriptions.get(message.topic)
        for subscriber in subscription.subscribers if subscription else ():
            subscriber.offer(message)

    def _confirm(self, topic: str, token: str) -> None:
        """Record that a probe arrived: notifications published from now on arrive, too."""
        subscription = self._subscriptions.get(topic)
        if (
            subscription is not None
            and token.isdigit()
            and int(token) > subscription.confirmed_epoch
        ):
            subscription.confirmed_epoch = int(token)
            self._offer(Message(topic=topic, method="subscribed"))

    def _unconfirmed(self) -> Mapping[str, TopicServer]:
        epoch = self._monitor.epoch
        with self._lock:
            return {
                topic: each.server
                for topic, each in self._subscriptions.items()
                if each.confirmed_epoch < epoch
            }

    def _wake_publisher(self) -> None:
        self._publisher.wake()

    def _unsubscribe(self, topic: str, subscriber: CoalescingSubscriber) -> None:
        with self._lock:
            subscription = self._subscriptions.get(topic)
            if subscription is None or subscriber not in subscription.subscribers:
                return
            subscription.subscribers = tuple(
                each for each in subscription.subscribers if each is not subscriber
            )
            if subscription.subscribers:
                return
            del self._subscriptions[topic]

        def close_server() -> None:
            subscription.server.stop_consuming()
            subscription.server.close()

        _run_in_background(close_server)

    def _check_size(self, message: Message) -> None:
        size, limit = len(message.body), self._settings.max_message_size
        if size > limit:
            raise InvalidInput(
                {"body": f"it has {size} bytes, and {limit} is the limit: max_message_size"}
            )

    def _limit_answer(self, answer: Message | NetfwError) -> Message | NetfwError:
        """Return *answer*, or an error if it is too large."""
        limit = self._settings.max_message_size
        if isinstance(answer, NetfwError) or len(answer.body) <= limit:
            return answer
        size = len(answer.body)
        return BackendBroken(
            f"the answer has {size} bytes, and {limit} is the limit: max_message_size"
        )


def _resolve(answer: Future[Message], outcome: Message | NetfwError) -> None:
    with suppress(InvalidStateError):
        if isinstance(outcome, NetfwError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


def _run_in_background(work: Callable[[], None]) -> threading.Thread | None:
    """Run *work* in a thread; here, before this returns, if the machine has none left."""
    try:
        return start_daemon_thread("netfw-broker-end", "", work)
    except BackendUnavailable:
        work()
        return None


def _run_all(works: Sequence[Callable[[], None]]) -> None:
    """Run slow functions at the same time."""
    for thread in [_run_in_background(work) for work in works]:
        if thread is not None:
            thread.join()


def _nothing() -> None:
    """Ignore that the server is ready."""


def _ignore(what: object) -> None:
    """Ignore a message of another kind."""


def _refuse(fields: Mapping[str, Any], wait: float) -> dict[str, Any]:
    return from_error(BackendUnavailable("notifications are not answered"))
