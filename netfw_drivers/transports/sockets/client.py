"""Client: connects on first use, and reconnects."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import ssl
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress

from attrs import define

from netfw.drivers.transport import Message
from netfw.errors import BackendUnavailable, ConfigError, InvalidInput, NetfwError
from netfw_drivers.transports.sockets.address import Address, TcpAddress, UnixAddress
from netfw_drivers.transports.sockets.authentication import client_context
from netfw_drivers.transports.sockets.client_connection import ClientConnection, HandshakeRefused
from netfw_drivers.transports.sockets.connection import drain
from netfw_drivers.transports.sockets.event_loop_thread import LoopThread
from netfw_drivers.transports.sockets.framing import Malformed, encode_message
from netfw_drivers.transports.sockets.options import Settings
from netfw_drivers.transports.sockets.tokens import require_tokens

LOG = logging.getLogger(__name__)
_PAUSE_FLOOR = 1.0
"""Seconds after which a new request ends a longer pause."""


@define(eq=False)
class PendingRequest:
    """Request that waits for its answer."""

    data: bytes
    answer: Future[Message]
    sent: bool = False


class SocketClient:
    """Sends requests to any reachable server, and subscribes to topics there.

    Its state belongs to the loop's thread.  *on_notification* is called there.
    """

    def __init__(
        self, settings: Settings, loop: LoopThread, on_notification: Callable[[Message], None]
    ) -> None:
        self._settings, self._loop, self._on_notification = settings, loop, on_notification
        self._numbers = itertools.count(1)
        self._requests: dict[int, PendingRequest] = {}
        self._topics: set[str] = set()
        self._connection: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._needed = asyncio.Event()
        self._cut_pause = asyncio.Event()
        self._ended = False
        self._last_error = "no connection was tried"
        self._unreachable: str | None = None
        self._refusal: str | None = None

    # From any thread.

    def call(self, message: Message, timeout: float) -> Message:
        """Send a request and return its answer; see the contract."""
        if not self._settings.connect:
            raise BackendUnavailable("no address of a server is configured: set connect")
        number = next(self._numbers)
        limit = self._settings.max_message_size
        try:
            data = encode_message("call", message, number=number, timeout=timeout, limit=limit)
        except Malformed as exc:
            raise InvalidInput({"message": str(exc)}) from exc
        _check_size(data, limit)
        request = PendingRequest(data, Future())
        self._loop.call_soon(self._enqueue, number, request)
        try:
            if self._loop.closed:
                raise BackendUnavailable("this transport was closed")
            return request.answer.result(timeout)
        except TimeoutError as exc:
            raise BackendUnavailable(self._timeout_reason(message, request, timeout)) from exc
        except CancelledError as exc:
            raise BackendUnavailable("this transport was closed") from exc
        finally:
            self._loop.call_soon(self._requests.pop, number, None)

    def subscribe(self, topic: str) -> None:
        """Subscribe to *topic*."""
        self._loop.call_soon(self._subscribe, topic)

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from *topic*."""
        self._loop.call_soon(self._unsubscribe, topic)

    def unreachable_reason(self) -> str | None:
        """Return why no server is connected; see the contract."""
        if self._unreachable is not None:
            self._loop.call_soon(self._ensure_task)
        return self._unreachable

    def close(self) -> None:
        """Close the connection; requests under way fail at once."""
        if self._loop.started:
            self._loop.run(self._end()).result()

    def _timeout_reason(self, message: Message, request: PendingRequest, timeout: float) -> str:
        if request.sent:
            return f"no answer on {message.topic} to {message.method} within {timeout:g} s"
        where = ", ".join(map(str, self._settings.connect))
        return f"no server within {timeout:g} s at {where}: {self._last_error}"

    # In the loop's thread.

    def _enqueue(self, number: int, request: PendingRequest) -> None:
        self._requests[number] = request
        if self._ended:
            self._fail([number], "this transport was closed")
            return
        if self._connection is not None:
            self._send(self._connection, number)
        else:
            self._ensure_task()
            self._cut_pause.set()

    def _subscribe(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            if self._connection is not None:
                self._connection.subscribe([topic])
            self._ensure_task()
        elif self._connection is not None:
            self._on_notification(Message(topic=topic, method="subscribed"))

    def _unsubscribe(self, topic: str) -> None:
        self._topics.discard(topic)
        if self._connection is not None:
            self._connection.unsubscribe(topic)

    def _ensure_task(self) -> None:
        self._needed.set()
        if self._task is None and self._settings.connect:
            self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    def _send(self, connection: ClientConnection, number: int) -> None:
        request = self._requests[number]
        try:
            _check_size(request.data, connection.limit)
        except InvalidInput as exc:
            self._resolve(number, exc)
            return
        request.sent = True
        connection.send(request.data)

    def _resolve(self, number: int, answer: Message | NetfwError) -> None:
        request = self._requests.pop(number, None)
        if request is None or request.answer.done():
            return  # the caller has given up
        if isinstance(answer, NetfwError):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    def _fail(self, numbers: Iterable[int], why: str) -> None:
        for number in tuple(numbers):
            self._resolve(number, BackendUnavailable(why))

    async def _stay_connected(self) -> None:
        settings = self._settings
        start = random.randrange(len(settings.connect))  # agents spread over the servers
        pauses = _backoff(settings)
        while True:
            await self._needed.wait()
            waiting, self._refusal = tuple(self._requests), None
            for turn in range(len(settings.connect)):
                address = settings.connect[(start + turn) % len(settings.connect)]
                if await self._connect_once(address):
                    pauses = _backoff(settings)
                    start += turn
                    break
            else:
                self._handle_failed_round(waiting)
            if not (self._topics or self._requests):
                self._needed.clear()
            await self._pause(next(pauses))

    def _handle_failed_round(self, waiting: tuple[int, ...]) -> None:
        """Record why no address was connected.

        A refusal lasts until an operator ends it.  So the *waiting* requests, which were there when
        the round began, fail at once, and it is a reason before the first connection too.
        """
        if self._refusal is None:
            if self._unreachable is not None:
                self._unreachable = self._last_error
            return
        former, self._unreachable = self._unreachable, self._refusal
        self._fail(waiting, self._refusal)
        if former is None:
            self._notify_disconnected()

    def _notify_disconnected(self) -> None:
        for topic in tuple(self._topics):
            self._on_notification(Message(topic=topic, method="disconnected"))

    async def _pause(self, seconds: float) -> None:
        self._cut_pause.clear()
        if seconds > _PAUSE_FLOOR:
            await asyncio.sleep(_PAUSE_FLOOR)
            with suppress(TimeoutError):  # wait_for may lose a cancellation
                async with asyncio.timeout(seconds - _PAUSE_FLOOR):
                    await self._cut_pause.wait()
        else:
            await asyncio.sleep(seconds)

    async def _connect_once(self, address: Address) -> bool:
        """Connect, and stay connected until that fails; ``False``: there was no connection."""
        try:
            async with asyncio.timeout(self._settings.handshake):
                connection = await self._connect(address)
                await _handshake(connection)
        except TimeoutError:
            return self._log_failure(address, f"no answer within {self._settings.handshake:g} s")
        except ssl.SSLCertVerificationError as exc:
            why = f"{exc}; check tls_ca, and the name in connect"
            return self._log_failure(address, why, is_refusal=True)
        except (HandshakeRefused, ConfigError) as exc:
            return self._log_failure(address, str(exc), is_refusal=True)
        except (FileNotFoundError, ConnectionRefusedError) as exc:
            why = f"{exc}; is the server running, and is this its address ([socket] connect)?"
            return self._log_failure(address, why)
        except Exception as exc:  # noqa: BLE001 - such as of a name, or of a thread for it
            return self._log_failure(address, str(exc) or type(exc).__name__)
        LOG.info("connected to %s", address)
        self._connection, self._unreachable = connection, None
        connection.subscribe(self._topics)
        for number in tuple(self._requests):
            self._send(connection, number)
        try:
            why = await self._until_lost(connection)
        finally:
            self._connection = None
        self._last_error = f"{address}: {why}"
        LOG.warning("connection to %s lost: %s", address, why)
        self._unreachable = self._last_error
        self._notify_disconnected()
        sent = [number for number, each in self._requests.items() if each.sent]
        self._fail(sent, f"{self._last_error}; the request may have been executed")
        return True

    async def _until_lost(self, connection: ClientConnection) -> str:
        """Wait until a connection is closed, and return why; close it if the server is silent.

        The kernel of a server whose process hangs keeps its connections.
        """
        idle, is_probed = self._settings.idle, False
        while not connection.gone.done():
            received = connection.last_received
            await asyncio.wait([connection.gone], timeout=idle)
            if connection.last_received != received:
                is_probed = False
            elif is_probed:
                why = f"the server does not answer: it sent nothing for {2 * idle:g} s"
                connection.close(why, at_once=True)
            else:
                connection.probe()
                is_probed = True
        return str(connection.gone.result())

    def _log_failure(self, address: Address, why: str, *, is_refusal: bool = False) -> bool:
        text = f"{address}: {why}"
        if is_refusal:
            self._refusal = text
        LOG.log(
            logging.DEBUG if text == self._last_error else logging.WARNING,
            "not connected to %s",
            text,
        )
        self._last_error = text
        return False

    async def _connect(self, address: Address) -> ClientConnection:
        tcp = isinstance(address, TcpAddress)
        token = require_tokens(self._settings.token_file)[0] if self._settings.token_file else None
        verified = not isinstance(address, TcpAddress) or address.tls
        made: list[ClientConnection] = []

        def make() -> ClientConnection:
            connection = ClientConnection(
                self._settings,
                token=token if tcp else None,
                verified=verified,
                answered=self._resolve,
                on_notification=self._on_notification,
            )
            made.append(connection)
            return connection

        try:
            await self._open(address, make)
        except BaseException:
            for connection in made:
                connection.close("the attempt has ended", at_once=True)
                connection.connection_lost(None)
            raise
        return made[0]

    async def _open(self, address: Address, make: Callable[[], ClientConnection]) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(address, UnixAddress):
            await loop.create_unix_connection(make, address.path)
        elif isinstance(address, TcpAddress):
            context = client_context(self._settings.tls) if address.tls else None
            name = address.host if address.tls else None
            await loop.create_connection(
                make, address.host, address.port, ssl=context, server_hostname=name
            )
        else:
            raise ConfigError(f"{address} is only for listening")

    async def _end(self) -> None:
        self._ended = True
        unsent = [number for number, each in self._requests.items() if not each.sent]
        self._fail(
            unsent, f"this transport was closed before a server answered: {self._last_error}"
        )
        self._fail(self._requests, "this transport was closed")
        connection = self._connection
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if connection is not None:
            await drain((connection,), 1.0)


async def _handshake(connection: ClientConnection) -> None:
    try:
        await connection.ready
    except BaseException:
        connection.close("the handshake failed", at_once=True)
        raise


def _check_size(data: bytes, limit: int) -> None:
    if len(data) > limit:
        allowed = f"{limit} is the limit: max_message_size"
        raise InvalidInput({"body": f"the message has {len(data)} bytes, and {allowed}"})


def _backoff(settings: Settings) -> Iterator[float]:
    """Yield pauses with exponential back-off and jitter, which protect a server that restarts."""
    seconds = settings.pause
    while True:
        yield random.uniform(0.5, 1.5) * seconds
        seconds = min(2 * seconds, settings.pause_max)
