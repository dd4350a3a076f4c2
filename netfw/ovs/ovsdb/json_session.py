"""JSON-RPC session of ``ovs`` that reads with our JSON reader and handles several locks.

Importing this module loads ``ovs``.
"""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import ovs.jsonrpc

from netfw.ovs.ovsdb.json_stream import JsonStream

_PIECE = 1 << 18


class JsonConnection(ovs.jsonrpc.Connection):  # type: ignore[misc]
    """A JSON-RPC connection that reads with `JsonStream`."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._incoming = JsonStream()
        self._more = False

    def recv(self) -> tuple[int, Any]:
        while not self.status:
            try:
                message = self._incoming.take()
            except ValueError:
                self.error(errno.EPROTO)
                break
            if message is not None:
                self._more = self._incoming.pending
                return self._decoded(message)
            self._more = False
            failure, data = self.stream.recv(_PIECE)
            if failure == errno.EAGAIN:
                return failure, None
            if failure or not data:
                self.error(failure or ovs.jsonrpc.EOF)
                break
            self._incoming.feed(data)
            self.received_bytes += len(data)
        return self.status, None

    def recv_wait(self, poller: Any) -> None:
        if self.status or self._more:
            poller.immediate_wake()
        else:
            self.stream.recv_wait(poller)

    def _decoded(self, message: Mapping[str, Any]) -> tuple[int, Any]:
        decoded = ovs.jsonrpc.Message.from_json(message)
        if isinstance(decoded, ovs.jsonrpc.Message):
            return 0, decoded
        self.error(errno.EPROTO)
        return self.status, None


class JsonSession(ovs.jsonrpc.Session):  # type: ignore[misc]
    """A session that reconnects, whose connections are `JsonConnection`; keeps the last refusal.

    It handles messages about locks itself: a replica of ``ovs`` supports one lock only.
    """

    last_refusal: list[Any] | None = None
    """Reply of the database to the last transaction that it refused."""

    def __init__(self, reconnect: Any, remotes: Any, on_lock: Callable[[str, bool], None]) -> None:
        super().__init__(reconnect, None, remotes)
        self._on_lock = on_lock
        self._lock_requests: dict[Any, str | None] = {}

    @property
    def rpc(self) -> Any:
        return self._rpc

    @rpc.setter
    def rpc(self, plain: Any) -> None:
        # The session makes its connections itself and stores them here: the one place to wrap them.
        self._rpc = None if plain is None else JsonConnection(plain.stream)

    def request_lock(self, method: str, lock: str) -> None:
        """Request ``lock`` or ``unlock``; the reply to the latter is ignored."""
        request = ovs.jsonrpc.Message.create_request(method, [lock])
        self._lock_requests[request.id] = lock if method == "lock" else None
        self.send(request)

    def drop_lock_requests(self) -> None:
        """Stop waiting for replies of a connection that was lost."""
        self._lock_requests.clear()

    def recv(self) -> Any:
        message = super().recv()
        while message is not None and self._is_of_locks(message):
            message = super().recv()
        if message is not None and isinstance(message.result, list):
            failed = [reply for reply in message.result if isinstance(reply, dict)]
            if any("error" in reply for reply in failed):
                self.last_refusal = message.result
        return message

    def interrupt(self) -> None:
        """Break the connection from any thread, which wakes threads that wait for a reply."""
        with suppress(OSError):  # it is broken already
            for connected in self._sockets():
                connected.shutdown(socket.SHUT_RDWR)

    def is_closed_by_peer(self) -> bool:
        """Return whether the database has closed the connection; the replica may not know yet."""
        poller = select.poll()
        try:
            for connected in self._sockets():
                poller.register(connected, select.POLLRDHUP)
                return bool(poller.poll(0))
        except (OSError, ValueError):
            pass  # the replica's thread closes it now
        return True

    def _sockets(self) -> Iterator[socket.socket]:
        """Yield the socket of the connection, if there is one."""
        rpc = self.rpc
        stream = rpc.stream if rpc is not None else None
        if stream is not None and stream.socket is not None:
            yield stream.socket

    def _is_of_locks(self, message: Any) -> bool:
        if message.type == message.T_NOTIFY and message.method in ("locked", "stolen"):
            for lock in message.params:
                self._on_lock(lock, message.method == "locked")
            return True
        if message.method is not None or message.id not in self._lock_requests:
            return False
        lock = self._lock_requests.pop(message.id)
        if lock is not None:
            self._on_lock(lock, isinstance(message.result, dict) and message.result["locked"])
        return True
