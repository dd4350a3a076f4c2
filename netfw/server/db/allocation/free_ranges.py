"""Id pools, stored as rows of free ranges.

However large or full a pool is, an allocation or release touches one range and its neighbours.  A
row is locked before a decision by it: of two transactions one gets an id, and the other waits and
gets another one.  One that waited divides the range, so that the next ones find a range that is not
locked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.server.db.allocation.intervals import (
    FreeInterval,
    Interval,
    divide,
    join_adjacent,
    subtract,
)
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.columns import NUMBER_LENGTH
from netfw.server.db.schema.tables import FREE_RANGES, OFFERS, POOLS

PART: Final = 64
"""Ids of the lower range when one is divided, which are allocated first."""
POOL: Final[BindParameter[str]] = bindparam("of_pool")
NUMBER: Final[BindParameter[str]] = bindparam("number")
_RANGES = select(FREE_RANGES.c.first, FREE_RANGES.c.last, FREE_RANGES.c.offered).where(
    FREE_RANGES.c.pool == POOL
)
_ANY = _RANGES.where(FREE_RANGES.c.offered.is_(True)).order_by(FREE_RANGES.c.first).limit(1)
_BELOW = _RANGES.where(FREE_RANGES.c.first <= NUMBER).order_by(FREE_RANGES.c.first.desc()).limit(1)
_WITHIN = (
    _RANGES.where(FREE_RANGES.c.last >= bindparam("lowest"))
    .where(FREE_RANGES.c.first <= bindparam("highest"))
    .order_by(FREE_RANGES.c.first)
    .limit(1)
)
_EXACT = (
    FREE_RANGES.c.pool == POOL,
    FREE_RANGES.c.first == bindparam("at_first"),
    FREE_RANGES.c.last == bindparam("at_last"),
)
SELECT_FREE_SKIP_LOCKED: Final = Prepared(_ANY.with_for_update(skip_locked=True))
SELECT_FREE_FOR_UPDATE: Final = Prepared(_ANY.with_for_update())
SELECT_FREE: Final = Prepared(_ANY)
SELECT_WITHIN_SKIP_LOCKED: Final = Prepared(_WITHIN.with_for_update(skip_locked=True))
SELECT_WITHIN_FOR_UPDATE: Final = Prepared(_WITHIN.with_for_update())
SELECT_WITHIN: Final = Prepared(_WITHIN)
SELECT_ALL_FREE_FOR_UPDATE: Final = _RANGES.with_for_update()
SELECT_FREE_AT_OR_BELOW: Final = Prepared(_BELOW)
SELECT_FREE_STARTING_AT_FOR_UPDATE: Final = Prepared(
    _RANGES.where(FREE_RANGES.c.first == NUMBER).with_for_update()
)
SELECT_FREE_ENDING_AT_FOR_UPDATE: Final = Prepared(
    _RANGES.where(FREE_RANGES.c.last == NUMBER).with_for_update()
)
_BOUNDS = select(POOLS.c.lowest, POOLS.c.highest).where(POOLS.c.pool == POOL)
BOUNDS: Final = Prepared(_BOUNDS)
BOUNDS_HELD: Final = Prepared(_BOUNDS.with_for_update())
BOUNDS_SHARED: Final = Prepared(_BOUNDS.with_for_update(read=True))
ALL_OFFERS: Final = (
    select(OFFERS.c.first, OFFERS.c.last).where(OFFERS.c.pool == POOL).order_by(OFFERS.c.first)
)
OFFER: Final = Prepared(ALL_OFFERS.where(OFFERS.c.first <= NUMBER, OFFERS.c.last >= NUMBER))
REPLACE: Final = Prepared(
    update(FREE_RANGES)
    .where(*_EXACT)
    .values(first=bindparam("new_first"), last=bindparam("new_last"))
)
REMOVE: Final = Prepared(delete(FREE_RANGES).where(*_EXACT))
"""Statements are compiled once: that takes longer than SQLite takes to execute one."""

Statements = tuple[Prepared, Prepared, Prepared]
"""One query: without rows that others lock, waiting for their locks, and without locks."""
_OFFERED_STATEMENTS: Final = (SELECT_FREE_SKIP_LOCKED, SELECT_FREE_FOR_UPDATE, SELECT_FREE)
_WITHIN_STATEMENTS: Final = (SELECT_WITHIN_SKIP_LOCKED, SELECT_WITHIN_FOR_UPDATE, SELECT_WITHIN)


def key(number: int) -> str:
    """Return *number* as text that sorts numerically."""
    return f"{number:0{NUMBER_LENGTH}x}"


class FreeRanges:
    """The free ids of pools, stored as ranges, read and changed in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def define(self, pool: str, whole: Interval, offers: Iterable[Interval]) -> bool:
        """Define *pool*: ids in *whole* exist, ids in *offers* may be allocated automatically.

        Allocated ids stay allocated, within *offers* or not.  Ids outside of *whole* no longer
        exist.  Return whether that is a change.
        """
        wanted = tuple(join_adjacent(offers))
        known = self._one(BOUNDS_HELD, of_pool=pool)
        if known is None:
            self._create(pool, whole)
            free = [whole]
        else:
            former = Interval(int(known.lowest, 16), int(known.highest, 16))
            if former == whole and self._offers(pool) == wanted:
                return False
            free = [each.span for each in self._all(pool)]
            self._forget(pool, former, whole, len(free))
            free += _outside(whole, former)
        self._write(pool, divide(_within(free, whole), wanted), wanted)
        return True

    def drop(self, pool: str) -> None:
        """Delete *pool*, first its definition, which waits for releases.  Idempotent."""
        for table in (POOLS, OFFERS, FREE_RANGES):
            self._connection.execute(delete(table).where(table.c.pool == pool))

    def pools(self, prefix: str) -> tuple[str, ...]:
        """Return the pools whose names begin with *prefix*."""
        rows = select(POOLS.c.pool).where(POOLS.c.pool.startswith(prefix, autoescape=True))
        return tuple(self._connection.execute(rows.order_by(POOLS.c.pool)).scalars())

    def lock_pools(self, prefix: str) -> None:
        """Lock the pools whose names begin with *prefix*: their definitions do not change."""
        rows = select(POOLS.c.pool).where(POOLS.c.pool.startswith(prefix, autoescape=True))
        self._connection.execute(rows.order_by(POOLS.c.pool).with_for_update()).all()

    def share(self, pool: str) -> None:
        """Keep the definition of *pool* until the transaction ends; others may do so as well."""
        self._one(BOUNDS_SHARED, of_pool=pool)

    def known(self, pool: str) -> bool:
        """Return whether *pool* is defined."""
        return self._one(BOUNDS, of_pool=pool) is not None

    def acquire(self, pool: str, number: int) -> bool:
        """Allocate *number*; return false if it is allocated, or the pool does not exist."""
        while True:
            found = self._holding(pool, number)
            if found is None:
                return False
            locked = self._one(
                SELECT_FREE_STARTING_AT_FOR_UPDATE, of_pool=pool, number=key(found.span.first)
            )
            if locked is None or _free(locked) != found:
                continue  # another transaction changed the range: retry
            self._replace(pool, found, subtract(found, number))
            return True

    def acquire_any(self, pool: str, count: int = 1) -> tuple[int, ...]:
        """Allocate *count* offered ids; fewer if no more are free."""
        taken: list[int] = []
        while len(taken) < count:
            free, waited = self._first(_OFFERED_STATEMENTS, pool)
            if free is None:
                break
            first, last = free.span.first, free.span.last
            number = min(count - len(taken), last - first + 1)  # more than len() can say in IPv6
            rest = Interval(first + number, last)
            self._replace(pool, free, _divided(rest, waited))
            taken += range(first, first + number)
        return tuple(taken)

    def acquire_within(self, pool: str, span: Interval) -> int | None:
        """Allocate the lowest free id of *span*, offered or not; ``None``: none is free."""
        bounds = {"lowest": key(span.first), "highest": key(span.last)}
        free, _ = self._first(_WITHIN_STATEMENTS, pool, **bounds)
        if free is None:
            return None
        number = max(free.span.first, span.first)
        self._replace(pool, free, subtract(free, number))
        return number

    def release(self, pool: str, number: int) -> None:
        """Release *number*.  Idempotent; an id outside of the pool is ignored.

        The definition of the pool is kept until the transaction ends, so that the id is offered if
        the pool offers it.
        """
        whole = self._one(BOUNDS_SHARED, of_pool=pool)
        if whole is None or not whole.lowest <= key(number) <= whole.highest:
            return
        offered = self._one(OFFER, of_pool=pool, number=key(number)) is not None
        left = (
            self._neighbour(SELECT_FREE_ENDING_AT_FOR_UPDATE, pool, number - 1, offered)
            if number
            else None
        )
        right = self._neighbour(SELECT_FREE_STARTING_AT_FOR_UPDATE, pool, number + 1, offered)
        if self._holding(pool, number) is not None:
            return
        first = number if left is None else left.span.first
        last = number if right is None else right.span.last
        if right is not None:
            self._delete(pool, right)
        merged = FreeInterval(Interval(first, last), offered)
        if left is None:
            self._insert(pool, (merged,))
        else:
            self._replace(pool, left, (merged,))

    def _create(self, pool: str, whole: Interval) -> None:
        row = {"pool": pool, "lowest": key(whole.first), "highest": key(whole.last)}
        self._guarded(insert(POOLS).values(row))

    def _forget(self, pool: str, former: Interval, whole: Interval, free: int) -> None:
        """Delete the offers and the *free* ranges that were read."""
        gone = delete(FREE_RANGES).where(FREE_RANGES.c.pool == pool)
        if self._connection.execute(gone).rowcount != free:
            raise RetryTransaction(f"another transaction added a range to {pool} meanwhile")
        self._connection.execute(delete(OFFERS).where(OFFERS.c.pool == pool))
        if former != whole:
            bounds = {"lowest": key(whole.first), "highest": key(whole.last)}
            self._connection.execute(update(POOLS).where(POOLS.c.pool == pool).values(bounds))

    def _write(
        self, pool: str, free: tuple[FreeInterval, ...], offers: tuple[Interval, ...]
    ) -> None:
        if offers:
            rows = [{"pool": pool, "first": key(o.first), "last": key(o.last)} for o in offers]
            self._guarded(insert(OFFERS), rows)
        self._insert(pool, free)

    def _offers(self, pool: str) -> tuple[Interval, ...]:
        rows = self._connection.execute(ALL_OFFERS, {"of_pool": pool})
        return tuple(Interval(int(row.first, 16), int(row.last, 16)) for row in rows)

    def _all(self, pool: str) -> list[FreeInterval]:
        """Return all free ranges, locked, so that they can be rewritten."""
        return [
            _free(row)
            for row in self._connection.execute(SELECT_ALL_FREE_FOR_UPDATE, {"of_pool": pool})
        ]

    def _first(
        self, statements: Statements, pool: str, **values: str
    ) -> tuple[FreeInterval | None, bool]:
        """Return the first range of *statements*, locked until the end of the transaction, and
        whether others had locked all of them."""
        skipping, waiting, reading = statements
        row = self._one(skipping, of_pool=pool, **values)
        if row is not None:
            return _free(row), False
        while row is None:
            # All are locked by other transactions, which may leave a part or roll back.
            row = self._one(waiting, of_pool=pool, **values)
            if row is None and self._one(reading, of_pool=pool, **values) is None:
                return None, True
        return _free(row), True

    def _holding(self, pool: str, number: int) -> FreeInterval | None:
        """Return the free range that has *number*, without locking it."""
        row = self._one(SELECT_FREE_AT_OR_BELOW, of_pool=pool, number=key(number))
        return _free(row) if row is not None and row.last >= key(number) else None

    def _neighbour(
        self, rows: Prepared, pool: str, number: int, offered: bool
    ) -> FreeInterval | None:
        row = self._one(rows, of_pool=pool, number=key(number))
        return None if row is None or bool(row.offered) != offered else _free(row)

    def _replace(self, pool: str, old: FreeInterval, new: tuple[FreeInterval, ...]) -> None:
        """Write *new* in place of *old*, which is locked."""
        if not new:
            self._delete(pool, old)
            return
        values = {
            **_exactly(pool, old),
            "new_first": key(new[0].span.first),
            "new_last": key(new[0].span.last),
        }
        if REPLACE.count(self._connection, values) != 1:
            raise RetryTransaction(f"a range of {pool} changed meanwhile")
        self._insert(pool, new[1:])

    def _delete(self, pool: str, old: FreeInterval) -> None:
        if REMOVE.count(self._connection, _exactly(pool, old)) != 1:
            raise RetryTransaction(f"a range of {pool} changed meanwhile")

    def _insert(self, pool: str, new: tuple[FreeInterval, ...]) -> None:
        if new:
            rows = [
                {
                    "pool": pool,
                    "first": key(free.span.first),
                    "last": key(free.span.last),
                    "offered": free.offered,
                }
                for free in new
            ]
            self._guarded(insert(FREE_RANGES), rows)

    def _guarded(self, statement: Any, rows: Any = None) -> None:
        try:
            self._connection.execute(statement, rows)
        except IntegrityError as exc:
            raise RetryTransaction("another transaction wrote the same range") from exc

    def _one(self, rows: Prepared, **values: str) -> Any:
        return rows.first(self._connection, values)


