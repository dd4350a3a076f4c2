"""Connection to a database: ovsdbapp's, with our JSON reader and callbacks to an observer.

Importing this module loads ``ovs`` and ``ovsdbapp``; `netfw.ovs.ovsdb.client` does it on first use.
Nothing of theirs is patched: an `Idl` of this module carries its own session and reader.
"""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import ovs.db.error
import ovs.db.idl
import ovs.jsonrpc
import ovs.poller
import ovs.stream
from ovsdbapp.backend.ovs_idl import Backend, connection
from ovsdbapp.backend.ovs_idl import transaction as ovsdbapp_transaction
from ovsdbapp.backend.ovs_idl.command import BaseCommand
from ovsdbapp.exceptions import TimeoutException

from netfw.errors import (
    BackendBroken,
    BackendLocked,
    BackendUnavailable,
    NetfwError,
    OperationRefused,
)
from netfw.ovs.ovsdb.encode import Rendered, explain
from netfw.ovs.ovsdb.json_session import JsonConnection, JsonSession
from netfw.ovs.ovsdb.mirror import Dirty
from netfw.ovs.ovsdb.schema import reduce_schema

DATABASE = "Open_vSwitch"
_FIRST_PAUSE = 20
"""Milliseconds between the first attempts to reconnect; each pause is twice the one before."""


class Observer(Protocol):
    """Callbacks of the replica's thread, called with the connection's lock held."""

    def stepped(self, tables: Mapping[str, Any], dirty: Dirty) -> None:
        """Handle changed rows; the replica is complete."""

    def lost(self) -> None:
        """Handle the loss of the connection."""

    def locks_wanted(self) -> frozenset[str]:
        """Return the locks to request from the database."""

    def locked(self, lock: str, held: bool | None) -> None:
        """Handle the state of a lock: held, held by another client, or (None) unknown."""


class Idl(connection.OvsdbIdl):  # type: ignore[misc]
    """The replica.  After each step that leaves it complete it passes changed rows to its observer.

    After a reconnect the server sends every row as if it were new, and does not report those that
    are gone.  Everything counts as changed then, and the observer compares.
    """

    def __init__(self, remote: str, helper: Any, observer: Observer, pause: float) -> None:
        super().__init__(remote, helper)
        made: Any = self._session  # type: ignore[has-type]
        self.session = JsonSession(made.reconnect, made.remotes, self._locked)
        self._session = self.session
        # The setter accepts no less than a second; a local socket can be tried more often.
        made.reconnect.min_backoff = _FIRST_PAUSE
        made.reconnect.max_backoff = max(_FIRST_PAUSE, int(pause * 1000))
        self._observer = observer
        self._dirty = Dirty()
        self._alive = False
        self._connection: int | None = None
        self._requested: dict[str, bool | None] = {}
        """Requested locks and whether they are held; ``None``: not answered yet."""

    def take_refusal(self) -> list[Any] | None:
        """Return and clear the reply to the last transaction that the database refused."""
        refusal, self._session.last_refusal = self._session.last_refusal, None
        return refusal

    def cooperative_yield(self) -> None:
        """Do nothing: threads need no yield, and it would be called for each row."""

    def restart_fsm(self) -> None:
        """Fill the replica again: on a new connection, or after the schema was converted.

        Locks are those of the connection: a second request for one would be refused.
        """
        self._handle_loss()
        self._dirty = Dirty()
        former, self._connection = self._connection, self._session.get_seqno()
        is_new = former != self._connection
        for lock, held in self._requested.items():
            self._observer.locked(lock, None if is_new else held)
        if is_new:
            self._requested.clear()
            self.session.drop_lock_requests()
        super().restart_fsm()
        self.request_locks()

    def request_locks(self) -> None:
        """Request the wanted locks and release the others; only on the replica's thread."""
        wanted = self._observer.locks_wanted()
        for lock in wanted - self._requested.keys():
            self._requested[lock] = None
            self._session.request_lock("lock", lock)
        for lock in self._requested.keys() - wanted:
            del self._requested[lock]
            self._observer.locked(lock, None)
            self._session.request_lock("unlock", lock)

    def _locked(self, lock: str, held: bool) -> None:
        """Handle the state of a lock, unless the lock was released before it arrived."""
        if lock in self._requested:
            self._requested[lock] = held
            self._observer.locked(lock, held)

    def notify(self, event: Any, row: Any, updates: Any = None) -> None:
        self._dirty.rows[row._table.name].add(row.uuid)

    def run(self) -> bool:
        changed = super().run()
        if not self._session.is_connected():
            self._handle_loss()
        elif self.state == self.IDL_S_MONITORING and (self._dirty.everything or self._dirty.rows):
            dirty, self._dirty = self._dirty, Dirty(everything=False)
            self._alive = True
            self._observer.stepped({name: t.rows for name, t in self.tables.items()}, dirty)
        return bool(changed)

    def _handle_loss(self) -> None:
        if self._alive:
            self._alive = False
            self._observer.lost()


