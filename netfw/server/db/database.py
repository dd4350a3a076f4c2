"""Database: transactions with retries, and read snapshots without locks."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, Self, TypeVar

from attrs import field, frozen
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from netfw import tracing
from netfw.errors import BackendUnavailable, ConfigError, Conflict
from netfw.server.db.agents.assignments import Assignments
from netfw.server.db.agents.heartbeats import Heartbeats
from netfw.server.db.agents.router_roles import RouterRoleRows
from netfw.server.db.agents.status_reports import StatusReports
from netfw.server.db.allocation.allocation_stores import SegmentIdStore, SubnetAddressStore
from netfw.server.db.allocation.free_prefixes import FreePrefixes
from netfw.server.db.allocation.free_ranges import FreeRanges
from netfw.server.db.allocation.quotas import Quotas
from netfw.server.db.engine.engines import (
    Limits,
    database_url,
    note_commit,
    reading_engine,
    writing_engine,
)
from netfw.server.db.engine.errors import (
    FAILURES,
    DatabaseFull,
    ErrorKind,
    Failure,
    RetryTransaction,
    classify_error,
    translate_error,
)
from netfw.server.db.journal.commit_notices import CommitNotices
from netfw.server.db.journal.head_poller import JournalHeadPoller
from netfw.server.db.journal.journal import Journal, JournalReader
from netfw.server.db.outbox import Outbox
from netfw.server.db.resources.default_security_groups import DefaultSecurityGroups
from netfw.server.db.resources.rows import RowReader, RowWriter
from netfw.server.db.subscriptions.subscriptions import Subscriptions
from netfw.server.db.subscriptions.topic_contents import Topics
from netfw.tracing import RecentTraces

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

RETRIED = (RetryTransaction, *FAILURES)
"""Exceptions after which a transaction may run again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
LONGEST_QUEUE = 1.0
"""Seconds that a transaction waits for a free writer of this process."""
ATTEMPTS_WITHOUT_ANSWER = 2
"""A connection may be stale although the database is up: close the idle ones and retry once."""
FULL_PERIOD = 10.0
"""Seconds for which a transaction without space makes the database count as full."""


@frozen
class ReadSnapshot:
    """One snapshot of the database."""

    connection: Connection = field(repr=False)
    resources: RowReader
    journal: JournalReader
    topics: Topics
    quotas: Quotas
    default_groups: DefaultSecurityGroups
    heartbeats: Heartbeats

    @classmethod
    def on(cls, connection: Connection) -> Self:
        rows, journal = RowReader(connection), JournalReader(connection)
        return cls(
            connection,
            rows,
            journal,
            Topics(connection, rows),
            Quotas(connection),
            DefaultSecurityGroups(connection),
            Heartbeats(connection),
        )


@frozen
class Transaction:
    """The operations of one transaction; not to be used after its end."""

    connection: Connection = field(repr=False)
    resources: RowWriter
    assignments: Assignments
    subscriptions: Subscriptions
    addresses: SubnetAddressStore
    allocations: SegmentIdStore
    prefixes: FreePrefixes
    quotas: Quotas
    default_groups: DefaultSecurityGroups
    heartbeats: Heartbeats
    statuses: StatusReports
    roles: RouterRoleRows
    outbox: Outbox
    journal: Journal

    @classmethod
    def on(cls, connection: Connection) -> Self:
        journal, ranges = Journal(connection), FreeRanges(connection)
        subscriptions = Subscriptions(connection, RowReader(connection))
        return cls(
            connection,
            RowWriter(connection, journal, subscriptions.change),
            Assignments(connection, journal, subscriptions.change),
            subscriptions,
            SubnetAddressStore(ranges),
            SegmentIdStore(ranges),
            FreePrefixes(connection),
            Quotas(connection),
            DefaultSecurityGroups(connection),
            Heartbeats(connection),
            StatusReports(connection),
            RouterRoleRows(connection),
            Outbox(connection),
            journal,
        )

    def prepare_commit(self) -> int:
        """Take the number of the commit; other transactions that write wait from here on.

        Return the number; 0: there is none, since nothing changed that the journal records.
        Subscriptions are resolved after the number is taken: if one transaction subscribes a host
        to a group and another changes what depends on the group, the later must see the earlier.

        :raises RetryTransaction: a resource is not shared any more that this transaction uses.
        """
        self.resources.access.lock()
        if not (self.journal.noted or self.subscriptions.pending or self.outbox.noted):
            return 0
        seq = self.journal.write()
        self.subscriptions.resolve()
        self.journal.write_readers(seq, self.subscriptions.write(seq))
        self.outbox.write(seq)
        return seq


