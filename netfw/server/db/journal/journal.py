"""The journal: changes in the order of commits.

One row counts commits.  It is incremented at the very end of a transaction and locked until the
commit, so a reader of number *n* finds everything up to *n* committed.  A database sequence would
not do: a later number can be committed earlier, and readers would skip the other one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Row,
    Select,
    String,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from netfw.drivers.state_source import Cursor
from netfw.errors import BackendBroken, CursorLost
from netfw.model.resource import Kind, Ref
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.tables import JOURNAL, JOURNAL_HEAD, SUBSCRIPTIONS

MISSING = "the database has no journal: run `netfw-db upgrade`, then start again"
DELETE_AT_ONCE = 5_000

NEXT_RETURNING: Final = Prepared(
    update(JOURNAL_HEAD)
    .values(seq=JOURNAL_HEAD.c.seq + 1)
    .returning(JOURNAL_HEAD.c.seq, JOURNAL_HEAD.c.epoch)
)
CHANNEL: Final = "netfw_commits"
NEXT_NOTIFYING: Final = Prepared(
    update(JOURNAL_HEAD)
    .values(seq=JOURNAL_HEAD.c.seq + 1)
    .returning(JOURNAL_HEAD.c.seq, JOURNAL_HEAD.c.epoch, func.pg_notify(CHANNEL, ""))
)
"""The same for PostgreSQL, which notifies other processes when the transaction is committed."""
NEXT_INSERT_ID: Final = Prepared(
    update(JOURNAL_HEAD).values(seq=func.last_insert_id(JOURNAL_HEAD.c.seq + 1))
)
"""The same for MariaDB, whose updates return no rows, but the id that they set."""
SELECT_EPOCH: Final = Prepared(select(JOURNAL_HEAD.c.epoch))
ENTRIES: Final = Prepared.insert(JOURNAL)
SELECT_HEAD: Final = Prepared(
    select(JOURNAL_HEAD.c.epoch, JOURNAL_HEAD.c.seq, JOURNAL_HEAD.c.oldest)
)

AFTER: Final = bindparam("after", type_=BigInteger())
UNTIL: Final = bindparam("until", type_=BigInteger())
LIMIT: Final = bindparam("limit", type_=Integer())
BETWEEN: Final = (JOURNAL.c.seq > AFTER, JOURNAL.c.seq <= UNTIL)
IN_ORDER: Final = (
    select(JOURNAL).where(*BETWEEN).order_by(JOURNAL.c.seq, JOURNAL.c.topic).limit(LIMIT)
)
SELECT_BY_TOPIC: Final = IN_ORDER.where(JOURNAL.c.topic.in_(bindparam("topics", expanding=True)))
READERS: Final = bindparam("readers", expanding=True, type_=String())
SELECT_BY_READER: Final = IN_ORDER.where(
    or_(
        JOURNAL.c.topic.in_(READERS),
        JOURNAL.c.topic.in_(
            select(SUBSCRIPTIONS.c.topic).where(SUBSCRIPTIONS.c.reader.in_(READERS))
        ),
    )
)
SELECT_RECENT_BY_READER: Final = IN_ORDER.where(
    or_(
        JOURNAL.c.topic.in_(READERS),
        exists().where(
            SUBSCRIPTIONS.c.reader.in_(READERS), SUBSCRIPTIONS.c.topic == JOURNAL.c.topic
        ),
    )
)
"""The same as `SELECT_BY_READER`: it looks up the topic of each entry, instead of entries under
each topic that the readers follow."""
RECENT: Final = 1_000
"""Limit of commits whose entries are read one by one."""
SELECT_READERS: Final = Prepared(
    select(SUBSCRIPTIONS.c.reader)
    .join(JOURNAL, JOURNAL.c.topic == SUBSCRIPTIONS.c.topic)
    .where(*BETWEEN, or_(SUBSCRIPTIONS.c.ended.is_(None), SUBSCRIPTIONS.c.ended > AFTER))
    .union(select(JOURNAL.c.topic).where(*BETWEEN, JOURNAL.c.topic.contains("@")))
)
ALL: Final = 2**31 - 1
LAST: Final = 2**62


@frozen(kw_only=True)
class JournalEntry:
    """A change of a resource, recorded under a topic."""

    seq: int
    topic: str
    ref: Ref


@frozen(kw_only=True)
class JournalHead:
    """The newest and the oldest commit of the journal."""

    epoch: str
    seq: int
    oldest: int

    @property
    def cursor(self) -> Cursor:
        """The cursor of the newest commit."""
        return Cursor(self.epoch, self.seq)

    def check(self, cursor: Cursor) -> None:
        """Raise unless the journal is complete after *cursor*.

        :raises CursorLost: the epoch is another one, or the journal does not reach back so far.
        """
        if cursor.epoch != self.epoch:
            raise CursorLost("the database was restored; take a snapshot")
        if cursor.seq > self.seq:
            raise CursorLost(f"change {cursor.seq} is later than the newest one, {self.seq}")
        if not self.oldest <= cursor.seq <= self.seq:
            raise CursorLost(
                f"change {cursor.seq} is not within {self.oldest} to {self.seq}, which is all "
                "that is remembered; take a snapshot"
            )


@frozen(kw_only=True)
class Retention:
    """The commits that the journal keeps: the newest ones, and those younger than *age* seconds."""

    commits: int = 100_000
    age: float = 86_400.0


class JournalReader:
    """The journal, in one snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def head(self) -> JournalHead:
        """Return the head, by one statement, since it is polled.

        :raises BackendBroken: the journal does not exist.
        """
        row = SELECT_HEAD.first(self._connection, {})
        if row is None:
            raise BackendBroken(MISSING)
        return JournalHead(epoch=row.epoch, seq=row.seq, oldest=row.oldest)

    def cursor(self) -> Cursor:
        """Return the cursor of the newest commit."""
        return self.head().cursor

    def since(self, cursor: Cursor, topics: Sequence[str], limit: int) -> tuple[JournalEntry, ...]:
        """Return the oldest entries after *cursor* under *topics*, in order, about *limit* of them.

        The entries of one commit stay together: there are more than *limit* if a commit has more.

        :raises CursorLost: the journal is not complete after *cursor*.
        """
        self.check(cursor)
        values = {"topics": list(topics), "after": cursor.seq}
        return self._entries(SELECT_BY_TOPIC, values, limit)[0]

    def concerning(
        self, seq: int, newest: int, readers: Sequence[str], limit: int
    ) -> tuple[tuple[JournalEntry, ...], bool]:
        """Return the oldest entries after commit *seq* under all topics that *readers* follow or
        followed lately, and whether there are more.

        :param newest: the newest commit: after a few commits the cost is that of their entries,
            after many that of the topics.
        """
        values = {"readers": list(readers), "after": seq}
        rows = SELECT_RECENT_BY_READER if newest - seq <= RECENT else SELECT_BY_READER
        return self._entries(rows, values, limit)

    def concerned(self, after: int, until: int) -> frozenset[str]:
        """Return readers and agent roots of the commits after *after* up to *until*."""
        found = SELECT_READERS.all(self._connection, {"after": after, "until": until})
        return frozenset(row.reader for row in found)

    def check(self, cursor: Cursor) -> None:
        """Raise unless the journal is complete after *cursor*.

        :raises CursorLost: the epoch is another one, or the journal does not reach back so far.
        """
        self.head().check(cursor)

    def _entries(
        self, rows: Select[Any], values: dict[str, Any], limit: int
    ) -> tuple[tuple[JournalEntry, ...], bool]:
        found = self._execute(rows, values | {"until": LAST, "limit": limit + 1})
        if len(found) <= limit:
            return found, False
        last = found[limit].seq
        if found[0].seq != last:
            return tuple(entry for entry in found if entry.seq < last), True
        return self._execute(rows, values | {"until": last, "limit": ALL}), True

    def _execute(self, rows: Select[Any], values: dict[str, Any]) -> tuple[JournalEntry, ...]:
        return tuple(_entry(row) for row in self._connection.execute(rows, values))


