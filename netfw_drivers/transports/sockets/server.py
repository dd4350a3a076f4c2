"""Server: listen sockets, requests and subscriptions."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from netfw.drivers.support.error_codec import encode_error
from netfw.drivers.support.rpc_dispatch import HandlerRegistry
from netfw.drivers.support.thread_pool import BoundedThreadPool
from netfw.drivers.transport import Message
from netfw.errors import BackendBroken, BackendUnavailable
from netfw_drivers.transports.sockets.authentication import (
    AccessDenied,
    PeerAuthenticator,
    describe_peer,
    server_context,
)
from netfw_drivers.transports.sockets.connection import drain
from netfw_drivers.transports.sockets.event_loop_thread import LoopThread
from netfw_drivers.transports.sockets.framing import Malformed, encode, encode_message
from netfw_drivers.transports.sockets.listen_sockets import ListenSocket
from netfw_drivers.transports.sockets.options import Settings
from netfw_drivers.transports.sockets.rate_limited_log import RateLimitedLog
from netfw_drivers.transports.sockets.server_connection import IncomingRequest, ServerConnection

LOG = logging.getLogger(__name__)
_CLOSE_TIMEOUT = 5.0
"""Seconds to flush the last answers."""
_TOKEN_POLL = 1.0
"""Seconds between checks of the token file."""


class SocketServer:
    """Serves at listen sockets, from its construction to :meth:`close`.

    Connections live in the loop's thread; *handlers* answer requests, in threads of *workers*.

    :raises ConfigError: tokens, users or TLS files are unusable.
    """

    def __init__(
        self,
        settings: Settings,
        loop: LoopThread,
        handlers: HandlerRegistry,
        workers: BoundedThreadPool,
        sockets: Sequence[ListenSocket],
    ) -> None:
        self._settings, self._loop, self._handlers, self._workers = (
            settings,
            loop,
            handlers,
            workers,
        )
        self.authenticator = PeerAuthenticator(settings)
        self._checked: object = None
        """Tokens with which the open connections were compared last."""
        self._tls = server_context(settings.tls) if any(each.tls for each in sockets) else None
        self._refusals = RateLimitedLog(LOG)
        self._connected = 0
        self._connections: set[ServerConnection] = set()
        self._topics: dict[str, set[ServerConnection]] = {}
        self._lock = threading.Lock()
        self._unpublished: dict[str, Message] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted: set[socket.socket] = set()
        """Clients whose task has not begun: it never does if it is cancelled first."""
        loop.run(self._start(sockets)).result()

    def publish(self, message: Message) -> None:
        """Queue a notification for the subscribers of its topic.  From any thread."""
        if message.topic not in self._topics:
            return
        with self._lock:
            scheduled = bool(self._unpublished)
            self._unpublished[message.topic] = message
        if not scheduled:
            self._loop.call_soon(self._send_notifications)

    def close(self) -> None:
        """Stop accepting, and close all connections once their answers are sent."""
        self._loop.run(self._stop()).result()

    # Callbacks of connections, in the loop's thread.

    def log_refusal(self, peer: str, reason: str) -> None:
        self._refusals.warning(f"refused {peer}: {reason}")

    def request(self, call: IncomingRequest) -> None:
        def work() -> None:
            answer = None
            if time.monotonic() < call.deadline:
                answer = _limit_size(call, self._answer(call))
            self._loop.call_soon(_send_answer, call.connection, answer)

        try:
            if not self._workers.submit(work):
                raise BackendUnavailable("the server has more requests than it can answer: wait")
        except BackendUnavailable as exc:
            call.connection.answer(_error(call, exc))

    def subscribed(self, connection: ServerConnection, topic: str) -> None:
        self._topics.setdefault(topic, set()).add(connection)

    def unsubscribed(self, connection: ServerConnection, topic: str) -> None:
        subscribers = self._topics.get(topic, set())
        subscribers.discard(connection)
        if not subscribers:
            self._topics.pop(topic, None)

    def disconnected(self, connection: ServerConnection) -> None:
        self._connected -= 1
        self._connections.discard(connection)
        for topic in connection.topics:
            self.unsubscribed(connection, topic)

    def _answer(self, call: IncomingRequest) -> bytes:
        try:
            answer = self._handlers.answer(call.message, call.caller)
            return encode_message("answer", answer, number=call.number)
        except Malformed as exc:
            LOG.error("the answer to %s cannot be sent: %s", call.message.method, exc)
            return _error(call, BackendBroken("the answer cannot be sent"))
        except BaseException as exc:  # noqa: BLE001 - the caller receives it
            return _error(call, exc)

    def _send_notifications(self) -> None:
        with self._lock:
            notifications, self._unpublished = self._unpublished, {}
        for topic, message in notifications.items():
            try:
                data = encode_message("notification", message)
            except Malformed as exc:
                LOG.error("notification for %s cannot be sent: %s", topic[:100], exc)
                continue
            for connection in tuple(self._topics.get(topic, ())):
                connection.notify(topic, data)

    async def _start(self, sockets: Sequence[ListenSocket]) -> None:
        for each in sockets:
            self._task(self._accept(each))
        if self._settings.token_file:
            self._task(self._watch_tokens())

    async def _watch_tokens(self) -> None:
        """Close the connections of tokens that the file no longer has."""
        while True:
            tokens = self.authenticator.poll_tokens()
            if tokens is not None and tokens is not self._checked:
                self._checked = tokens
                for connection in tuple(self._connections):
                    token = connection.token
                    if token is not None and token not in tokens.get(token.host, ()):
                        connection.refuse("its token was revoked")
            await asyncio.sleep(_TOKEN_POLL)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._accepted:
            client.close()
        for connection in self._connections:
            connection.stop_requests()
        deadline = time.monotonic() + _CLOSE_TIMEOUT
        while time.monotonic() < deadline and any(
            connection.has_unanswered for connection in self._connections
        ):
            await asyncio.sleep(0.01)
        await drain(tuple(self._connections), _CLOSE_TIMEOUT)

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: ListenSocket) -> None:
        while True:
            try:
                client = await listening.accept()
            except OSError as exc:  # no descriptors left, or the peer has gone already
                self._refusals.warning(f"cannot accept at {listening.name}: {exc}")
                await asyncio.sleep(0.1)
                continue
            peer = describe_peer(client)
            try:
                connection = self._make_connection(listening, client, peer)
            except AccessDenied as exc:
                self.log_refusal(peer, str(exc))
                _refuse(client, listening, str(exc))
            else:
                self._accepted.add(client)
                self._task(self._start_connection(connection, listening, client))

    def _make_connection(
        self, listening: ListenSocket, client: socket.socket, peer: str
    ) -> ServerConnection:
        if self._connected >= self._settings.max_connections:
            raise AccessDenied(f"{self._settings.max_connections} clients are connected already")
        caller = self.authenticator.unix_caller(client) if listening.is_unix else None
        connection = ServerConnection(self, self._settings, peer, caller)
        self._connected += 1
        return connection

    async def _start_connection(
        self, connection: ServerConnection, listening: ListenSocket, client: socket.socket
    ) -> None:
        self._accepted.discard(client)
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._tls if listening.tls else None,
                ssl_handshake_timeout=self._settings.handshake if listening.tls else None,
            )
        except OSError as exc:  # TLS fails with one
            connection.refuse(str(exc) or type(exc).__name__)
            connection.connection_lost(None)
            client.close()
        except asyncio.CancelledError:
            connection.connection_lost(None)
            raise
        else:
            self._connections.add(connection)
            connection.start_handshake(transport.get_extra_info("ssl_object"))


def _refuse(client: socket.socket, listening: ListenSocket, reason: str) -> None:
    with client, suppress(OSError):
        if not listening.tls:
            client.send(encode({"kind": "refused", "text": reason}))


def _limit_size(call: IncomingRequest, answer: bytes) -> bytes:
    if len(answer) <= call.limit:
        return answer
    too_large = (
        f"the answer has {len(answer)} bytes, and {call.limit} is the limit: max_message_size"
    )
    LOG.error("%s of %s: %s", call.message.method, call.caller.name, too_large)
    return _error(call, BackendBroken(too_large))


def _error(call: IncomingRequest, error: BaseException) -> bytes:
    return encode({"kind": "error", "number": call.number}, encode_error(error))


def _send_answer(connection: ServerConnection, answer: bytes | None) -> None:
    connection.answer(b"" if answer is None else answer)
