"""Atomic changes: a bundle that is committed whole or not at all.

Trap: the switch drops a refused message from a bundle and commits the rest.  So the bundle is
closed, which fences, and committed only when no message of it was refused.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from netfw.errors import OperationRefused
from netfw.ovs.openflow import wire
from netfw.ovs.openflow.connection import Connection
from netfw.ovs.openflow.difference import FlowChanges
from netfw.ovs.openflow.encode import describe_key
from netfw.ovs.openflow.fault import SwitchRefused, reason
from netfw.ovs.openflow.wire import Message, Type

_CHUNK = 1 << 17


class Bundles:
    """Carries out changes on one connection, one bundle at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._one_at_a_time = threading.Lock()
        self._numbers = itertools.count(1)
        self._refusals: dict[int, str] = {}
        connection.on_message(Type.ERROR, self._refused)

    def commit(self, changes: FlowChanges, committed: Callable[[], None] | None = None) -> None:
        """Do all of *changes*, or nothing.

        *committed* is called on the connection's thread, after everything that the switch told
        before the commit and before everything that it tells later.

        :raises OperationRefused: names each refused flow and the switch's reason; nothing is done.
        :raises BackendUnavailable: nobody knows whether it is done; read the switch again.
        """
        with self._one_at_a_time:
            number = next(self._numbers)
            self._refusals.clear()
            opened, first = self._fill(number, changes)
            closed = self._control(number, wire.CLOSE)
            self._connection.result(*opened)
            self._connection.result(*closed)
            if self._refusals:
                self._connection.result(*self._control(number, wire.DISCARD))
                raise self._operation_refused(first, changes)
            try:
                self._connection.result(*self._control(number, wire.COMMIT, committed))
            except SwitchRefused as exc:
                raise self._operation_refused(first, changes, str(exc)) from exc

    def _control(
        self, number: int, step: int, done: Callable[[], None] | None = None
    ) -> tuple[int, Future[list[Message]]]:
        xid = self._connection.next_xid()
        return xid, self._connection.ask(xid, wire.bundle_control(xid, number, step), done)

    def _fill(
        self, number: int, changes: FlowChanges
    ) -> tuple[tuple[int, Future[list[Message]]], int]:
        """Open the bundle and add everything; the answer to come, and the xid of the first flow."""
        opened = self._control(number, wire.OPEN)
        first = self._connection.reserve_xids(len(changes))
        pending: list[bytes] = []
        size = 0
        for data in _messages(number, first, changes):
            pending.append(data)
            size += len(data)
            if size > _CHUNK:
                self._connection.send(b"".join(pending))
                pending, size = [], 0
        self._connection.send(b"".join(pending))
        return opened, first

    def _refused(self, error: Message) -> None:
        self._refusals[error.xid] = reason(error)

    def _operation_refused(
        self, first: int, changes: FlowChanges, otherwise: str = ""
    ) -> OperationRefused:
        subjects: list[object] = [describe_key(key) for key in changes.removed]
        subjects += [encoded.flow for encoded in (*changes.changed, *changes.added)]
        reasons = {
            subjects[xid - first]: why
            for xid, why in self._refusals.items()
            if 0 <= xid - first < len(subjects)
        }
        return OperationRefused(reasons or {f"{self._connection.target}": otherwise})


def _messages(number: int, xid: int, changes: FlowChanges) -> Iterator[bytes]:
    for key, cookie in changes.removed.items():
        yield wire.bundled_delete(xid, number, key, cookie)
        xid += 1
    for encoded in itertools.chain(changes.changed, changes.added):
        yield wire.bundled_add(xid, number, encoded.key, encoded.state)
        xid += 1
