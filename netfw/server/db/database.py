"""Database: transactions that are tried again, and moments that are read without a lock."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Self, TypeVar

from attrs import field, frozen
from sqlalchemy import Connection, Engine

from netfw.errors import BackendUnavailable, ConfigError, Conflict
from netfw.server.db.agents.assignments import Assignments
from netfw.server.db.agents.heartbeats import Heartbeats
from netfw.server.db.agents.status_reports import Statuses
from netfw.server.db.allocation.addresses import Addresses
from netfw.server.db.allocation.free_ranges import Ranges
from netfw.server.db.allocation.quotas import Quotas
from netfw.server.db.allocation.segments import SegmentIdStore
from netfw.server.db.engine.engines import Limits, reading_engine, writing_engine
from netfw.server.db.engine.errors import (
    FAILURES,
    ErrorKind,
    Failure,
    RetryTransaction,
    translated,
    trouble,
)
from netfw.server.db.engine.url import database_url
from netfw.server.db.journal.head_poller import JournalHeadPoller
from netfw.server.db.journal.journal import Journal, JournalReader
from netfw.server.db.outbox import Outbox
from netfw.server.db.resources.default_security_groups import DefaultGroups
from netfw.server.db.resources.rows import Resources, Rows
from netfw.server.db.subscriptions.subscriptions import Subscriptions
from netfw.server.db.subscriptions.topic_contents import Topics

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

RETRIED = (RetryTransaction, *FAILURES)
"""Exceptions after which a transaction may run again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
LONGEST_QUEUE = 1.0
"""Seconds that a transaction waits for its turn among those of this process."""
ATTEMPTS_WITHOUT_ANSWER = 2
"""A connection that was kept may be dead although the database lives: once more, on a new one."""


@frozen
class ReadSnapshot:
    """One moment of the database."""

    connection: Connection = field(repr=False)
    resources: Rows
    journal: JournalReader
    topics: Topics
    quotas: Quotas
    default_groups: DefaultGroups
    heartbeats: Heartbeats

    @classmethod
    def on(cls, connection: Connection) -> Self:
        rows, journal = Rows(connection), JournalReader(connection)
        return cls(
            connection,
            rows,
            journal,
            Topics(connection, rows),
            Quotas(connection),
            DefaultGroups(connection),
            Heartbeats(connection),
        )


@frozen
class Transaction:
    """All that one transaction can do; it must not outlive it."""

    connection: Connection = field(repr=False)
    resources: Resources
    assignments: Assignments
    interests: Subscriptions
    addresses: Addresses
    allocations: SegmentIdStore
    quotas: Quotas
    default_groups: DefaultGroups
    heartbeats: Heartbeats
    statuses: Statuses
    outbox: Outbox
    journal: Journal

    @classmethod
    def on(cls, connection: Connection) -> Self:
        journal, ranges = Journal(connection), Ranges(connection)
        interests = Subscriptions(connection, Rows(connection))
        return cls(
            connection,
            Resources(connection, journal, interests.change),
            Assignments(connection, journal, interests.change),
            interests,
            Addresses(ranges),
            SegmentIdStore(ranges),
            Quotas(connection),
            DefaultGroups(connection),
            Heartbeats(connection),
            Statuses(connection),
            Outbox(connection),
            journal,
        )

    def prepare_commit(self) -> bool:
        """What comes last: the number of the commit, for which others wait from now on.

        Says whether it has one: whether anything changed that the journal tells.  Who follows what
        is worked out behind the number: of two transactions of which one has a host follow a
        group and the other changes what the group leads to, the later one must see the earlier.
        """
        if not (self.journal.noted or self.interests.pending or self.outbox.noted):
            return False
        seq = self.journal.write()
        self.interests.settle()
        self.interests.write(seq)
        self.outbox.write(seq)
        return True


