"""Free prefixes of subnet pools: allocation and release.

An allocation touches one free prefix and writes at most one for each bit of an address, however
many subnets there are.  The caller has locked the pool: of two transactions one waits, and gets
another prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select
from sqlalchemy.exc import IntegrityError

from netfw.model.subnet_pool import SubnetPool
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import SubnetPoolId
from netfw.server.db.allocation.free_ranges import key
from netfw.server.db.allocation.prefix_blocks import (
    buddies,
    containing,
    first_part,
    merge,
    remove_part,
    subtract,
)
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.subnet_pool_tables import FREE_PREFIXES

_FREE: Final = FREE_PREFIXES.c
_OF_POOL: Final = select(_FREE.prefixlen, _FREE.first).where(
    _FREE.subnet_pool_id == bindparam("of_pool")
)
_OTHERS: Final = FREE_PREFIXES.alias("others").c
_LONGEST: Final = (
    select(func.max(_OTHERS.prefixlen))
    .where(
        _OTHERS.subnet_pool_id == bindparam("of_pool"), _OTHERS.prefixlen <= bindparam("longest")
    )
    .scalar_subquery()
)
SELECT_SMALLEST: Final = Prepared(
    _OF_POOL.where(_FREE.prefixlen == _LONGEST).order_by(_FREE.first).limit(1).with_for_update()
)
"""Both parts are found by the primary key, however many free prefixes there are."""
SELECT_STARTING_AT: Final = _OF_POOL.where(
    _FREE.first.in_(bindparam("firsts", expanding=True))
).with_for_update()
SELECT_BETWEEN: Final = _OF_POOL.where(
    _FREE.first >= bindparam("lowest"), _FREE.first <= bindparam("highest")
).with_for_update()
AT_ONCE: Final = 200
"""Prefixes in one statement: databases limit the number of values."""


class FreePrefixes:
    """The free prefixes of subnet pools, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def define(self, pool: SubnetPool) -> None:
        """Make all prefixes of a new *pool* free."""
        self._insert(pool.id, pool.prefixes)

    def acquire(self, pool: SubnetPoolId, prefix: IpNetwork) -> bool:
        """Allocate *prefix*; return false if it is not entirely free."""
        candidates = tuple(containing(prefix))
        for free in self._starting_at(pool, candidates):
            self._delete(pool, [free])
            self._insert(pool, () if free == prefix else remove_part(free, prefix))
            return True
        return False

    def acquire_any(self, pool: SubnetPool, length: int) -> IpNetwork | None:
        """Allocate the lowest prefix of *length* in one of the smallest that have room for it."""
        values = {"of_pool": str(pool.id), "longest": length}
        row = SELECT_SMALLEST.first(self._connection, values)
        if row is None:
            return None
        free = _prefix(type(pool.prefixes[0]), row)
        prefix = first_part(free, length)
        self._delete(pool.id, [free])
        self._insert(pool.id, () if free == prefix else remove_part(free, prefix))
        return prefix

    def release(self, pool: SubnetPoolId, prefix: IpNetwork) -> None:
        """Release *prefix*, which was allocated, or is new in the pool."""
        free = frozenset(self._starting_at(pool, tuple(buddies(prefix))))
        merged, joined = merge(prefix, free)
        self._delete(pool, joined)
        self._insert(pool, (merged,))

    def remove(self, pool: SubnetPoolId, prefix: IpNetwork) -> bool:
        """Remove *prefix* from the pool; return false if a part of it is allocated."""
        if self.acquire(pool, prefix):
            return True
        rows = self._connection.execute(
            SELECT_BETWEEN,
            {
                "of_pool": str(pool),
                "lowest": key(int(prefix.network_address)),
                "highest": key(int(prefix.broadcast_address)),
            },
        )
        inside = [_prefix(type(prefix), row) for row in rows]
        if subtract((prefix,), inside):
            return False
        self._delete(pool, inside)
        return True

    def _starting_at(
        self, pool: SubnetPoolId, candidates: Sequence[IpNetwork]
    ) -> Iterable[IpNetwork]:
        """Return those of *candidates* that are free, by their first addresses."""
        if not candidates:
            return ()
        firsts = sorted({key(int(each.network_address)) for each in candidates})
        values = {"of_pool": str(pool), "firsts": firsts}
        rows = self._connection.execute(SELECT_STARTING_AT, values)
        kind = type(candidates[0])
        wanted = frozenset(candidates)
        return tuple(each for each in (_prefix(kind, row) for row in rows) if each in wanted)

    def _delete(self, pool: SubnetPoolId, prefixes: Sequence[IpNetwork]) -> None:
        for at in range(0, len(prefixes), AT_ONCE):
            part = prefixes[at : at + AT_ONCE]
            exact = or_(*(_is(each) for each in part))
            gone = delete(FREE_PREFIXES).where(_FREE.subnet_pool_id == str(pool), exact)
            if self._connection.execute(gone).rowcount != len(part):
                raise RetryTransaction(f"free prefixes of subnet pool {pool} changed meanwhile")

    def _insert(self, pool: SubnetPoolId, prefixes: Iterable[IpNetwork]) -> None:
        rows = [
            {"subnet_pool_id": str(pool), "prefixlen": each.prefixlen, "first": _first(each)}
            for each in prefixes
        ]
        if not rows:
            return
        try:
            self._connection.execute(insert(FREE_PREFIXES), rows)
        except IntegrityError as exc:
            raise RetryTransaction(f"free prefixes of subnet pool {pool} changed") from exc


def _first(prefix: IpNetwork) -> str:
    return key(int(prefix.network_address))


def _is(prefix: IpNetwork) -> Any:
    return and_(_FREE.prefixlen == prefix.prefixlen, _FREE.first == _first(prefix))


def _prefix(kind: type[IpNetwork], row: Any) -> IpNetwork:
    return kind((int(row.first, 16), int(row.prefixlen)))