class Journal(JournalReader):
    """The journal in a transaction: changes are collected, and written at its end."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.time) -> None:
        super().__init__(connection)
        self._clock = clock
        self._noted: set[tuple[str, str, str]] = set()
        self._written: frozenset[str] = frozenset()
        self.epoch: str | None = None
        """The epoch of the commit, once it has a number."""

    def note(self, ref: Ref, topics: Iterable[str]) -> None:
        """Collect a change of *ref* for the readers of *topics*."""
        kind, id = ref.kind.value, str(ref.id)
        self._noted.update((topic, kind, id) for topic in topics)

    @property
    def noted(self) -> bool:
        """Whether changes are collected."""
        return bool(self._noted)

    def write(self) -> int:
        """Take the next number, write the collected changes, and return the number.

        Other transactions wait here until this one is committed.
        """
        seq = self._next()
        self._written = frozenset(topic for topic, _, _ in self._noted)
        self._insert(seq)
        return seq

    def write_readers(self, seq: int, changed: Mapping[str, Ref]) -> None:
        """Write an entry for each reader whose subscriptions commit *seq* changed, and a resource
        that it gains or loses by that.

        Such a reader may follow none of the topics that the commit is recorded under: a host with
        its first instance behind a distributed router, which itself did not change.
        """
        for reader, ref in changed.items():
            if reader not in self._written:
                self.note(ref, (reader,))
        self._insert(seq)

    def _insert(self, seq: int) -> None:
        """Write the collected changes as those of commit *seq*."""
        at = int(self._clock())
        rows = [
            {"seq": seq, "topic": topic, "kind": kind, "resource_id": id, "at": at}
            for topic, kind, id in sorted(self._noted)
        ]
        self._noted.clear()
        if rows:
            ENTRIES.count_many(self._connection, rows)

    def start_epoch(self) -> None:
        """Start a new epoch, which invalidates all cursors.  For a restored database."""
        start_epoch(self._connection)

    def prune(self, retention: Retention) -> int:
        """Delete the oldest commits beyond *retention*, some thousands of entries at most.

        A commit whose date is further in the future than the age of *retention* was written by a
        wrong clock, and is not young.  Return the number of deleted entries; call again while it is
        not zero.
        """
        head = self.head()
        oldest, keep = head.oldest, head.seq - retention.commits
        if keep <= oldest:
            return 0
        now, age = self._clock(), retention.age
        is_young = JOURNAL.c.at.between(int(now - age), int(now + max(age, 0.0)))
        young = (
            select(JOURNAL.c.seq)
            .where(JOURNAL.c.seq <= keep, is_young)
            .order_by(JOURNAL.c.seq)
            .limit(1)
        )
        first_young = self._connection.execute(young).scalar()
        if first_young is not None:
            keep = first_young - 1
        if keep <= oldest:
            return 0
        step = (
            select(JOURNAL.c.seq)
            .where(JOURNAL.c.seq <= keep)
            .order_by(JOURNAL.c.seq)
            .offset(DELETE_AT_ONCE)
            .limit(1)
        )
        until = self._connection.execute(step).scalar()
        keep = keep if until is None else until
        forward = update(JOURNAL_HEAD).where(JOURNAL_HEAD.c.oldest < keep).values(oldest=keep)
        if not self._connection.execute(forward).rowcount:
            return 0  # another process pruned more meanwhile
        gone = self._connection.execute(delete(JOURNAL).where(JOURNAL.c.seq <= keep)).rowcount
        ended = SUBSCRIPTIONS.c.ended.is_not(None), SUBSCRIPTIONS.c.ended <= keep
        self._connection.execute(delete(SUBSCRIPTIONS).where(*ended))
        return gone

    def _next(self) -> int:
        dialect = self._connection.dialect
        if dialect.update_returning:
            following = NEXT_NOTIFYING if dialect.name == "postgresql" else NEXT_RETURNING
            head = following.first(self._connection, {})
            seq = 0 if head is None else int(head.seq)
        else:
            seq = NEXT_INSERT_ID.set_id(self._connection)
            head = SELECT_EPOCH.first(self._connection, {})
        if not seq or head is None:
            raise BackendBroken(MISSING)
        self.epoch = head.epoch
        return seq


def start_epoch(connection: Connection) -> None:
    """Empty the journal, and start a new epoch, which invalidates all cursors.

    By two updates: MariaDB computes the second value of one from the new first value.
    """
    connection.execute(delete(JOURNAL))
    following = {"epoch": uuid4().hex, "seq": JOURNAL_HEAD.c.seq + 1}
    connection.execute(update(JOURNAL_HEAD).values(following))
    connection.execute(update(JOURNAL_HEAD).values(oldest=JOURNAL_HEAD.c.seq))


def _entry(row: Row[Any]) -> JournalEntry:
    return JournalEntry(
        seq=row.seq, topic=row.topic, ref=Ref(Kind(row.kind), UUID(row.resource_id))
    )
