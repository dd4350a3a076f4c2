"""Bundles: changes of flows that are committed all or none.

The switch drops a refused message from a bundle and commits the rest.  So the bundle is closed,
which is a fence, and committed only when none of its messages was refused.

A bundle ends with its connection, and the switch opens one for a message that names none.  So a
bundle of which a part was sent on a connection that was lost is never committed.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.connection import OpenFlowConnection
from netfw.ovs.openflow.encode import describe_key
from netfw.ovs.openflow.errors import OpenFlowError, reason
from netfw.ovs.openflow.flow_diff import FlowChanges
from netfw.ovs.openflow.messages import OpenFlowMessage, Type

LOG = logging.getLogger(__name__)
_CHUNK = 1 << 17


class Bundles:
    """Executes changes on one connection, one bundle at a time."""

    def __init__(self, connection: OpenFlowConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._xids = range(0)
        self._by: object = None
        self._refusals: dict[int, str] = {}
        self._losses = 0
        connection.on_message(Type.ERROR, self._refused)
        connection.on_state(self._count_loss)

    def commit(
        self,
        changes: FlowChanges,
        committed: Callable[[], None] | None = None,
        by: object = None,
    ) -> None:
        """Execute all of *changes*, or none, on behalf of *by*.

        *committed* is called on the connection's thread, after all messages that the switch sent
        before the commit and before all that it sends later.

        :raises OperationRefused: names each refused flow and the switch's reason; nothing is done.
        :raises BackendUnavailable: it is unknown whether it is done; read the switch again.
        """
        with self._lock:
            self._by = by
            try:
                self._execute(next(self._numbers), changes, committed)
            except BackendUnavailable:
                self._by = None  # if it is done late, *committed* is not called
                raise

    def _execute(
        self, number: int, changes: FlowChanges, committed: Callable[[], None] | None
    ) -> None:
        losses = self._losses
        opened = self._fill(number, changes)
        closed = self._control(number, messages.CLOSE)
        not_opened, not_closed = self._refusal(*opened), self._refusal(*closed)
        if not_opened is not None:
            why = f"it opens no bundle: {not_opened}"
            raise OperationRefused({self._connection.target: why}) from not_opened
        if self._refusals or not_closed is not None:
            self._refusal(*self._control(number, messages.DISCARD))
            raise self._operation_refused(changes, not_closed) from not_closed
        if self._losses != losses:
            self._refusal(*self._control(number, messages.DISCARD))
            target = self._connection.target
            raise BackendUnavailable(f"{target}: the connection was lost within a bundle")
        not_done = self._refusal(*self._control(number, messages.COMMIT, committed))
        if not_done is not None:
            raise self._operation_refused(changes, not_done) from not_done

    def is_by(self, who: object, xid: int) -> bool:
        """Return whether *xid* is of the latest bundle, and that was on behalf of *who*."""
        return self._by is who and xid in self._xids

    def _control(
        self, number: int, step: int, done: Callable[[], None] | None = None
    ) -> tuple[int, Future[list[OpenFlowMessage]]]:
        xid = self._connection.next_xid()
        return xid, self._connection.ask(xid, messages.bundle_control(xid, number, step), done)

    def _refusal(self, xid: int, answer: Future[list[OpenFlowMessage]]) -> OpenFlowError | None:
        """Wait for *answer*; return the refusal, if it is one."""
        try:
            self._connection.result(xid, answer)
        except OpenFlowError as refusal:
            return refusal
        return None

    def _fill(self, number: int, changes: FlowChanges) -> tuple[int, Future[list[OpenFlowMessage]]]:
        """Open the bundle and add all changes; return the pending answer to the opening."""
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

    def _count_loss(self, up: bool) -> None:
        """Count the losses, each before messages can be sent on the next connection."""
        self._losses += not up

    def _refused(self, error: OpenFlowMessage) -> None:
        if error.xid in self._xids:
            self._refusals[error.xid] = reason(error)
        else:
            LOG.warning("%s: message refused: %s", self._connection.target, reason(error))

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
