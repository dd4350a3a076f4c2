"""Connection that exchanges frames, with limits on size and time."""

from __future__ import annotations

import asyncio
import socket
from abc import abstractmethod
from contextlib import suppress
from typing import cast

from netfw_drivers.transports.sockets.framing import Frame, FrameReader, Malformed
from netfw_drivers.transports.sockets.options import Settings

CLOSED = "the connection was closed"
"""Reason of a connection that the peer closed without one."""
HANDSHAKE_SIZE = 4096
"""Limit of a frame, in bytes, before the peer is authenticated."""
_KEEPALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
"""The kernel detects a dead peer within half a minute."""


class FramedConnection(asyncio.Protocol):
    """Exchanges frames over one connection, in the loop's thread.

    Until :meth:`admit`, frames must be small, and the handshake timeout applies.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(HANDSHAKE_SIZE)
        self._partial_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._reading_paused = False
        self._close_reason = ""
        self.gone = self._loop.create_future()
        """Done when the connection is closed; its result is the reason."""
        self.last_received = self._loop.time()
        """Time of the loop at which the peer last sent something."""
        self._handshake_timer: asyncio.TimerHandle | None = self._loop.call_later(
            settings.handshake, self.refuse, f"no handshake in {settings.handshake:g} s"
        )

    @abstractmethod
    def handle_frame(self, frame: Frame) -> None:
        """Handle a frame.

        :raises Malformed: the frame is not allowed now.
        """

    @abstractmethod
    def log_refusal(self, reason: str) -> None:
        """Log why the peer is refused."""

    @property
    def backlog(self) -> int:
        """Size of the write buffer, in bytes."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_write_paused(self) -> bool:
        """Whether the write buffer is full since the peer does not read."""
        return self._write_timer is not None

    def admit(self) -> None:
        """Lift the limits of the handshake: the peer is authenticated."""
        self._reader.limit = self.settings.max_message_size
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None

    def send(self, data: bytes) -> None:
        """Send a frame, unless the connection is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def set_reading_paused(self, paused: bool) -> None:
        """Pause or resume reading."""
        if paused == self._reading_paused or self._transport is None:
            return
        self._reading_paused = paused
        if paused:
            self._transport.pause_reading()
            self._watch_partial_frame(begun=True)
        else:
            self._transport.resume_reading()
            self._process_frames()

    def refuse(self, reason: str) -> None:
        """Close the connection because of the peer's behaviour, and log it."""
        if not self._close_reason:
            self.log_refusal(reason)
        self.close(reason, at_once=True)

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """Close the connection; unless *at_once*, the write buffer is flushed first."""
        self._close_reason = self._close_reason or reason
        if self._transport is not None:
            if at_once:
                self._transport.abort()
            else:
                self._transport.close()

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected: socket.socket = transport.get_extra_info("socket")
        if connected.family != socket.AF_UNIX:
            for level, option, value in _KEEPALIVE:
                connected.setsockopt(level, option, value)
        if self._close_reason:
            transport.abort()  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.last_received = self._loop.time()
        self._reader.add(data)
        self._process_frames()

    def pause_writing(self) -> None:
        self._write_timer = self._loop.call_later(
            self.settings.transfer,
            self.refuse,
            f"the peer read nothing for {self.settings.transfer:g} s",
        )

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for timer in (self._handshake_timer, self._partial_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        if not self.gone.done():
            self.gone.set_result(self._close_reason or (str(exc) if exc else CLOSED))

    def _process_frames(self) -> None:
        begun = False
        try:
            while (
                not self._reading_paused and self._transport is not None and not self._close_reason
            ):
                frame = self._reader.next()
                if frame is None:
                    break
                begun = True
                self.handle_frame(frame)
        except Malformed as exc:
            self.refuse(str(exc))
        self._watch_partial_frame(begun=begun)

    def _watch_partial_frame(self, *, begun: bool) -> None:
        """Start or stop the timer of a partial frame; *begun*: another frame has begun."""
        waiting = self._reader.halfway and not self._reading_paused and not self._close_reason
        if self._partial_timer is not None and (begun or not waiting):
            self._partial_timer.cancel()
            self._partial_timer = None
        if waiting and self._partial_timer is None and self._handshake_timer is None:
            self._partial_timer = self._loop.call_later(
                self.settings.transfer,
                self.refuse,
                f"a message did not end within {self.settings.transfer:g} s",
            )


async def drain(connections: tuple[FramedConnection, ...], seconds: float) -> None:
    """Close connections; abort those still open after *seconds*."""
    for connection in connections:
        connection.close("this side was closed")
    if connections:
        await asyncio.wait([connection.gone for connection in connections], timeout=seconds)
    for connection in connections:
        with suppress(OSError):
            connection.close("", at_once=True)
