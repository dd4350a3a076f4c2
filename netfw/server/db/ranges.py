"""Pools of numbers, as rows of what is free.

However large or full a pool is, taking and giving back touch one range and its neighbours.  A row
is locked before anything is decided by it, so of two transactions one gets a number and the other
waits, and gets another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.server.db.columns import NUMBER_LENGTH
from netfw.server.db.failure import Overtaken
from netfw.server.db.schema import FREE, OFFERS, POOLS
from netfw.server.db.spans import Free, Span, divided, joined, without

RANGE: Final[tuple[Column[Any], ...]] = (FREE.c.first, FREE.c.last, FREE.c.offered)


def key(number: int) -> str:
    """*number* as text that sorts as numbers do."""
    return f"{number:0{NUMBER_LENGTH}x}"


class Ranges:
    """Numbers of pools, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def define(self, pool: str, whole: Span, offers: Iterable[Span]) -> bool:
        """Have *pool* be of the numbers *whole*, of which *offers* are for anybody.

        What is taken stays taken, within *offers* or not.  Numbers outside of *whole* are gone.
        Returns whether that is a change.
        """
        wanted = tuple(joined(offers))
        bounds = select(POOLS.c.lowest, POOLS.c.highest).where(POOLS.c.pool == pool)
        known = self._one(bounds, lock=True)
        if known is None:
            self._create(pool, whole)
            free = [whole]
        else:
            former = Span(int(known.lowest, 16), int(known.highest, 16))
            if former == whole and self._offers(pool) == wanted:
                return False
            free = [each.span for each in self._all(pool)]
            free += _outside(whole, former)
            self._forget(pool, former, whole)
        self._write(pool, divided(_within(free, whole), wanted), wanted)
        return True

    def drop(self, pool: str) -> None:
        """Forget *pool*; a second time is harmless."""
        for table in (FREE, OFFERS, POOLS):
            self._connection.execute(delete(table).where(table.c.pool == pool))

    def pools(self, prefix: str) -> tuple[str, ...]:
        """The pools whose names begin with *prefix*."""
        rows = select(POOLS.c.pool).where(POOLS.c.pool.startswith(prefix, autoescape=True))
        return tuple(self._connection.execute(rows.order_by(POOLS.c.pool)).scalars())

    def known(self, pool: str) -> bool:
        """Whether *pool* was defined."""
        return self._one(select(POOLS.c.pool).where(POOLS.c.pool == pool)) is not None

    def take(self, pool: str, number: int) -> bool:
        """Take *number*; false when it is taken, or there is no such pool."""
        while True:
            found = self._holding(pool, number)
            if found is None:
                return False
            locked = self._one(self._row(pool, found.span.first), lock=True)
            if locked is None or _free(locked) != found:
                continue  # somebody took of it meanwhile: look again
            self._replace(pool, found, without(found, number))
            return True

    def take_any(self, pool: str, count: int = 1) -> tuple[int, ...]:
        """Take *count* numbers that are offered; fewer when there are no more."""
        taken: list[int] = []
        while len(taken) < count:
            free = self._lowest(pool)
            if free is None:
                break
            first, last = free.span.first, free.span.last
            number = min(count - len(taken), last - first + 1)  # more than len() can say in IPv6
            rest = Span(first + number, last)
            left = (Free(rest, True),) if rest.first <= rest.last else ()
            self._replace(pool, free, left)
            taken += range(first, first + number)
        return tuple(taken)

    def give_back(self, pool: str, number: int) -> None:
        """Free *number*.  What is free already stays so, and what no pool has is ignored."""
        whole = self._one(select(POOLS.c.lowest, POOLS.c.highest).where(POOLS.c.pool == pool))
        if whole is None or not whole.lowest <= key(number) <= whole.highest:
            return
        offered = self._offered(pool, number)
        left = self._neighbour(pool, FREE.c.last == key(number - 1), offered) if number else None
        right = self._neighbour(pool, FREE.c.first == key(number + 1), offered)
        if self._holding(pool, number) is not None:
            return
        first = number if left is None else left.span.first
        last = number if right is None else right.span.last
        if right is not None:
            self._delete(pool, right)
        merged = Free(Span(first, last), offered)
        if left is None:
            self._insert(pool, (merged,))
        else:
            self._replace(pool, left, (merged,))

    def _create(self, pool: str, whole: Span) -> None:
        row = {"pool": pool, "lowest": key(whole.first), "highest": key(whole.last)}
        self._guarded(insert(POOLS).values(row))

    def _forget(self, pool: str, former: Span, whole: Span) -> None:
        self._connection.execute(delete(FREE).where(FREE.c.pool == pool))
        self._connection.execute(delete(OFFERS).where(OFFERS.c.pool == pool))
        if former != whole:
            bounds = {"lowest": key(whole.first), "highest": key(whole.last)}
            self._connection.execute(update(POOLS).where(POOLS.c.pool == pool).values(bounds))

    def _write(self, pool: str, free: tuple[Free, ...], offers: tuple[Span, ...]) -> None:
        if offers:
            rows = [{"pool": pool, "first": key(o.first), "last": key(o.last)} for o in offers]
            self._guarded(insert(OFFERS), rows)
        self._insert(pool, free)

    def _offers(self, pool: str) -> tuple[Span, ...]:
        rows = select(OFFERS.c.first, OFFERS.c.last).where(OFFERS.c.pool == pool)
        ordered = self._connection.execute(rows.order_by(OFFERS.c.first))
        return tuple(Span(int(row.first, 16), int(row.last, 16)) for row in ordered)

    def _all(self, pool: str) -> list[Free]:
        """Everything that is free, so that it can be written anew; nobody takes of it meanwhile."""
        rows = select(*RANGE).where(FREE.c.pool == pool)
        return [_free(row) for row in self._connection.execute(rows.with_for_update())]

    def _lowest(self, pool: str) -> Free | None:
        """A range that is offered, and ours until the end of the transaction."""
        rows = (
            select(*RANGE)
            .where(FREE.c.pool == pool, FREE.c.offered.is_(True))
            .order_by(FREE.c.first)
            .limit(1)
        )
        row = self._connection.execute(rows.with_for_update(skip_locked=True)).first()
        while row is None:
            # All are in others' hands: they may leave something, or undo what they did.
            row = self._connection.execute(rows.with_for_update()).first()
            if row is None and self._connection.execute(rows).first() is None:
                return None
        return _free(row)

    def _holding(self, pool: str, number: int) -> Free | None:
        """The range that *number* is in, as it is now; not locked."""
        row = self._one(
            select(*RANGE)
            .where(FREE.c.pool == pool, FREE.c.first <= key(number))
            .order_by(FREE.c.first.desc())
            .limit(1)
        )
        return _free(row) if row is not None and row.last >= key(number) else None

    def _neighbour(self, pool: str, where: ColumnElement[bool], offered: bool) -> Free | None:
        rows = select(*RANGE).where(FREE.c.pool == pool, where, FREE.c.offered.is_(offered))
        row = self._one(rows, lock=True)
        return None if row is None else _free(row)

    def _offered(self, pool: str, number: int) -> bool:
        rows = select(OFFERS.c.first).where(
            OFFERS.c.pool == pool, OFFERS.c.first <= key(number), OFFERS.c.last >= key(number)
        )
        return self._one(rows) is not None

    def _row(self, pool: str, first: int) -> Select[Any]:
        return select(*RANGE).where(FREE.c.pool == pool, FREE.c.first == key(first))

    def _replace(self, pool: str, old: Free, new: tuple[Free, ...]) -> None:
        """Write *new* in place of *old*, which is locked."""
        if not new:
            self._delete(pool, old)
            return
        change = (
            update(FREE)
            .where(FREE.c.pool == pool, FREE.c.first == key(old.span.first))
            .where(FREE.c.last == key(old.span.last))
            .values(first=key(new[0].span.first), last=key(new[0].span.last))
        )
        if self._connection.execute(change).rowcount != 1:
            raise Overtaken(f"a range of {pool} changed meanwhile")
        self._insert(pool, new[1:])

    def _delete(self, pool: str, old: Free) -> None:
        gone = delete(FREE).where(
            FREE.c.pool == pool,
            FREE.c.first == key(old.span.first),
            FREE.c.last == key(old.span.last),
        )
        if self._connection.execute(gone).rowcount != 1:
            raise Overtaken(f"a range of {pool} changed meanwhile")

    def _insert(self, pool: str, new: tuple[Free, ...]) -> None:
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
            self._guarded(insert(FREE), rows)

    def _guarded(self, statement: Any, rows: Any = None) -> None:
        try:
            self._connection.execute(statement, rows)
        except IntegrityError as exc:
            raise Overtaken("another transaction wrote the same range") from exc

    def _one(self, rows: Select[Any], *, lock: bool = False) -> Any:
        return self._connection.execute(rows.with_for_update() if lock else rows).first()


def _free(row: Any) -> Free:
    return Free(Span(int(row.first, 16), int(row.last, 16)), bool(row.offered))


def _outside(whole: Span, former: Span) -> tuple[Span, ...]:
    """Numbers of *whole* that the pool did not have before."""
    parts = (
        Span(whole.first, min(whole.last, former.first - 1)),
        Span(max(whole.first, former.last + 1), whole.last),
    )
    return tuple(part for part in parts if part.first <= part.last)


def _within(spans: Iterable[Span], whole: Span) -> tuple[Span, ...]:
    cut = (Span(max(each.first, whole.first), min(each.last, whole.last)) for each in spans)
    return tuple(each for each in cut if each.first <= each.last)
