"""The client's side: a connection that is made when it is needed, and made again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future

from attrs import define

from netfw.drivers.transport import Message
from netfw.errors import BackendUnavailable, ConfigError, InvalidInput, NetfwError
from netfw_drivers.transports.sockets.address import Address, TcpAddress, UnixAddress
from netfw_drivers.transports.sockets.authentication import client_context
from netfw_drivers.transports.sockets.client_connection import ClientConnection
from netfw_drivers.transports.sockets.connection import drain
from netfw_drivers.transports.sockets.event_loop_thread import LoopThread
from netfw_drivers.transports.sockets.framing import Malformed, encode_message
from netfw_drivers.transports.sockets.options import Settings
from netfw_drivers.transports.sockets.tokens import read_tokens

LOG = logging.getLogger(__name__)
_IMPATIENT = 1.0
"""Seconds after which a new request cuts a longer pause short."""


@define(eq=False)
class Request:
    """A request that waits for its answer."""

    data: bytes
    answer: Future[Message]
    sent: bool = False


class Client:
    """Sends requests to whichever server answers, and listens to topics there.

    What it keeps belongs to the loop's thread.  *heard* is called there for each hint.
    """

    def __init__(
        self, settings: Settings, loop: LoopThread, heard: Callable[[Message], None]
    ) -> None:
        self._settings, self._loop, self._heard = settings, loop, heard
        self._numbers = itertools.count(1)
        self._requests: dict[int, Request] = {}
        self._topics: set[str] = set()
        self._link: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._ended = False
        self._why = "no connection was tried"

    # From any thread.

    def call(self, message: Message, timeout: float) -> Message:
        """Send a request and return its answer; see the contract."""
        if not self._settings.connect:
            raise BackendUnavailable("nothing is said about where servers are: set connect")
        number = next(self._numbers)
        limit = self._settings.message_size
        try:
            data = encode_message("call", message, number=number, timeout=timeout, limit=limit)
        except Malformed as exc:
            raise InvalidInput({"message": str(exc)}) from exc
        _check_size(data, limit)
        request = Request(data, Future())
        self._loop.call_soon(self._begin, number, request)
        try:
            if self._loop.closed:
                raise BackendUnavailable("this transport is closed")
            return request.answer.result(timeout)
        except TimeoutError as exc:
            raise BackendUnavailable(self._silence(message, request, timeout)) from exc
        except CancelledError as exc:
            raise BackendUnavailable("this transport was closed") from exc
        finally:
            self._loop.call_soon(self._requests.pop, number, None)

    def subscribe(self, topic: str) -> None:
        """Have hints for *topic* heard."""
        self._loop.call_soon(self._listen, topic)

    def unsubscribe(self, topic: str) -> None:
        """Have them heard no more."""
        self._loop.call_soon(self._unlisten, topic)

    def close(self) -> None:
        """End the connection; whoever waits for an answer is told at once."""
        if self._loop.started:
            self._loop.run(self._end()).result()

    def _silence(self, message: Message, request: Request, timeout: float) -> str:
        if request.sent:
            return f"no answer on {message.topic} to {message.method} within {timeout:g} s"
        where = ", ".join(map(str, self._settings.connect))
        return f"no server within {timeout:g} s at {where}: {self._why}"

    # In the loop's thread.

    def _begin(self, number: int, request: Request) -> None:
        self._requests[number] = request
        if self._ended:
            self._fail([number], "this transport was closed")
            return
        if self._link is not None:
            self._send(self._link, request)
        else:
            self._need()
            self._hurry.set()

    def _listen(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            if self._link is not None:
                self._link.subscribe([topic])
            self._need()
        elif self._link is not None:
            self._heard(Message(topic=topic, method="listening"))

    def _unlisten(self, topic: str) -> None:
        self._topics.discard(topic)
        if self._link is not None:
            self._link.unsubscribe(topic)

    def _need(self) -> None:
        self._wanted.set()
        if self._task is None and self._settings.connect:
            self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    def _send(self, link: ClientConnection, request: Request) -> None:
        try:
            _check_size(request.data, link.limit)
        except InvalidInput as exc:
            request.answer.set_exception(exc)
            return
        request.sent = True
        link.send(request.data)

    def _answered(self, number: int, answer: Message | NetfwError) -> None:
        request = self._requests.pop(number, None)
        if request is None or request.answer.done():
            return  # nobody waits any more
        if isinstance(answer, NetfwError):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    def _fail(self, numbers: Iterable[int], why: str) -> None:
        for number in tuple(numbers):
            self._answered(number, BackendUnavailable(why))

    async def _stay_connected(self) -> None:
        settings = self._settings
        start = random.randrange(len(settings.connect))  # agents spread over the servers
        pauses = _pauses(settings)
        while True:
            await self._wanted.wait()
            for turn in range(len(settings.connect)):
                address = settings.connect[(start + turn) % len(settings.connect)]
                if await self._visit(address):
                    pauses = _pauses(settings)
                    start += turn
                    break
            if not (self._topics or self._requests):
                self._wanted.clear()
            await self._rest(next(pauses))

    async def _rest(self, seconds: float) -> None:
        self._hurry.clear()
        if seconds > _IMPATIENT:
            await asyncio.sleep(_IMPATIENT)
            try:
                await asyncio.wait_for(self._hurry.wait(), seconds - _IMPATIENT)
            except TimeoutError:
                return
        else:
            await asyncio.sleep(seconds)

    async def _visit(self, address: Address) -> bool:
        """Be connected to a server as long as that lasts; ``False``: it never was."""
        try:
            async with asyncio.timeout(self._settings.handshake):
                link = await self._connect(address)
                await _handshake(link)
        except TimeoutError:
            return self._missed(address, f"no answer within {self._settings.handshake:g} s")
        except (OSError, NetfwError) as exc:
            return self._missed(address, str(exc) or type(exc).__name__)
        LOG.info("connected to %s", address)
        self._link = link
        link.subscribe(self._topics)
        for request in tuple(self._requests.values()):
            self._send(link, request)
        try:
            why = await asyncio.shield(link.gone)
        finally:
            self._link = None
        self._why = f"{address}: {why}"
        LOG.warning("the connection to %s is gone: %s", address, why)
        sent = [number for number, each in self._requests.items() if each.sent]
        self._fail(sent, f"{self._why}; perhaps the request was carried out")
        return True

    def _missed(self, address: Address, why: str) -> bool:
        said = f"{address}: {why}"
        LOG.log(logging.DEBUG if said == self._why else logging.WARNING, "no server at %s", said)
        self._why = said
        return False

    async def _connect(self, address: Address) -> ClientConnection:
        tcp = isinstance(address, TcpAddress)
        token = read_tokens(self._settings.token_file)[0] if self._settings.token_file else None
        verified = not isinstance(address, TcpAddress) or address.tls
        made: list[ClientConnection] = []

        def make() -> ClientConnection:
            link = ClientConnection(
                self._settings,
                token=token if tcp else None,
                verified=verified,
                answered=self._answered,
                heard=self._heard,
            )
            made.append(link)
            return link

        try:
            await self._open(address, make)
        except BaseException:
            for link in made:
                link.connection_lost(None)
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
        self._fail(unsent, f"this transport was closed before a server answered: {self._why}")
        self._fail(self._requests, "this transport was closed")
        link = self._link
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if link is not None:
            await drain((link,), 1.0)


async def _handshake(link: ClientConnection) -> None:
    try:
        await link.ready
    except BaseException:
        link.close("the handshake failed", at_once=True)
        raise


def _check_size(data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise InvalidInput(
            {"body": f"the message has {len(data)} bytes, and {limit} is the limit: message_size"}
        )


def _pauses(settings: Settings) -> Iterator[float]:
    """Pauses that grow, no two clients' alike: a server that starts again is not run over."""
    seconds = settings.pause
    while True:
        yield random.uniform(0.5, 1.5) * seconds
        seconds = min(2 * seconds, settings.pause_max)