class Database:
    """One database, for all threads of a process.  Connects when it is first used.

    :raises ConfigError: the URL names none that can be used, or its driver is not installed.
    """

    def __init__(self, url: str, limits: Limits | None = None, *, attempts: int = 20) -> None:
        place, limits = database_url(url), limits or Limits()
        try:
            self._writing = writing_engine(place, limits)
            self._reading = reading_engine(place, limits)
        except ModuleNotFoundError as exc:
            raise ConfigError(f"{exc.name} is missing: pip install 'netfw[server]'") from exc
        self._attempts, self._patience = attempts, limits.lock_timeout * 2
        self._writers = threading.BoundedSemaphore(limits.writers)
        self._rung: tuple[Callable[[], None], ...] = ()

    def __str__(self) -> str:
        return self._writing.url.render_as_string(hide_password=True)

    @property
    def is_file(self) -> bool:
        """Whether it is a file that this process alone answers for, and no server."""
        return self._writing.dialect.name == "sqlite"

    @property
    def writing(self) -> Engine:
        """For migrations, and for whoever counts statements."""
        return self._writing

    @property
    def reading(self) -> Engine:
        """The engine of those who only read."""
        return self._reading

    def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run *work* in a transaction and commit it, or roll back.

        *work* runs again when the database refused it because of another transaction: it decides
        by what it reads inside, and has no effect elsewhere.

        :raises Conflict: conflicts with other transactions lasted, or *work* raises it.
        :raises BackendUnavailable: the database does not answer; when that was during the commit,
            the commit is perhaps done.  Or too many transactions wait already; nothing was done.
        """
        if not self._writers.acquire(timeout=LONGEST_QUEUE):
            raise BackendUnavailable("too many transactions wait for the database; try again soon")
        try:
            retries = _Retries(self._attempts, self._patience)
            while True:
                try:
                    with self._writing.connect() as connection:
                        transaction = Transaction.on(connection)
                        result = work(transaction)
                        announced = _commit(connection, transaction)
                    break
                except RETRIED as exc:
                    retries.pause(exc)
        finally:
            self._writers.release()
        for callback in self._rung if announced else ():
            callback()
        return result

    def read(
        self, work: Callable[Concatenate[ReadSnapshot, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run *work* on one snapshot of the database, without waiting for a lock.

        :raises BackendUnavailable: the database does not answer.
        """
        retries = _Retries(self._attempts, self._patience)
        while True:
            try:
                with self._reading.connect() as connection:
                    return work(ReadSnapshot.on(connection), *args, **kwargs)
            except RETRIED as exc:
                retries.pause(exc)

    def pulse(self) -> JournalHeadPoller:
        """For whoever wants to know again and again what the newest commit is."""
        return JournalHeadPoller(self._reading)

    def on_commit(self, bell: Callable[[], None]) -> None:
        """Call *bell* after each commit of this process that the journal tells, in its thread.

        It only leaves a note: it neither waits nor raises.
        """
        self._rung = (*self._rung, bell)

    def close(self) -> None:
        """Give up all connections; what is not committed is undone."""
        self._writing.dispose()
        self._reading.dispose()


class _Retries:
    """The attempts at one transaction: how many there were, and since when."""

    def __init__(self, attempts: int, patience: float) -> None:
        self._attempts, self._patience = attempts, patience
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
                raise Conflict(f"others were faster {self._attempt} times: {exc}") from exc
        else:
            kind = trouble(exc)
            self._unanswered += kind is ErrorKind.AWAY
            late = time.monotonic() - self._began > self._patience
            last = last or self._unanswered == ATTEMPTS_WITHOUT_ANSWER
            if late or last or kind not in (ErrorKind.AGAIN, ErrorKind.AWAY):
                raise translated(exc) from exc
            LOG.debug("transaction is tried again: %s", kind.value)
        longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._attempt)
        time.sleep(random.uniform(longest / 4, longest))


def _commit(connection: Connection, transaction: Transaction) -> bool:
    """Commit *transaction*; return whether the journal announces it.

    :raises BackendUnavailable: the database went away meanwhile.
    """
    announced = transaction.prepare_commit()
    try:
        connection.commit()
    except FAILURES as exc:
        if trouble(exc) is ErrorKind.AWAY:
            text = "the database went away during a commit, which is perhaps done"
            raise BackendUnavailable(text) from exc
        raise
    return announced
