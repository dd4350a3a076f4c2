"""The server's side: who listens, who asks, and who is told."""

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
from netfw_drivers.transports.sockets.server_connection import Call, ServerConnection

LOG = logging.getLogger(__name__)
_FAREWELL = 5.0
"""Seconds for last answers to leave."""


class Server:
    """Serves at sockets that listen, from its making to :meth:`close`.

    Connections live in the loop's thread; requests are answered by the *desk*, in *workers*.

    :raises ConfigError: tokens, users or TLS files are not as they should be.
    """

    def __init__(
        self,
        settings: Settings,
        loop: LoopThread,
        desk: HandlerRegistry,
        workers: BoundedThreadPool,
        sockets: Sequence[ListenSocket],
    ) -> None:
        self._settings, self._loop, self._desk, self._workers = settings, loop, desk, workers
        self.authenticator = PeerAuthenticator(settings)
        if settings.token_file:
            self.authenticator.tokens()
        self._tls = server_context(settings.tls) if any(each.tls for each in sockets) else None
        self._complaints = RateLimitedLog(LOG)
        self._connected = 0
        self._guests: set[ServerConnection] = set()
        self._topics: dict[str, set[ServerConnection]] = {}
        self._lock = threading.Lock()
        self._unpublished: dict[str, Message] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        loop.run(self._begin(sockets)).result()

    def publish(self, message: Message) -> None:
        """Pass a hint on to those who listen, soon.  From any thread."""
        if message.topic not in self._topics:
            return
        with self._lock:
            scheduled = bool(self._unpublished)
            self._unpublished[message.topic] = message
        if not scheduled:
            self._loop.call_soon(self._pass_on)

    def close(self) -> None:
        """Let nobody in any more, and end all connections once their answers are sent."""
        self._loop.run(self._end()).result()

    # What guests report, in the loop's thread.

    def log_refusal(self, peer: str, reason: str) -> None:
        self._complaints.warning(f"refused {peer}: {reason}")

    def request(self, call: Call) -> None:
        def work() -> None:
            answer = None
            if time.monotonic() < call.deadline:
                answer = _within(call, self._answer(call))
            self._loop.call_soon(_deliver, call.connection, answer)

        if not self._workers.submit(work):
            busy = BackendUnavailable("the server has more requests than it can answer: wait")
            call.connection.answer(_error(call, busy))

    def subscribed(self, guest: ServerConnection, topic: str) -> None:
        self._topics.setdefault(topic, set()).add(guest)

    def unsubscribed(self, guest: ServerConnection, topic: str) -> None:
        listening = self._topics.get(topic, set())
        listening.discard(guest)
        if not listening:
            self._topics.pop(topic, None)

    def disconnected(self, guest: ServerConnection) -> None:
        self._connected -= 1
        self._guests.discard(guest)
        for topic in guest.topics:
            self.unsubscribed(guest, topic)

    def _answer(self, call: Call) -> bytes:
        try:
            answer = self._desk.answer(call.message, call.caller)
            return encode_message("answer", answer, number=call.number)
        except Malformed as exc:
            LOG.error("the answer to %s cannot be sent: %s", call.message.method, exc)
            return _error(call, BackendBroken("the answer cannot be sent"))
        except BaseException as exc:  # noqa: BLE001 - the caller is told, whatever it is
            return _error(call, exc)

    def _pass_on(self) -> None:
        with self._lock:
            hints, self._unpublished = self._unpublished, {}
        for topic, message in hints.items():
            try:
                data = encode_message("hint", message)
            except Malformed as exc:
                LOG.error("a hint for %s cannot be sent: %s", topic[:100], exc)
                continue
            for guest in tuple(self._topics.get(topic, ())):
                guest.notify(topic, data)

    async def _begin(self, sockets: Sequence[ListenSocket]) -> None:
        for each in sockets:
            self._task(self._accept(each))

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for guest in self._guests:
            guest.stop_requests()
        deadline = time.monotonic() + _FAREWELL
        while time.monotonic() < deadline and any(guest.has_unanswered for guest in self._guests):
            await asyncio.sleep(0.01)
        await drain(tuple(self._guests), _FAREWELL)

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: ListenSocket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening.socket)
            except OSError as exc:  # no descriptors left, or the peer has gone already
                self._complaints.warning(f"cannot accept at {listening.name}: {exc}")
                await asyncio.sleep(0.1)
                continue
            peer = describe_peer(connection)
            try:
                guest = self._admit(listening, connection, peer)
            except AccessDenied as exc:
                self.log_refusal(peer, str(exc))
                _turn_away(connection, listening, str(exc))
            else:
                self._task(self._greet(guest, listening, connection))

    def _admit(
        self, listening: ListenSocket, connection: socket.socket, peer: str
    ) -> ServerConnection:
        if self._connected >= self._settings.connections:
            raise AccessDenied(f"{self._settings.connections} clients are connected already")
        caller = self.authenticator.unix_caller(connection) if listening.is_unix else None
        guest = ServerConnection(self, self._settings, peer, caller)
        self._connected += 1
        return guest

    async def _greet(
        self, guest: ServerConnection, listening: ListenSocket, connection: socket.socket
    ) -> None:
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: guest,
                connection,
                ssl=self._tls if listening.tls else None,
                ssl_handshake_timeout=self._settings.handshake if listening.tls else None,
            )
        except OSError as exc:  # TLS fails with one
            guest.refuse(str(exc) or type(exc).__name__)
            guest.connection_lost(None)
            connection.close()
        except asyncio.CancelledError:
            guest.connection_lost(None)
            raise
        else:
            self._guests.add(guest)
            guest.start_handshake(transport.get_extra_info("ssl_object"))


def _turn_away(connection: socket.socket, listening: ListenSocket, reason: str) -> None:
    with connection, suppress(OSError):
        if not listening.tls:
            connection.send(encode({"kind": "refused", "text": reason}))


def _within(call: Call, answer: bytes) -> bytes:
    if len(answer) <= call.limit:
        return answer
    too_large = f"the answer has {len(answer)} bytes, and {call.limit} is the limit: message_size"
    LOG.error("%s of %s: %s", call.message.method, call.caller.name, too_large)
    return _error(call, BackendBroken(too_large))


def _error(call: Call, error: BaseException) -> bytes:
    return encode({"kind": "error", "number": call.number}, encode_error(error))


def _deliver(guest: ServerConnection, answer: bytes | None) -> None:
    guest.answer(b"" if answer is None else answer)
