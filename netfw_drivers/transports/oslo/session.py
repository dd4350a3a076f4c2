"""What a transport does once it is used: requests, answers and hints over the broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from attrs import define

from netfw.drivers.support.rpc_dispatch import CoalescingSubscriber, HandlerRegistry
from netfw.drivers.support.thread_pool import BoundedThreadPool, InFlight
from netfw.drivers.transport import Caller, Handler, Listener, Message, Stop
from netfw.errors import BackendBroken, BackendUnavailable, InvalidInput, NetfwError
from netfw_drivers.transports.oslo.broker_monitor import BrokerMonitor
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
from netfw_drivers.transports.oslo.rpc_server import Endpoint, TopicServer, patiently

LOG = logging.getLogger(__name__)
_CALLERS = 32
"""Requests of one process that are under way at most; more of them wait."""
_SPARE = 8
"""Threads that tell those who are too many."""
_PATIENCE = 5.0
_SOMEBODY = Caller("broker")
_BUSY = BackendUnavailable("the server has more requests than it can answer: wait")


@define(eq=False)
class Listening:
    """A topic that is listened to: by whom, and since which connection it is known to work."""

    station: TopicServer
    ears: tuple[CoalescingSubscriber, ...]
    heard: int = 0


class OsloSession:
    """Everything that a transport holds, from its first use on.

    :raises ConfigError: the URL cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._bus = OsloMessaging(settings)
        self._desk = HandlerRegistry()
        self._seats = threading.Semaphore(settings.workers)
        self._present = 0
        self._lock = threading.Lock()
        self._callers = BoundedThreadPool("netfw-call", _CALLERS, queue=1000)
        self._waiting: set[Future[Message]] = set()
        self._hearing = BoundedThreadPool("netfw-notifications", threads=1, queue=1 << 30)
        self._stations: dict[str, TopicServer] = {}
        self._topics: dict[str, Listening] = {}
        self._closed = False
        self._watch = BrokerMonitor(settings, self._bus.hosts(), self._look)
        self._signpost = QueueProbe(settings, self._bus, self._watch)
        self._postman = Publisher(self._bus, self._watch, self._unheard)
        self._watch.start()

    def call(self, message: Message, timeout: float) -> Message:
        deadline = time.monotonic() + timeout
        self._check_size(message)
        if not self._watch.wait(timeout):
            raise BackendUnavailable(
                "this transport was closed"
                if self._closed
                else f"no broker within {timeout:g} s: {self._watch.why}"
            )
        answer: Future[Message] = Future()
        with self._lock:
            if self._closed:
                raise BackendUnavailable("this transport is closed")
            self._waiting.add(answer)
        try:
            if not self._callers.submit(lambda: self._ask(message, deadline, answer)):
                raise BackendUnavailable("this process has too many requests under way")
            return answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError as exc:
            raise BackendUnavailable(self._silence(message, timeout)) from exc
        finally:
            with self._lock:
                self._waiting.discard(answer)
            answer.cancel()

    def serve(self, topic: str, handler: Handler) -> Stop:
        activity = self._desk.add(topic, handler)
        endpoint = Endpoint(self._answer, _ignore, _ignore)
        threads = self._settings.workers + self._settings.queue + _SPARE
        station = TopicServer(
            self._bus, self._watch, "call", topic,
            endpoint=endpoint, threads=threads, ready=_nothing,
        )  # fmt: skip
        with self._lock:
            self._stations[topic] = station

        return lambda: self._stop_serving(topic, station, activity)

    def publish(self, message: Message) -> None:
        self._postman.send(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        ear = CoalescingSubscriber(topic, listener, self._hearing)
        with self._lock:
            known = self._topics.get(topic)
            if known is None:
                endpoint = Endpoint(
                    _refuse, self._heard, lambda token: self._confirmed(topic, token)
                )
                station = TopicServer(
                    self._bus, self._watch, "hint", topic,
                    endpoint=endpoint, threads=1, ready=self._look,
                )  # fmt: skip
                self._topics[topic] = Listening(station, (ear,))
            else:
                known.ears = (*known.ears, ear)
                if known.heard == self._watch.epoch:
                    ear.offer(Message(topic=topic, method="listening"))
        self._look()

        def stop() -> None:
            self._leave(topic, ear)
            ear.activity.end()

        return stop

    def close(self) -> None:
        """End everything; see the contract."""
        with self._lock:
            self._closed = True
            waiting = tuple(self._waiting)
            stations, self._stations = self._stations, {}
            topics, self._topics = self._topics, {}
        for answer in waiting:
            _settle(answer, BackendUnavailable("this transport was closed"))
        ending = [*stations.values(), *(each.station for each in topics.values())]
        _all([station.silence for station in ending])
        self._desk.end()
        _all([station.close for station in ending])
        for each in topics.values():
            for ear in each.ears:
                ear.activity.end()
        self._postman.close()
        self._watch.close()
        self._callers.close(wait=False)
        self._hearing.close()
        patiently(self._signpost.close, _PATIENCE)
        patiently(self._bus.close, _PATIENCE)

    def _silence(self, message: Message, timeout: float) -> str:
        if self._watch.there and not self._signpost.knows(message.topic):
            return f"nobody serves {message.topic} within {timeout:g} s: is the server started?"
        return f"no answer on {message.topic} to {message.method} within {timeout:g} s"

    def _ask(self, message: Message, deadline: float, answer: Future[Message]) -> None:
        """Send a request and wait for its answer, in a thread that nobody misses."""
        if time.monotonic() > deadline or not answer.set_running_or_notify_cancel():
            return
        try:
            if not self._signpost.wait(message.topic, deadline, answer.done):
                return  # who asks is told by now
            left = max(0.001, deadline - time.monotonic())
            outcome = to_answer(self._bus.call(message.topic, from_message(message), left))
        except oslo_messaging.MessagingTimeout:
            outcome = BackendUnavailable(f"no answer on {message.topic} to {message.method}")
        except oslo_messaging.MessagingException as exc:
            outcome = BackendUnavailable(f"the broker did not take the request: {exc}")
        except Exception as exc:  # noqa: BLE001 - of kombu, of sockets, after this was closed
            outcome = BackendUnavailable(f"the request was lost: {type(exc).__name__}: {exc}")
        _settle(answer, outcome)

    def _answer(self, fields: Mapping[str, Any], wait: float) -> dict[str, Any]:
        """Answer a request; in a thread of oslo.messaging, of which there are more than seats."""
        with self._lock:
            if self._present >= self._settings.workers + self._settings.queue:
                return from_error(_BUSY)
            self._present += 1
        try:
            if not self._seats.acquire(timeout=max(0.0, min(wait, 86_400.0))):
                return from_error(_BUSY)
            try:
                return self._answer_now(to_message(fields))
            finally:
                self._seats.release()
        except BaseException as exc:  # noqa: BLE001 - the caller is told, whatever it is
            return from_error(exc)
        finally:
            with self._lock:
                self._present -= 1

    def _answer_now(self, message: Message) -> dict[str, Any]:
        self._check_size(message)
        answer = self._desk.answer(message, _SOMEBODY)
        size, limit = len(answer.body), self._settings.message_size
        if size > limit:
            too_large = f"the answer has {size} bytes, and {limit} is the limit: message_size"
            LOG.error("%s: %s", message.method, too_large)
            raise BackendBroken(too_large)
        return from_message(answer)

    def _stop_serving(self, topic: str, station: TopicServer, activity: InFlight) -> None:
        with self._lock:
            if self._stations.get(topic) is station:
                del self._stations[topic]
        station.silence()
        if self._desk.remove(topic, activity):
            station.close()
        else:  # the handler itself stops, and its answer has to be sent yet
            threading.Thread(target=station.close, daemon=True).start()

    def _heard(self, fields: Mapping[str, Any]) -> None:
        try:
            message = to_message(fields)
        except ValueError as exc:
            LOG.warning("a hint cannot be read: %s", exc)
            return
        self._offer(message)

    def _offer(self, message: Message) -> None:
        listening = self._topics.get(message.topic)
        for ear in listening.ears if listening else ():
            ear.offer(message)

    def _confirmed(self, topic: str, token: str) -> None:
        """A station has heard itself: what is published from now on arrives."""
        listening = self._topics.get(topic)
        if listening is not None and token.isdigit() and int(token) > listening.heard:
            listening.heard = int(token)
            self._offer(Message(topic=topic, method="listening"))

    def _unheard(self) -> Mapping[str, TopicServer]:
        epoch = self._watch.epoch
        with self._lock:
            return {
                topic: each.station for topic, each in self._topics.items() if each.heard < epoch
            }

    def _look(self) -> None:
        self._postman.look()

    def _leave(self, topic: str, ear: CoalescingSubscriber) -> None:
        with self._lock:
            listening = self._topics.get(topic)
            if listening is None or ear not in listening.ears:
                return
            listening.ears = tuple(each for each in listening.ears if each is not ear)
            if listening.ears:
                return
            del self._topics[topic]

        def let_go() -> None:
            listening.station.silence()
            listening.station.close()

        threading.Thread(target=let_go, daemon=True).start()

    def _check_size(self, message: Message) -> None:
        size, limit = len(message.body), self._settings.message_size
        if size > limit:
            raise InvalidInput(
                {"body": f"it has {size} bytes, and {limit} is the limit: message_size"}
            )


def _settle(answer: Future[Message], outcome: Message | NetfwError) -> None:
    with suppress(InvalidStateError):
        if isinstance(outcome, NetfwError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


def _all(works: Sequence[Callable[[], None]]) -> None:
    """Do several things that take a while, at the same time."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _nothing() -> None:
    """Nobody waits for it."""


def _ignore(what: object) -> None:
    """Nobody listens here."""


def _refuse(fields: Mapping[str, Any], wait: float) -> dict[str, Any]:
    return from_error(BackendUnavailable("hints are not answered"))
