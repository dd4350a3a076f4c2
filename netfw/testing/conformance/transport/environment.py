"""Hooks of transport suites, and recording listeners, blocking handlers and background calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar

from netfw.drivers.transport import Caller, Message, SharedAddress, Transport
from netfw.errors import BackendUnavailable
from netfw.testing.conformance.common.required_hooks import RequiresHooks

SERVER = "server"


class RecordingListener:
    """A listener that records messages."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self.received: list[Message] = []

    def __call__(self, message: Message) -> None:
        with self._lock:
            self.received.append(message)
            self._lock.notify_all()

    def forget(self) -> None:
        """Clear the record."""
        with self._lock:
            self.received.clear()

    def wait_for(self, seconds: float, count: int = 1) -> bool:
        """Return whether *count* messages were recorded within *seconds*."""
        with self._lock:
            return self._lock.wait_for(lambda: len(self.received) >= count, seconds)


class BlockingHandler:
    """A handler that blocks requests until it is opened."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self.begun = 0
        self.ended = 0
        self._open = False

    def __call__(self, message: Message, caller: Caller) -> Message:
        if message.method != "wait":
            return message
        with self._lock:
            self.begun += 1
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._open, 30)
            self.ended += 1
        return message

    def open(self) -> None:
        """Release all requests."""
        with self._lock:
            self._open = True
            self._lock.notify_all()

    def holds(self, seconds: float, count: int = 1) -> bool:
        """Return whether *count* requests arrived within *seconds*."""
        with self._lock:
            return self._lock.wait_for(lambda: self.begun >= count, seconds)


class BackgroundCall:
    """A call in a thread of its own: its result or error, and its duration."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._began = threading.Event()
        self.result: object = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ends(self, seconds: float) -> bool:
        """Return whether it ends within *seconds* after it has begun."""
        self._began.wait()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._began.set()
        begun = time.monotonic()
        try:
            self.result = self._work()
        except BaseException as exc:  # noqa: BLE001 - the test looks at it
            self.error = exc
        self.seconds = time.monotonic() - begun


class TransportHooks(RequiresHooks):
    """Hooks of a vendor, and the limits of the tests."""

    HOOKS: ClassVar[tuple[str, ...]] = (
        "make_server", "make_client", "outage", "unauthorized_clients", "log_text",
    )  # fmt: skip
    LIMIT: ClassVar[int] = 100_000
    """Configured size of the largest message, in bytes."""
    WORKERS: ClassVar[int] = 4
    """Configured number of requests that a server handles at the same time."""
    TIMEOUT: ClassVar[float] = 20.0
    """Seconds to wait for an expected event, including a reconnect."""
    SHORT: ClassVar[float] = 0.8
    """Time-out of a call without an answer, in seconds."""
    SLACK: ClassVar[float] = 10.0
    """Seconds by which a time-out may be exceeded on a busy host."""

    def make_server(self, shared: SharedAddress | None = None) -> Transport:
        """Return a server's transport; with *shared*, one that shares the address of another."""
        raise NotImplementedError("override `make_server`")

    def make_client(self) -> Transport:
        """Return an agent's transport to the same server."""
        raise NotImplementedError("override `make_client`")

    def outage(self) -> AbstractContextManager[None]:
        """Return a context in which all connections are broken and none can be made."""
        raise NotImplementedError("override `outage`")

    def unauthorized_clients(self) -> Iterable[Transport]:
        """Return clients that may not connect: wrong user, token, password or certificate."""
        raise NotImplementedError("override `unauthorized_clients`")

    def log_text(self) -> str:
        """Return what the transport or its broker logged about refused clients and sizes."""
        raise NotImplementedError("override `log_text`")

    @contextmanager
    def make_environment(self) -> Iterator[TransportEnvironment]:
        """Yield the environment of one test; close what it made at the end."""
        environment = TransportEnvironment(self)
        try:
            yield environment
        finally:
            environment.end()


class TransportEnvironment:
    """The transports of one test."""

    def __init__(self, suite: TransportHooks) -> None:
        self._suite = suite
        self._made: list[Transport] = []
        self._gates: list[BlockingHandler] = []

    def end(self) -> None:
        """Close all transports in parallel."""
        for gate in self._gates:  # what is held could not be closed
            gate.open()
        closing = [BackgroundCall(transport.close) for transport in self._made]
        for call in closing:
            assert call.ends(self._suite.TIMEOUT), "it cannot be closed"
            assert call.error is None, f"it cannot be closed: {call.error!r}"

    def server(self, shared: SharedAddress | None = None) -> Transport:
        """Return a server's transport."""
        return self.keep(self._suite.make_server(shared))

    def client(self) -> Transport:
        """Return an agent's transport."""
        return self.keep(self._suite.make_client())

    def keep(self, transport: Transport) -> Transport:
        """Close *transport* at the end."""
        self._made.append(transport)
        return transport

    def gatekeeper(self) -> BlockingHandler:
        """Return a handler that blocks requests, at most until the end."""
        self._gates.append(BlockingHandler())
        return self._gates[-1]

    def pair(self, handler: Callable[[Message, Caller], Message] | None = None) -> Transport:
        """Return a client whose server answers with *handler*, or an echo."""
        self.server().serve(SERVER, handler or echo)
        client = self.client()
        self.settle(client)
        return client

    def settle(self, client: Transport, topic: str = SERVER) -> None:
        """Call until a server answers: the connection may have to be made first."""
        deadline = time.monotonic() + self._suite.TIMEOUT
        while True:
            try:
                client.call(request("settle", topic=topic), 1.0)
            except BackendUnavailable:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def notification_arrives(
        self, server: Transport, listener: RecordingListener, topic: str
    ) -> bool:
        """Return whether a notification arrives when it is sent repeatedly."""
        deadline = time.monotonic() + self._suite.TIMEOUT
        listener.forget()
        while time.monotonic() < deadline:
            server.publish(Message(topic=topic, method="notification"))
            if listener.wait_for(0.2):
                return True
        return False


def echo(message: Message, caller: Caller) -> Message:
    """Return the request as the answer."""
    return message


def request(method: str, body: bytes = b"", topic: str = SERVER) -> Message:
    """Make a request to the server."""
    return Message(topic=topic, method=method, body=body)


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Return whether *true* becomes true within *seconds*."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
