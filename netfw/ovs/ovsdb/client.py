"""OVSDB client: reads from a mirror, writes by transactions, publishes changes."""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Self, TypeVar

from netfw.drivers.base import HostResources
from netfw.errors import BackendBroken, BackendUnavailable
from netfw.ovs.ovsdb.encode import BARRIER, Rendered, render
from netfw.ovs.ovsdb.mirror import DatabaseMirror, Dirty, Tables
from netfw.ovs.ovsdb.operations import OvsdbOperation
from netfw.ovs.ovsdb.values import (
    Bridge,
    Connected,
    DatabaseChanged,
    Disconnected,
    LockChanged,
    OvsdbPort,
    Snapshot,
    Switch,
    SwitchEvent,
)

if TYPE_CHECKING:
    from netfw.ovs.ovsdb.session import Api

T = TypeVar("T")

LOG = logging.getLogger(__name__)
DEFAULT_REMOTE = "unix:/run/openvswitch/db.sock"
DEFAULT_PAUSE = 0.5
_PARTING = 1.0
"""Limit in seconds for a release, which the end of the connection would do as well."""
Sink = Callable[[SwitchEvent], None]
"""Takes an event and only enqueues it: it runs on the mirror's thread, so it neither blocks, nor
raises, nor changes the database.  What it raises is logged, and other sinks are called all the
same."""