class Database:
    """One database, for all threads of a process.  Connects on first use.

    :raises ConfigError: the URL is not usable, or its driver is not installed.
    """

    def __init__(self, url: str, limits: Limits | None = None, *, attempts: int = 20) -> None:
        parsed_url, limits = database_url(url), limits or Limits()
        try:
            self._writing = writing_engine(parsed_url, limits)
            self._reading = reading_engine(parsed_url, limits)
        except ModuleNotFoundError as exc:
            raise ConfigError(f"{exc.name} is missing: pip install 'netfw[server]'") from exc
        self._attempts, self._timeout = attempts, limits.lock_timeout * 2
        self._writers = threading.BoundedSemaphore(limits.writers)
        self._admitted = threading.local()
        self._on_commit: tuple[Callable[[], None], ...] = ()
        self.traces = RecentTraces()
        """Requests that made the newest commits, where they are traced."""
        self._full_until = 0.0
        self._check_schema: Callable[[Connection], None] = lambda connection: None
        self._epoch: str | None = None
        """The epoch of the journal in which the schema was checked."""

    def __str__(self) -> str:
        return self._writing.url.render_as_string(hide_password=True)

    @property
    def is_file(self) -> bool:
        """Whether the database is an SQLite file instead of a server."""
        return self._writing.dialect.name == "sqlite"

    @property
    def writing(self) -> Engine:
        """The engine of transactions that write."""
        return self._writing

    @property
    def reading(self) -> Engine:
        """The engine of read snapshots."""
        return self._reading

    def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run *work* in a transaction and commit it, or roll back.

        *work* runs again when the database refused it because of another transaction: it decides
        by what it reads inside, and has no effect elsewhere.

        :raises Conflict: conflicts with other transactions lasted, or *work* raises it.
        :raises BackendUnavailable: the database does not answer; when that was during the commit,
            the commit is perhaps done.  Or too many transactions wait already; nothing was done.
        :raises DatabaseFull: there is no space for it; nothing was done.
        :raises BackendBroken: another release has changed the tables; nothing was done.
        """
        with self.admission(), tracing.inner_span("transaction") as span:
            retries = _Retries(self._attempts, self._timeout)
            while True:
                try:
                    with self._writing.connect() as connection:
                        transaction = Transaction.on(connection)
                        result = work(transaction)
                        announced = self._commit(connection, transaction)
                    if announced:
                        self._trace(span, announced)
                    break
                except RETRIED as exc:
                    _close_idle_connections(self._writing, exc)
                    retries.pause(exc)
        for callback in self._on_commit if announced else ():
            callback()
        return result

    def _trace(self, span: tracing.Span, announced: int) -> None:
        """Note which traces led to the commit *announced*."""
        span.set("netfw.commit", announced)
        if context := tracing.current():
            self.traces.note(announced, (context, *tracing.take_followed()))

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Count this thread as one of the writers of the process, which are limited.

        A transaction enters by itself; a thread that waits for one enters before.

        :raises BackendUnavailable: too many of them wait for the database already.
        """
        if getattr(self._admitted, "yes", False):
            yield
            return
        if not self._writers.acquire(timeout=LONGEST_QUEUE):
            raise BackendUnavailable("too many transactions wait for the database; try again soon")
        self._admitted.yes = True
        try:
            yield
        except DatabaseFull:
            self._full_until = time.monotonic() + FULL_PERIOD
            raise
        finally:
            self._admitted.yes = False
            self._writers.release()

    @property
    def is_full(self) -> bool:
        """Whether a transaction of this process found the disk full a moment ago.

        A small transaction may fit where a larger one does not, so that success says nothing.
        """
        return time.monotonic() < self._full_until

    def read(
        self, work: Callable[Concatenate[ReadSnapshot, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run *work* on one snapshot of the database, without waiting for a lock.

        :raises BackendUnavailable: the database does not answer.
        """
        retries = _Retries(self._attempts, self._timeout)
        while True:
            try:
                with self._reading.connect() as connection:
                    return work(ReadSnapshot.on(connection), *args, **kwargs)
            except RETRIED as exc:
                _close_idle_connections(self._reading, exc)
                retries.pause(exc)

    def guard_schema(self, check: Callable[[Connection], None]) -> None:
        """Run *check* now, and before commits in another epoch: migrations start one.

        So a server writes nothing to tables that another release has changed under it.

        :raises BackendBroken: *check* raises it.
        """

        def read_and_check(view: ReadSnapshot) -> None:
            check(view.connection)
            self._epoch = view.journal.cursor().epoch

        self.read(read_and_check)
        self._check_schema = check

    def check_epoch(self, connection: Connection, epoch: str | None) -> None:
        """Check the schema again unless *epoch* is the one in which it was checked.

        :raises BackendBroken: another release has changed it.
        """
        if epoch is not None and epoch != self._epoch:
            self._check_schema(connection)
            self._epoch = epoch

    def _commit(self, connection: Connection, transaction: Transaction) -> int:
        """Commit *transaction*; return its number if the journal announces it, else 0.

        :raises BackendUnavailable: the database went away meanwhile.
        :raises BackendBroken: another release has changed the tables; nothing is done.
        """
        announced = transaction.prepare_commit()
        self.check_epoch(connection, transaction.journal.epoch)
        try:
            connection.commit()
        except FAILURES as exc:
            if classify_error(exc) is ErrorKind.UNAVAILABLE:
                text = "the database went away during a commit, which is perhaps done"
                raise BackendUnavailable(text) from exc
            raise
        note_commit(connection)
        return announced

    def head_poller(self) -> JournalHeadPoller:
        """Return a poller of the newest commit, with a connection of its own."""
        return JournalHeadPoller(self._reading)

    def commit_notices(self, on_notice: Callable[[], None]) -> CommitNotices:
        """Return a listener for notices of commits by any process."""
        return CommitNotices(self._reading, on_notice)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call *callback* after each commit of this process with a journal entry, in its thread.

        The callback neither blocks nor raises.
        """
        self._on_commit = (*self._on_commit, callback)

    def close(self) -> None:
        """Close all connections; uncommitted transactions are rolled back."""
        self._writing.dispose()
        self._reading.dispose()


class _Retries:
    """The attempts at one transaction: how many there were, and since when."""

    def __init__(self, attempts: int, timeout: float) -> None:
        self._attempts, self._timeout = attempts, timeout
        self._attempt, self._unanswered, self._began = 0, 0, time.monotonic()

    def pause(self, exc: RetryTransaction | Failure) -> None:
        """Wait before the next attempt, longer each time.

        :raises Conflict: conflicts with other transactions lasted too long.
        :raises NetfwError: *exc*, translated, when another attempt would not help.
        """
        self._attempt += 1
        last = self._attempt == self._attempts
        if isinstance(exc, RetryTransaction):
            if last:
                raise Conflict(
                    f"gave up after {self._attempt} conflicts with other transactions: {exc}"
                ) from exc
        else:
            kind = classify_error(exc)
            self._unanswered += kind is ErrorKind.UNAVAILABLE
            late = time.monotonic() - self._began > self._timeout
            last = last or self._unanswered == ATTEMPTS_WITHOUT_ANSWER
            if late or last or kind not in (ErrorKind.RETRY, ErrorKind.UNAVAILABLE):
                raise translate_error(exc) from exc
            LOG.debug("transaction: retrying: %s", kind.value)
        longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._attempt)
        time.sleep(random.uniform(longest / 4, longest))


def _close_idle_connections(engine: Engine, error: Exception) -> None:
    """Close the idle connections of *engine* if *error* is a lost one: all may be stale."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        engine.dispose()