def _divided(rest: Interval, waited: bool) -> tuple[FreeInterval, ...]:
    """Return what is left of an offered range: two ranges if a transaction waited for it."""
    if rest.first > rest.last:
        return ()
    if not waited or rest.last - rest.first < 2 * PART:
        return (FreeInterval(rest, True),)
    lower, upper = (
        Interval(rest.first, rest.first + PART - 1),
        Interval(rest.first + PART, rest.last),
    )
    return FreeInterval(lower, True), FreeInterval(upper, True)


def _exactly(pool: str, free: FreeInterval) -> dict[str, str]:
    return {
        "of_pool": pool,
        "at_first": key(free.span.first),
        "at_last": key(free.span.last),
    }


def _free(row: Any) -> FreeInterval:
    return FreeInterval(Interval(int(row.first, 16), int(row.last, 16)), bool(row.offered))


def _outside(whole: Interval, former: Interval) -> tuple[Interval, ...]:
    """Return the ids of *whole* that the pool did not have before."""
    parts = (
        Interval(whole.first, min(whole.last, former.first - 1)),
        Interval(max(whole.first, former.last + 1), whole.last),
    )
    return tuple(part for part in parts if part.first <= part.last)


def _within(spans: Iterable[Interval], whole: Interval) -> tuple[Interval, ...]:
    cut = (Interval(max(each.first, whole.first), min(each.last, whole.last)) for each in spans)
    return tuple(each for each in cut if each.first <= each.last)
