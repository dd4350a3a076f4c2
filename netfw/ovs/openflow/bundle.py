"""Atomic changes: a bundle that is committed whole or not at all.

Trap: the switch drops a refused message from a bundle and commits the rest.  So the bundle is
closed, which fences, and committed only when no message of it was refused.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.connection import Connection
from netfw.ovs.openflow.encode import describe_key
from netfw.ovs.openflow.errors import OpenFlowError, reason
from netfw.ovs.openflow.flow_diff import FlowChanges
from netfw.ovs.openflow.messages import Message, Type

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 17


class Bundles:
    """Carries out changes on one connection, one bundle at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._one_at_a_time = threading.Lock()
        self._numbers = itertools.count(1)
        self._xids = range(0)
        self._by: object = None
        self._refusals: dict[int, str] = {}
        connection.on_message(Type.ERROR, self._refused)

    def commit(
        self,
        changes: FlowChanges,
        committed: Callable[[], None] | None = None,
        by: object = None,
    ) -> None:
        """Do all of *changes*, or nothing, for *by*.

        *committed* is called on the connection's thread, after everything that the switch told
        before the commit and before everything that it tells later.

        :raises OperationRefused: names each refused flow and the switch's reason; nothing is done.
        :raises BackendUnavailable: nobody knows whether it is done; read the switch again.
        """
        with self._one_at_a_time:
            self._by = by
            try:
                self._carry_out(next(self._numbers), changes, committed)
            except BackendUnavailable:
                self._by = None  # if it is done late, nobody is told
                raise

    def _carry_out(
        self, number: int, changes: FlowChanges, committed: Callable[[], None] | None
    ) -> None:
        opened = self._fill(number, changes)
        closed = self._control(number, messages.CLOSE)
        not_opened, not_closed = self._refusal(*opened), self._refusal(*closed)
        if not_opened is not None:
            why = f"it opens no bundle: {not_opened}"
            raise OperationRefused({self._connection.target: why}) from not_opened
        if self._refusals or not_closed is not None:
            self._refusal(*self._control(number, messages.DISCARD))
            raise self._operation_refused(changes, not_closed) from not_closed
        not_done = self._refusal(*self._control(number, messages.COMMIT, committed))
        if not_done is not None:
            raise self._operation_refused(changes, not_done) from not_done

    def is_by(self, who: object, xid: int) -> bool:
        """Whether *xid* belongs to the latest bundle, and *who* is told when it is committed."""
        return self._by is who and xid in self._xids

    def _control(
        self, number: int, step: int, done: Callable[[], None] | None = None
    ) -> tuple[int, Future[list[Message]]]:
        xid = self._connection.next_xid()
        return xid, self._connection.ask(xid, messages.bundle_control(xid, number, step), done)

    def _refusal(self, xid: int, answer: Future[list[Message]]) -> OpenFlowError | None:
        """Wait for *answer*; the refusal, if it is one."""
        try:
            self._connection.result(xid, answer)
        except OpenFlowError as refusal:
            return refusal
        return None

    def _fill(self, number: int, changes: FlowChanges) -> tuple[int, Future[list[Message]]]:
        """Open the bundle and add everything; the answer that is to come."""
        opened = self._control(number, messages.OPEN)
        first = self._connection.reserve_xids(len(changes))
        self._refusals = {}
        self._xids = range(first, first + len(changes))
        pending: list[bytes] = []
        size = 0
        for data in _messages(number, first, changes):
            pending.append(data)
            size += len(data)
            if size > _CHUNK:
                self._connection.send(b"".join(pending))
                pending, size = [], 0
        self._connection.send(b"".join(pending))
        return opened

    def _refused(self, error: Message) -> None:
        if error.xid in self._xids:
            self._refusals[error.xid] = reason(error)
        else:
            _LOG.warning("%s refused a message: %s", self._connection.target, reason(error))

    def _operation_refused(self, changes: FlowChanges, otherwise: object) -> OperationRefused:
        subjects: list[object] = [describe_key(key) for key in changes.removed]
        subjects += [encoded.flow for encoded in (*changes.changed, *changes.added)]
        named = {subjects[self._xids.index(xid)]: why for xid, why in self._refusals.items()}
        return OperationRefused(named or {self._connection.target: str(otherwise)})


def _messages(number: int, xid: int, changes: FlowChanges) -> Iterator[bytes]:
    for key, cookie in changes.removed.items():
        yield messages.bundled_delete(xid, number, key, cookie)
        xid += 1
    for encoded in itertools.chain(changes.changed, changes.added):
        yield messages.bundled_add(xid, number, encoded.key, encoded.state)
        xid += 1
