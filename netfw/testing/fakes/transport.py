"""A transport within one process, which counts what it carries and can be made to fail."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from typing import Any, ClassVar, Self

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.support.error_codec import decode_error, encode_error
from netfw.drivers.transport import Caller, Handler, Listener, Message, Stop, Transport
from netfw.errors import BackendUnavailable, ConfigError

Fate = Callable[[Message], Iterator[Message]]
"""Decides the delivery of a hint: unchanged, dropped, or several."""


def _arrives(message: Message) -> Iterator[Message]:
    yield message


class FakeBroker:
    """The broker that connects the transports of one test.

    Requests are answered by other threads and hints arrive in another one, as between processes.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """The number of requests, by method."""
        self.bytes = 0
        """The bytes of all bodies, in both directions."""
        self.hints: Counter[str] = Counter()
        """The number of published hints, by topic."""
        self.fate: Fate = _arrives
        self.cut = False
        self._handlers: dict[str, Handler] = {}
        self._listeners: dict[str, dict[object, Listener]] = {}
        self._listening = threading.RLock()
        self._workers = ThreadPoolExecutor(4, thread_name_prefix="wire")
        self._underway: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._courier = threading.Thread(target=self._carry, name="courier", daemon=True)
        self._courier.start()

    def transport(self, caller: Caller = Caller("somebody")) -> FakeTransport:  # noqa: B008
        """Return a transport of a process with the credentials of *caller*."""
        return FakeTransport(self, caller)

    def close(self) -> None:
        """Stop the threads."""
        self._underway.put(None)
        self._courier.join()
        self._workers.shutdown()

    def handler(self, topic: str) -> Handler:
        """Return the handler of *topic*, for a test that wraps it."""
        return self._handlers[topic]

    def call(self, message: Message, caller: Caller, timeout: float) -> Message:
        handler = self._handlers.get(message.topic)
        if self.cut or handler is None:
            raise BackendUnavailable(f"no server answers on {message.topic}")
        self.calls[message.method] += 1
        under_way: Future[Message] = self._workers.submit(handler, message, caller)
        try:
            answer = under_way.result(timeout)
        except TooLate as exc:
            raise BackendUnavailable(f"no answer within {timeout} seconds") from exc
        except Exception as exc:  # noqa: BLE001 - whatever it is, it reaches the caller
            raise decode_error(encode_error(exc)) from None
        self.bytes += len(message.body) + len(answer.body)
        return answer

    def serve(self, topic: str, handler: Handler) -> Stop:
        self._handlers[topic] = handler
        return lambda: self._handlers.pop(topic, None) and None

    def publish(self, message: Message) -> None:
        self.hints[message.topic] += 1
        self._underway.put(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        token = object()
        with self._listening:
            self._listeners.setdefault(topic, {})[token] = listener
        self._underway.put(Message(topic=topic, method="notification"))

        def stop() -> None:
            with self._listening:
                self._listeners[topic].pop(token, None)

        return stop

    def _carry(self) -> None:
        while (message := self._underway.get()) is not None:
            for arrived in self.fate(message):
                with self._listening:
                    for listener in tuple(self._listeners.get(arrived.topic, {}).values()):
                        listener(arrived)


class FakeTransport(Transport):
    """One end of a :class:`FakeBroker`."""

    VERSION: ClassVar[int] = 2

    def __init__(self, wire: FakeBroker, caller: Caller) -> None:
        self._wire, self._caller = wire, caller

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise ConfigError("this transport is made by tests")

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("wire")

    def call(self, message: Message, timeout: float) -> Message:
        return self._wire.call(message, self._caller, timeout)

    def serve(self, topic: str, handler: Handler) -> Stop:
        return self._wire.serve(topic, handler)

    def publish(self, message: Message) -> None:
        self._wire.publish(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        return self._wire.subscribe(topic, listener)
