"""SocketTransport: messages without a broker."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.support.error_codec import decode_error, encode_error
from netfw.drivers.support.rpc_dispatch import CoalescingSubscriber, HandlerRegistry
from netfw.drivers.support.thread_pool import BoundedThreadPool
from netfw.drivers.transport import Caller, Handler, Listener, Message, Shared, Stop, Transport
from netfw.errors import BackendUnavailable, ConfigError, InvalidInput
from netfw_drivers.transports.sockets.authentication import client_context
from netfw_drivers.transports.sockets.client import Client
from netfw_drivers.transports.sockets.event_loop_thread import LoopThread
from netfw_drivers.transports.sockets.listen_sockets import ListenSocket, open_all
from netfw_drivers.transports.sockets.options import OPTIONS, Settings, settings_from
from netfw_drivers.transports.sockets.server import Server
from netfw_drivers.transports.sockets.tokens import read_tokens


class SocketTransport(Transport):
    """Over unix sockets and TCP, and within the process.

    An object that serves is a server's: it listens, publishes to those who are connected to it,
    and calls nobody but itself.  Any other is a client's, which connects when it is used.
    """

    VERSION: ClassVar[int] = 1
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = OPTIONS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._loop = LoopThread("netfw-messages")
        self._desk = HandlerRegistry()
        self._workers = BoundedThreadPool("netfw-answer", settings.workers, settings.queue)
        self._hearing = BoundedThreadPool("netfw-hints", threads=1, queue=1 << 30)
        self._ears: dict[str, tuple[CoalescingSubscriber, ...]] = {}
        self._client = Client(settings, self._loop, self._heard)
        self._sockets: list[ListenSocket] | None = None
        self._server: Server | None = None
        self._closed = False

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(settings_from(options))

    def describe(self) -> DriverInfo:
        return DriverInfo("socket")

    def problems(self) -> tuple[str, ...]:
        found: list[str] = []
        try:
            if self._settings.token_file:
                read_tokens(self._settings.token_file)
        except ConfigError as exc:
            found.append(str(exc))
        try:
            client_context(self._settings.tls)
        except ConfigError as exc:
            found.append(str(exc))
        return tuple(found)

    def call(self, message: Message, timeout: float) -> Message:
        if self._closed:
            raise BackendUnavailable("this transport is closed")
        if self._server is not None:
            return self._call_within(message, timeout)
        return self._client.call(message, timeout)

    def serve(self, topic: str, handler: Handler) -> Stop:
        with self._lock:
            if self._closed:
                raise BackendUnavailable("this transport is closed")
            activity = self._desk.add(topic, handler)
            try:
                self._open()
            except BaseException:
                self._desk.remove(topic, activity)
                raise

        def stop() -> None:
            if self._desk.remove(topic, activity):
                self._shut_if_idle()
            else:  # the handler itself stops, and its answer has to be sent yet
                threading.Thread(target=self._shut_if_idle, daemon=True).start()

        return stop

    def share(self) -> Shared:
        with self._lock:
            if self._sockets is None:
                self._sockets = open_all(self._settings)
            numbers = tuple(each.socket.fileno() for each in self._sockets)
        return Shared(
            options={"listen": ",".join(f"fd:{number}" for number in numbers)},
            descriptors=numbers,
        )

    def publish(self, message: Message) -> None:
        for ear in self._ears.get(message.topic, ()):
            ear.offer(message)
        server = self._server
        if server is not None:
            server.publish(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        ear = CoalescingSubscriber(topic, listener, self._hearing)
        with self._lock:
            self._ears[topic] = (*self._ears.get(topic, ()), ear)
            within = self._server is not None
        if within:
            ear.offer(Message(topic=topic, method="listening"))
        else:
            self._client.listen(topic)

        def stop() -> None:
            with self._lock:
                left = tuple(each for each in self._ears.get(topic, ()) if each is not ear)
                if left:
                    self._ears[topic] = left
                elif self._ears.pop(topic, None):
                    self._client.unlisten(topic)
            ear.activity.end()

        return stop

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            ears = [ear for several in self._ears.values() for ear in several]
            self._ears = {}
        self._client.close()
        self._workers.close()
        self._shut()
        for ear in ears:
            ear.activity.end()
        self._hearing.close()
        self._loop.close()

    def _open(self) -> None:
        if self._server is not None:
            return
        sockets = self._sockets
        opened = open_all(self._settings) if sockets is None else sockets
        try:
            self._server = Server(self._settings, self._loop, self._desk, self._workers, opened)
        except BaseException:
            if sockets is None:
                for each in opened:
                    each.close()
            raise
        self._sockets = opened
        for topic, ears in self._ears.items():  # what is here need not be connected to
            self._client.unlisten(topic)
            for ear in ears:
                ear.offer(Message(topic=topic, method="listening"))

    def _shut_if_idle(self) -> None:
        with self._lock:
            if self._desk.idle:
                self._shut()

    def _shut(self) -> None:
        with self._lock:
            server, self._server = self._server, None
            sockets, self._sockets = self._sockets, None
        if server is not None:
            server.close()
        for each in sockets or ():
            each.close()

    def _heard(self, message: Message) -> None:
        for ear in self._ears.get(message.topic, ()):
            ear.offer(message)

    def _call_within(self, message: Message, timeout: float) -> Message:
        """A request of this process to itself, which is treated as any other."""
        self._check_size(message)
        future: Future[Message] = Future()
        caller = Caller(f"uid:{os.geteuid()}")

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._desk.answer(message, caller))
            except BaseException as exc:  # noqa: BLE001 - it belongs to the caller
                future.set_exception(decode_error(encode_error(exc)))

        if not self._workers.submit(work):
            raise BackendUnavailable("this process has more requests than it can answer: wait")
        try:
            return future.result(timeout)
        except TimeoutError as exc:
            future.cancel()
            raise BackendUnavailable(
                f"no answer on {message.topic} to {message.method} within {timeout:g} s"
            ) from exc

    def _check_size(self, message: Message) -> None:
        limit = self._settings.message_size
        if len(message.body) > limit:
            raise InvalidInput(
                {"body": f"it has {len(message.body)} bytes, and {limit} is the limit"}
            )
