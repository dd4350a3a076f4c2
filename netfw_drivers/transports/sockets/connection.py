"""One connection: frames in and out, neither without end."""

from __future__ import annotations

import asyncio
import socket
from abc import abstractmethod
from contextlib import suppress
from typing import cast

from netfw_drivers.transports.sockets.framing import Frame, FrameReader, Malformed
from netfw_drivers.transports.sockets.options import Settings

HANDSHAKE_SIZE = 4096
"""Bytes that a frame has at most from somebody who is not known yet."""
_KEEPALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
"""A machine that vanished is noticed by the kernel, within half a minute."""


class FramedConnection(asyncio.Protocol):
    """Frames over one connection.  All of it runs in the loop's thread.

    Until :meth:`admit` frames must be small, and all must happen in the time for a handshake.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(HANDSHAKE_SIZE)
        self._halfway: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._held = False
        self._why = ""
        self.gone = self._loop.create_future()
        """Done when the connection is no more; its result says why."""
        self._handshake: asyncio.TimerHandle | None = self._loop.call_later(
            settings.handshake, self.refuse, f"no handshake in {settings.handshake:g} s"
        )

    @abstractmethod
    def handle_frame(self, frame: Frame) -> None:
        """A frame has arrived.

        :raises Malformed: it is none that may arrive now.
        """

    @abstractmethod
    def log_refusal(self, reason: str) -> None:
        """Say why the peer is refused."""

    @property
    def backlog(self) -> int:
        """Bytes that wait for the peer to read them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer does not read what it is sent."""
        return self._stalled is not None

    def admit(self) -> None:
        """The peer is known: let it send messages."""
        self._reader.limit = self.settings.message_size
        if self._handshake is not None:
            self._handshake.cancel()
            self._handshake = None

    def send(self, data: bytes) -> None:
        """Send a frame, unless the connection is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def set_reading_paused(self, held: bool) -> None:
        """Take no frames for the time being, or go on."""
        if held == self._held or self._transport is None:
            return
        self._held = held
        if held:
            self._transport.pause_reading()
            self._watch_halfway(begun=True)
        else:
            self._transport.resume_reading()
            self._pump()

    def refuse(self, reason: str) -> None:
        """End the connection because of what the peer did."""
        if not self._why:
            self.log_refusal(reason)
        self.close(reason, at_once=True)

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """End the connection; what was sent may still arrive, unless *at_once*."""
        self._why = self._why or reason
        if self._transport is not None:
            if at_once:
                self._transport.abort()
            else:
                self._transport.close()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected: socket.socket = transport.get_extra_info("socket")
        if connected.family != socket.AF_UNIX:
            for level, option, value in _KEEPALIVE:
                connected.setsockopt(level, option, value)
        if self._why:
            transport.abort()  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._reader.add(data)
        self._pump()

    def pause_writing(self) -> None:
        self._stalled = self._loop.call_later(
            self.settings.transfer,
            self.refuse,
            f"nothing was read there for {self.settings.transfer:g} s",
        )

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for timer in (self._handshake, self._halfway, self._stalled):
            if timer is not None:
                timer.cancel()
        if not self.gone.done():
            self.gone.set_result(self._why or (str(exc) if exc else "the connection was closed"))

    def _pump(self) -> None:
        begun = False
        try:
            while not self._held and self._transport is not None and not self._why:
                frame = self._reader.next()
                if frame is None:
                    break
                begun = True
                self.handle_frame(frame)
        except Malformed as exc:
            self.refuse(str(exc))
        self._watch_halfway(begun=begun)

    def _watch_halfway(self, *, begun: bool) -> None:
        """Give a frame that has arrived in part its time; *begun*: it is another one now."""
        waiting = self._reader.halfway and not self._held and not self._why
        if self._halfway is not None and (begun or not waiting):
            self._halfway.cancel()
            self._halfway = None
        if waiting and self._halfway is None and self._handshake is None:
            self._halfway = self._loop.call_later(
                self.settings.transfer,
                self.refuse,
                f"a message did not end within {self.settings.transfer:g} s",
            )


async def drain(wires: tuple[FramedConnection, ...], seconds: float) -> None:
    """End connections, those that do not end within *seconds* by force."""
    for wire in wires:
        wire.close("this side was closed")
    if wires:
        await asyncio.wait([wire.gone for wire in wires], timeout=seconds)
    for wire in wires:
        with suppress(OSError):
            wire.close("", at_once=True)
