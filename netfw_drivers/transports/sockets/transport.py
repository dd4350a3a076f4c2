"""SocketTransport: messages without a broker."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.support.error_codec import decode_error, encode_error
from netfw.drivers.support.rpc_dispatch import CoalescingSubscriber, HandlerRegistry
from netfw.drivers.support.thread_pool import BoundedThreadPool
from netfw.drivers.transport import (
    Caller,
    Handler,
    Listener,
    Message,
    SharedAddress,
    Stop,
    Transport,
)
from netfw.errors import BackendUnavailable, ConfigError, InvalidInput
from netfw_drivers.transports.sockets.authentication import check_client_files
from netfw_drivers.transports.sockets.client import SocketClient
from netfw_drivers.transports.sockets.event_loop_thread import LoopThread
from netfw_drivers.transports.sockets.listen_sockets import ListenSocket, open_listen_sockets
from netfw_drivers.transports.sockets.options import OPTIONS, Settings, settings_from
from netfw_drivers.transports.sockets.server import SocketServer
from netfw_drivers.transports.sockets.tokens import require_tokens


class SocketTransport(Transport):
    """Transport over unix sockets and TCP, and within the process.

    An object that serves is a server: it listens, publishes to the clients connected to it, and
    calls only itself.  Any other object is a client, which connects on first use.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = OPTIONS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._loop = LoopThread("netfw-rpc-loop")
        self._handlers = HandlerRegistry()
        self._workers = BoundedThreadPool(
            "netfw-rpc-worker", settings.threads, settings.max_queued_requests
        )
        self._listener_pool = BoundedThreadPool("netfw-notifications", threads=1, queue=1 << 30)
        self._subscribers: dict[str, tuple[CoalescingSubscriber, ...]] = {}
        self._client = SocketClient(settings, self._loop, self._handle_notification)
        self._sockets: list[ListenSocket] | None = None
        self._server: SocketServer | None = None
        self._closed = False

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(settings_from(options))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("socket")

    def problems(self) -> tuple[str, ...]:
        problems: list[str] = []
        try:
            if self._settings.token_file:
                require_tokens(self._settings.token_file)
        except ConfigError as exc:
            problems.append(f"[socket] token_file: {exc}")
        try:
            check_client_files(self._settings.tls)
        except ConfigError as exc:
            problems.append(str(exc))
        return tuple(problems)

    def call(self, message: Message, timeout: float) -> Message:
        if self._closed:
            raise BackendUnavailable("this transport was closed")
        if self._server is not None:
            return self._call_in_process(message, timeout)
        return self._client.call(message, timeout)

    def serve(self, topic: str, handler: Handler) -> Stop:
        with self._lock:
            if self._closed:
                raise BackendUnavailable("this transport was closed")
            activity = self._handlers.add(topic, handler)
            try:
                self._start_server()
            except BaseException:
                self._handlers.remove(topic, activity)
                raise

        def stop() -> None:
            if self._handlers.remove(topic, activity):
                self._stop_server_if_idle()
            else:  # called by the handler itself, whose answer is still unsent
                try:
                    start_daemon_thread("netfw-rpc-stop", "", self._stop_server_if_idle)
                except BackendUnavailable:
                    self._workers.submit(self._stop_server_if_idle)

        return stop

    def share_address(self) -> SharedAddress:
        with self._lock:
            if self._sockets is None:
                self._sockets = open_listen_sockets(self._settings)
            numbers = tuple(each.socket.fileno() for each in self._sockets)
        return SharedAddress(
            options={"listen": ",".join(f"fd:{number}" for number in numbers)},
            descriptors=numbers,
        )

    def publish(self, message: Message) -> None:
        for subscriber in self._subscribers.get(message.topic, ()):
            subscriber.offer(message)
        server = self._server
        if server is not None:
            server.publish(message)

    def subscribe(self, topic: str, listener: Listener) -> Stop:
        subscriber = CoalescingSubscriber(topic, listener, self._listener_pool)
        with self._lock:
            self._subscribers[topic] = (*self._subscribers.get(topic, ()), subscriber)
            within = self._server is not None
        if within:
            subscriber.offer(Message(topic=topic, method="subscribed"))
        else:
            try:
                self._client.subscribe(topic)
            except BackendUnavailable:
                with self._lock:
                    self._remove_subscriber(topic, subscriber)
                raise

        def stop() -> None:
            with self._lock:
                if self._remove_subscriber(topic, subscriber):
                    self._client.unsubscribe(topic)
            subscriber.activity.end()

        return stop

    def _remove_subscriber(self, topic: str, subscriber: CoalescingSubscriber) -> bool:
        """Remove a subscriber; return whether it was the last one of the topic.

        The caller holds the lock.
        """
        present = self._subscribers.get(topic, ())
        left = tuple(each for each in present if each is not subscriber)
        if left:  # in one step: notifications are delivered without the lock
            self._subscribers[topic] = left
            return False
        return self._subscribers.pop(topic, None) is not None

    def unreachable_reason(self, topic: str) -> str | None:
        return None if self._server is not None else self._client.unreachable_reason()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            subscribers = [
                subscriber for several in self._subscribers.values() for subscriber in several
            ]
            self._subscribers = {}
        self._client.close()
        self._workers.close()
        self._stop_server()
        for subscriber in subscribers:
            subscriber.activity.end()
        self._listener_pool.close()
        self._loop.close()

    def _start_server(self) -> None:
        if self._server is not None:
            return
        sockets = self._sockets
        opened = open_listen_sockets(self._settings) if sockets is None else sockets
        try:
            self._server = SocketServer(
                self._settings, self._loop, self._handlers, self._workers, opened
            )
        except BaseException:
            if sockets is None:
                for each in opened:
                    each.close()
            raise
        self._sockets = opened
        for (
            topic,
            subscribers,
        ) in self._subscribers.items():  # served by this process: no connection needed
            self._client.unsubscribe(topic)
            for subscriber in subscribers:
                subscriber.offer(Message(topic=topic, method="subscribed"))

    def _stop_server_if_idle(self) -> None:
        with self._lock:
            if self._handlers.idle:
                self._stop_server()

    def _stop_server(self) -> None:
        with self._lock:
            server, self._server = self._server, None
            sockets, self._sockets = self._sockets, None
        if server is not None:
            server.close()
        for each in sockets or ():
            each.close()

    def _handle_notification(self, message: Message) -> None:
        for subscriber in self._subscribers.get(message.topic, ()):
            subscriber.offer(message)

    def _call_in_process(self, message: Message, timeout: float) -> Message:
        """Answer a request of this process to itself as any other."""
        self._check_size(message)
        future: Future[Message] = Future()
        caller = Caller(f"uid:{os.geteuid()}")

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._handlers.answer(message, caller))
            except BaseException as exc:  # noqa: BLE001 - the caller receives it
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
        limit = self._settings.max_message_size
        if len(message.body) > limit:
            raise InvalidInput(
                {"body": f"it has {len(message.body)} bytes, and {limit} is the limit"}
            )