class OvsdbTransaction(ovsdbapp_transaction.Transaction):  # type: ignore[misc]
    """ovsdbapp's transaction, which ends when its caller has given up, whatever it waits for."""

    given_up = False

    def pre_commit(self, txn: Any) -> None:
        if self.given_up:
            raise BackendUnavailable("the caller of this transaction has given up")

    def time_remaining(self) -> float:
        # ovsdbapp waits for ever when no time remains.
        return max(0.001, float(super().time_remaining()))


class Execute(BaseCommand):  # type: ignore[misc]
    """Executes what *render* returns for the replica at each attempt, if *locks* are held.

    The database replies in order: lock requests sent before are answered before.
    """

    def __init__(
        self, api: Any, render: Callable[[], Rendered], count: bool, locks: Sequence[str]
    ) -> None:
        super().__init__(api)
        self._render = render
        self._count = count
        self._locks = locks
        self._counted = False
        self.rendered: Rendered | None = None

    def run_idl(self, txn: Any) -> None:
        self.api.idl.request_locks()
        self.rendered = self._render()
        for lock in self._locks:
            txn.add_op({"op": "assert", "lock": lock})
        for statement in self.rendered.statements:
            txn.add_op(statement)
        self._counted = self._count and bool(self.rendered.statements)
        if self._counted:
            (switch,) = self.api.tables[DATABASE].rows.values()
            switch.increment("next_cfg")

    def post_commit(self, txn: Any) -> None:
        if self._counted:
            self.result = txn.get_increment_new_value()

    def explain(self, refusal: Sequence[Any]) -> NetfwError:
        """Return why the database refused."""
        assert self.rendered is not None
        ours = refusal[2 if self._counted else 0 :]  # the replica puts its own before
        for lock, answer in zip(self._locks, ours, strict=False):
            if isinstance(answer, dict) and "error" in answer:
                return BackendLocked(f"another client has the lock {lock} of the switch's database")
        return OperationRefused(explain(ours[len(self._locks) :], self.rendered))