class Ovsdb:
    """One connection to the database of one switch, with its own thread and mirror.

    The constructor does no I/O: it connects when it is first used, and again by itself after the
    connection was lost.  Thread-safe.  Reads return the state that the database last sent; while
    it does not answer, they wait for ``timeout`` seconds and then raise `BackendUnavailable`.
    ``timeout`` may be changed at any time for later calls.  Attempts to reconnect
    are at most ``pause`` seconds apart.
    """

    def __init__(
        self,
        remote: str = DEFAULT_REMOTE,
        *,
        timeout: float = 10.0,
        pause: float = DEFAULT_PAUSE,
    ) -> None:
        self.remote = remote
        self.timeout = timeout
        self._pause = pause
        self._news = threading.Condition()
        self._connecting = threading.Lock()
        self._transacting = threading.Lock()
        self._mirror = DatabaseMirror()
        self._alive = False
        self._closed = False
        self._sinks: dict[object, Sink] = {}
        self._holders: dict[str, object] = {}
        self._locks: dict[str, bool] = {}
        self._api: Api | None = None

    def snapshot(self) -> Snapshot:
        """Return all bridges and ports, by name; the cost does not depend on how many ports.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current() as mirror:
            return Snapshot(
                switch=mirror.snapshot().switch,
                bridges=dict(mirror.bridges),
                ports=mirror.ports.copy(),
            )

    def switch(self) -> Switch:
        """Return the switch as a whole.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current() as mirror:
            return mirror.snapshot().switch

    def bridge(self, name: str) -> Bridge | None:
        """Return one bridge; the cost does not depend on how many there are.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current() as mirror:
            return mirror.bridges.get(name)

    def port(self, name: str) -> OvsdbPort | None:
        """Return one port by its name.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current() as mirror:
            return mirror.ports.get(name)

    def ports_claiming(self, key: str, value: str) -> tuple[OvsdbPort, ...]:
        """Return the ports with this value of `IFACE_ID` or `OWNER`; several may have the same.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current() as mirror:
            return mirror.claiming(key, value)

    def sync(self) -> None:
        """Wait until the mirror has all changes by any client before this call.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current():
            pass
        self._transact(lambda: BARRIER, count=False)

    def hold(self, lock: str, holder: object) -> bool:
        """Request *lock* for *holder*, exclusively in all processes; return whether it is held.

        A request stays in the queue, also over reconnects, until `release`; `LockChanged` is
        published when its state changes.  The lock ends with the connection, and so with the
        process.  While it is held, another call is free; while it is not, the call reads the
        current state from the database.

        :raises BackendUnavailable: the database does not answer.
        """
        with self._current():
            if self._holders.setdefault(lock, holder) is not holder:
                return False
            known = self._locks.get(lock)
        if not known:
            # It carries the request, and is answered after earlier notifications of locks.
            self._transact(lambda: BARRIER, count=False)
            with self._news:
                known = self._locks.get(lock)
        if known is None:
            raise BackendUnavailable(f"{self.remote}: no answer to the request for the lock {lock}")
        return known

    def release(self, lock: str, holder: object) -> None:
        """Release *lock*, or cancel the request for it; do nothing for another holder."""
        with self._news:
            if self._holders.get(lock) is not holder:
                return
            del self._holders[lock]
            self._publish(LockChanged(lock))
            connected = self._alive and not self._closed
        if connected:
            with suppress(BackendUnavailable):  # the end of the connection releases it
                self._transact(lambda: BARRIER, count=False, timeout=min(self.timeout, _PARTING))

    def run(
        self,
        operations: Sequence[OvsdbOperation],
        *,
        wait: bool = True,
        locks: Sequence[str] = (),
    ) -> None:
        """Execute *operations* in one transaction, and *wait* until the switch has acted.

        The database itself checks that this connection holds all of *locks*.

        :raises OperationRefused: some were refused, each with its reason; nothing was done.
        :raises BackendLocked: another connection holds a lock; nothing was done.
        :raises BackendUnavailable: the database did not answer (all or nothing was done), or the
            switch did not act on it in time (the database has it, and the switch will).
        """
        if not operations:
            return
        number = self._transact(lambda: self._render(operations), count=wait, locks=locks)
        if number is not None:
            self._await_switch(number)

    def wait_until(
        self, condition: Callable[[Snapshot], T | None], what: str, timeout: float | None = None
    ) -> T:
        """Wait until *met* returns a value for the mirror, and return that.

        :raises BackendUnavailable: it did not in time; the message names *what*.
        """
        answers: list[T] = []

        def evaluate() -> bool:
            answer = condition(self._filled().snapshot()) if self._alive else None
            if answer is not None:
                answers.append(answer)
            return bool(answers)

        limit = self.timeout if timeout is None else timeout
        with self._current():
            if not self._news.wait_for(evaluate, limit):
                raise BackendUnavailable(f"{self.remote}: {what}: not within {limit:g} s")
        return answers[0]

    def watch(self, sink: Sink) -> Callable[[], None]:
        """Publish the present state to *sink*, when there is a connection, and then all changes.

        Return a function that ends the subscription, also from within a sink.
        """
        watch = object()

        def end() -> None:
            with self._news:
                self._sinks.pop(watch, None)

        with self._news:
            self._sinks[watch] = sink
            if self._alive:
                now = DatabaseChanged(
                    bridges=dict(self._mirror.bridges), ports=dict(self._mirror.ports)
                )
                for event in (Connected(self.remote), now):
                    self._publish_to(watch, event)
        return end

    def close(self) -> None:
        """Close the connection and stop its thread; the switch is not changed.  Idempotent."""
        with self._news:
            self._closed = True
            self._sinks.clear()
        with self._connecting:
            api, self._api = self._api, None
        if api is not None:
            api.end(self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Called by the thread of the session

    def stepped(self, tables: Tables, dirty: Dirty) -> None:
        with self._news:
            back, self._alive = not self._alive, True
            changed = self._mirror.step(tables, dirty)
            if back:
                self._publish(Connected(self.remote))
            if changed:
                self._publish(changed)
            self._news.notify_all()

    def lost(self) -> None:
        with self._news:
            self._alive = False
            self._locks.clear()
            self._publish(Disconnected(self.remote))

    def locks_wanted(self) -> frozenset[str]:
        with self._news:
            return frozenset(self._holders)

    def locked(self, lock: str, held: bool | None) -> None:
        with self._news:
            before = self._locks.pop(lock, None)
            if held is not None:
                self._locks[lock] = held
            if before is not None and before != held:
                self._publish(LockChanged(lock))

    def _publish(self, event: SwitchEvent) -> None:
        for watch in tuple(self._sinks):  # a sink may end its watch, or another's
            self._publish_to(watch, event)

    def _publish_to(self, watch: object, event: SwitchEvent) -> None:
        sink = self._sinks.get(watch)
        if sink is None:
            return
        try:
            sink(event)
        except Exception:  # the mirror and the other sinks go on
            LOG.exception("%s: a sink failed on %r", self.remote, event)

    def _transact(
        self,
        rendered: Callable[[], Rendered],
        *,
        count: bool,
        locks: Sequence[str] = (),
        timeout: float | None = None,
    ) -> int | None:
        api = self._ready()
        self._refuse_own_thread(api)
        limit = self.timeout if timeout is None else timeout
        if not self._transacting.acquire(timeout=limit):
            raise BackendUnavailable(f"{self.remote}: an earlier transaction is not answered")
        try:
            return api.execute(rendered, count, limit, locks)
        finally:
            self._transacting.release()

    def _render(self, operations: Sequence[OvsdbOperation]) -> Rendered:
        with self._news:
            return render(operations, self._filled().snapshot())

    def _await_switch(self, number: int) -> None:
        self.wait_until(
            lambda now: True if now.switch.cur_cfg >= number else None,
            "the switch has not acted on a change of its database; is ovs-vswitchd running?",
        )

    @contextmanager
    def _current(self) -> Iterator[DatabaseMirror]:
        """Yield the mirror, locked, once it is current."""
        session = self._ready().idl.session
        with self._news:
            current = self._news.wait_for(
                lambda: self._alive and not session.is_closed_by_peer(), self.timeout
            )
            if not current:
                raise BackendUnavailable(
                    f"{self.remote}: no connection within {self.timeout:g} s; "
                    "is ovsdb-server running?"
                )
            yield self._filled()

    def _filled(self) -> DatabaseMirror:
        if self._mirror.switch is None:
            raise BackendBroken(
                f"{self.remote}: the database is empty; initialise it with `ovs-vsctl init`"
            )
        return self._mirror

    def _ready(self) -> Api:
        if not self._connecting.acquire(timeout=self.timeout):
            raise BackendUnavailable(
                f"{self.remote}: no connection within {self.timeout:g} s; is ovsdb-server running?"
            )
        try:
            if self._closed:
                raise BackendUnavailable(f"{self.remote}: this connection was closed")
            if self._api is None:
                self._api = _session().connect(self.remote, self.timeout, self, self._pause)
            return self._api
        finally:
            self._connecting.release()

    def _refuse_own_thread(self, api: Api) -> None:
        if api.runs_in_this_thread():
            raise RuntimeError("a sink only enqueues: it cannot change the database that calls it")


def share_ovsdb(
    host: HostResources, remote: str, timeout: float, pause: float = DEFAULT_PAUSE
) -> Ovsdb:
    """Return the connection of *host* to *remote* that is shared by drivers with equal timeouts.

    A driver with another timeout gets another connection.
    """
    key = "ovsdb", remote, timeout, pause
    return host.share(key, lambda: Ovsdb(remote, timeout=timeout, pause=pause))


def _session() -> ModuleType:
    """Load the module that needs ``ovs`` and ``ovsdbapp``, on first use and without eventlet.

    ``ovs.poller`` imports eventlet to detect whether it is in use; that costs 0.2 s, warns, and
    hooks into ``os.fork``.  If it is not loaded yet, it is not in use.
    """
    absent = "eventlet" not in sys.modules
    if absent:
        sys.modules["eventlet"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("netfw.ovs.ovsdb.session")
    finally:
        if absent:
            del sys.modules["eventlet"]
