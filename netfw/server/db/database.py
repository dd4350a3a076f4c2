"""Database: transactions that are tried again, and moments that are read without a lock."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Self, TypeVar

from attrs import field, frozen
from sqlalchemy import Connection, Engine

from netfw.errors import BackendUnavailable, ConfigError, Conflict
from netfw.server.db.agents.assignments import Assignments
from netfw.server.db.agents.heartbeats import Heartbeats
from netfw.server.db.agents.status_reports import StatusReports
from netfw.server.db.allocation.free_ranges import Ranges
from netfw.server.db.allocation.pools import Addresses, SegmentIdStore
from netfw.server.db.allocation.quotas import Quotas
from netfw.server.db.engine.engines import Limits, database_url, reading_engine, writing_engine
from netfw.server.db.engine.errors import (
    FAILURES,
    ErrorKind,
    RetryTransaction,
    classify_error,
    translate_error,
)
from netfw.server.db.journal.journal import Journal, JournalHeadPoller, JournalReader
from netfw.server.db.outbox import Outbox
from netfw.server.db.resources.default_security_groups import DefaultSecurityGroups
from netfw.server.db.resources.rows import Resources, Rows
from netfw.server.db.subscriptions.subscriptions import Subscriptions
from netfw.server.db.subscriptions.topic_contents import Topics

LOG = logging.getLogger(__name__)
T = TypeVar("T")

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
    default_groups: DefaultSecurityGroups
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
            DefaultSecurityGroups(connection),
            Heartbeats(connection),
        )


@frozen
class Transaction:
    """All that one transaction can do; it must not outlive it."""

    connection: Connection = field(repr=False)
    resources: Resources
    assignments: Assignments
    subscriptions: Subscriptions
    addresses: Addresses
    allocations: SegmentIdStore
    quotas: Quotas
    default_groups: DefaultSecurityGroups
    heartbeats: Heartbeats
    statuses: StatusReports
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
            DefaultSecurityGroups(connection),
            Heartbeats(connection),
            StatusReports(connection),
            Outbox(connection),
            journal,
        )

    def prepare_commit(self) -> bool:
        """What comes last: the number of the commit, for which others wait from now on.

        Says whether it has one: whether anything changed that the journal tells.  Who follows what
        is worked out behind the number: of two transactions of which one has a host follow a
        group and the other changes what the group leads to, the later one must see the earlier.
        """
        if not (self.journal.noted or self.subscriptions.pending or self.outbox.noted):
            return False
        seq = self.journal.write()
        self.subscriptions.resolve()
        self.subscriptions.write(seq)
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
        """Do *work* and commit it, or nothing of it.

        *work* is done again when the database refused it because of another transaction: it
        decides by what it reads within, and has no effect elsewhere.

        :raises Conflict: others were faster again and again, or *work* says so.
        :raises BackendUnavailable: the database does not answer; where that was at the end, it is
            perhaps done.  Or too many wait for it already; nothing was done.
        """
        if not self._writers.acquire(timeout=LONGEST_QUEUE):
            raise BackendUnavailable("too many transactions wait for the database; try again soon")
        try:
            return self._repeated(lambda: self._once(work))
        finally:
            self._writers.release()

    def read(self, work: Callable[[ReadSnapshot], T]) -> T:
        """Do *work*, which sees one moment and waits for nobody.

        :raises BackendUnavailable: the database does not answer.
        """

        def once() -> T:
            with self._reading.connect() as connection:
                return work(ReadSnapshot.on(connection))

        return self._repeated(once)

    def head_poller(self) -> JournalHeadPoller:
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

    def _once(self, work: Callable[[Transaction], T]) -> T:
        with self._writing.connect() as connection:
            transaction = Transaction.on(connection)
            result = work(transaction)
            told = transaction.prepare_commit()
            try:
                connection.commit()
            except FAILURES as exc:
                if classify_error(exc) is ErrorKind.AWAY:
                    text = "the database went away during a commit, which is perhaps done"
                    raise BackendUnavailable(text) from exc
                raise
        for bell in self._rung if told else ():
            bell()
        return result

    def _repeated(self, once: Callable[[], T]) -> T:
        unanswered, began = 0, time.monotonic()
        for attempt in range(1, self._attempts + 1):
            try:
                return once()
            except RetryTransaction as exc:
                if attempt == self._attempts:
                    raise Conflict(f"others were faster {attempt} times: {exc}") from exc
            except FAILURES as exc:
                found = classify_error(exc)
                unanswered += found is ErrorKind.AWAY
                late = time.monotonic() - began > self._patience
                last = attempt == self._attempts or unanswered == ATTEMPTS_WITHOUT_ANSWER
                if late or last or found not in (ErrorKind.AGAIN, ErrorKind.AWAY):
                    raise translate_error(exc) from exc
                LOG.debug("transaction is tried again: %s", found.value)
            time.sleep(_pause(attempt))
        raise AssertionError("a database is tried at least once")


def _pause(attempt: int) -> float:
    """Longer each time, and not the same for all who got into each other's way."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt)
    return random.uniform(longest / 4, longest)