class Api(Backend):  # type: ignore[misc]
    """ovsdbapp's entry point.  It stores its connection on the class, so each one has its own
    class: see `connect`."""

    schema = DATABASE

    def execute(
        self,
        render: Callable[[], Rendered],
        count: bool,
        timeout: float,
        locks: Sequence[str] = (),
    ) -> int | None:
        """Execute one transaction; return its ``next_cfg``, which the switch confirms, if *count*.

        :raises OperationRefused: nothing of it was done; the error has the reasons.
        :raises BackendLocked: nothing of it was done, since not all of *locks* are held.
        :raises BackendUnavailable: no answer; it was done as a whole or not at all.
        """
        link = self.ovsdb_connection
        link.timeout = timeout  # for a place in its queue, behind those that were given up
        transaction = OvsdbTransaction(self, link, timeout, check_error=True, log_errors=False)
        command = transaction.add(Execute(self, render, count, locks))
        self.idl.take_refusal()
        try:
            transaction.commit()
        except TimeoutException as error:
            transaction.given_up = True
            raise BackendUnavailable(
                f"{self.idl.session_name()}: no answer to a transaction within {timeout:g} s"
            ) from error
        except RuntimeError as error:
            raise self._translated(command) from error
        except ValueError as error:
            if link.is_running:
                raise
            name = self.idl.session_name()
            raise BackendUnavailable(f"{name}: the connection was closed meanwhile") from error
        return command.result  # type: ignore[no-any-return]

    def runs_in_this_thread(self) -> bool:
        return self.ovsdb_connection.thread is threading.current_thread()

    def end(self, timeout: float) -> None:
        """Stop the replica's thread, even if it waits for a reply that does not come.

        The pipe that wakes it is closed: the garbage collector would close it with a warning.
        """
        link = self.ovsdb_connection
        link.is_running = False
        self.idl.session.interrupt()
        link.txns.alert_notify()
        link.thread.join(timeout)
        if not link.thread.is_alive():
            link.txns.close()

    def _translated(self, command: Execute) -> NetfwError:
        refusal = self.idl.take_refusal()
        if refusal is None or command.rendered is None:
            return BackendUnavailable(f"{self.idl.session_name()}: a transaction was not answered")
        return command.explain(refusal)


def connect(remote: str, timeout: float, observer: Observer, pause: float) -> Api:
    """Connect, fill the replica and start its thread; *pause*: see `Ovsdb`.

    :raises BackendUnavailable: no server answers at *remote* in time.
    :raises BackendBroken: its database is not that of a switch.
    """
    deadline = time.monotonic() + timeout
    schema = _schema(remote, deadline)
    try:
        helper = ovs.db.idl.SchemaHelper(None, reduce_schema(schema))
        helper.register_all()
        idl = Idl(remote, helper, observer, pause)
    except (ovs.db.error.Error, ValueError) as error:
        raise BackendBroken(
            f"{remote}: the schema of {DATABASE} cannot be used: {error}; is this the address of "
            "the switch's ovsdb-server?  If so, upgrade Open vSwitch and its database "
            "(ovsdb-tool convert)"
        ) from error
    own = type("Api", (Api,), {})
    api = own(connection.Connection(idl, timeout), start=False, auto_index=False)
    try:
        api.ovsdb_connection.start()
    except TimeoutException as error:
        idl.close()
        raise BackendUnavailable(f"{remote}: no answer within {timeout:g} s") from error
    return api  # type: ignore[no-any-return]


def _schema(remote: str, deadline: float) -> Any:
    """Read the schema of the database."""
    problem = "no address"
    for address in remote.split(","):
        failure, stream = ovs.stream.Stream.open_block(
            ovs.stream.Stream.open(address.strip()), timeout=_milliseconds(deadline)
        )
        if failure:
            problem = errno.errorcode.get(failure, str(failure))
            continue
        rpc = JsonConnection(stream)
        try:
            failure, reply = _request_schema(rpc, deadline)
        finally:
            rpc.close()
        if reply is not None and reply.error is None:
            return reply.result
        problem = "no answer in time" if reply is None else json.dumps(reply.error)
        if failure:
            problem = f"no valid answer ({errno.errorcode.get(failure, str(failure))})"
    raise BackendUnavailable(
        f"{remote}: {problem}; is ovsdb-server running, and is this its address (ovsdb_connection)?"
    )


def _request_schema(rpc: JsonConnection, deadline: float) -> tuple[int, Any]:
    """Request the schema; return an error number, or 0, and the reply, or None."""
    failure = rpc.send(ovs.jsonrpc.Message.create_request("get_schema", [DATABASE]))
    while not failure and time.monotonic() < deadline:
        failure, reply = rpc.recv()
        if reply is not None:
            return 0, reply
        if failure == errno.EAGAIN:
            failure = 0
            rpc.run()
            poller = ovs.poller.Poller()
            rpc.wait(poller)
            rpc.recv_wait(poller)
            poller.timer_wait(_milliseconds(deadline))
            poller.block()
    return failure, None


def _milliseconds(deadline: float) -> int:
    return max(1, int((deadline - time.monotonic()) * 1000))
