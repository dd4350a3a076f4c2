"""Free prefixes of subnet pools: allocation and release.

An allocation reads one free prefix and writes at most one for each bit of an address, however many
subnets there are.  The caller has locked the pool: of two transactions one waits, and gets
another prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.model.subnet_pool import SubnetPool
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import SubnetPoolId
from netfw.server.db.allocation.free_ranges import key
from netfw.server.db.allocation.prefix_arithmetic import buddy, first_part, remove_part
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
SELECT_AT_OR_BELOW: Final = Prepared(
    _OF_POOL.where(_FREE.first <= bindparam("lowest"))
    .order_by(_FREE.first.desc())
    .limit(1)
    .with_for_update()
)
"""Free prefixes are disjoint, so that no other one can contain an address."""
DELETE: Final = Prepared(
    delete(FREE_PREFIXES).where(
        _FREE.subnet_pool_id == bindparam("of_pool"),
        _FREE.prefixlen == bindparam("length"),
        _FREE.first == bindparam("at_first"),
    )
)


class FreePrefixes:
    """The free prefixes of subnet pools, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def define(self, pool: SubnetPool) -> None:
        """Make all prefixes of a new *pool* free."""
        self._insert(pool.id, pool.prefixes)

    def acquire(self, pool: SubnetPoolId, prefix: IpNetwork) -> bool:
        """Allocate *prefix*, or take it out of the pool; return false if it is not entirely free.

        What is entirely free is one free prefix, or a part of one.
        """
        values = {"of_pool": str(pool), "lowest": _first(prefix)}
        row = SELECT_AT_OR_BELOW.first(self._connection, values)
        free = None if row is None else _prefix(type(prefix), row)
        if free is None or not prefix.subnet_of(free):  # type: ignore[arg-type]
            return False
        self._take(pool, free, prefix)
        return True

    def acquire_any(self, pool: SubnetPool, length: int) -> IpNetwork | None:
        """Allocate the lowest prefix of *length* in one of the smallest that have room for it."""
        values = {"of_pool": str(pool.id), "longest": length}
        row = SELECT_SMALLEST.first(self._connection, values)
        if row is None:
            return None
        free = _prefix(type(pool.prefixes[0]), row)
        prefix = first_part(free, length)
        self._take(pool.id, free, prefix)
        return prefix

    def release(self, pool: SubnetPoolId, prefix: IpNetwork) -> None:
        """Release *prefix*, which was allocated, or is new in the pool."""
        while prefix.prefixlen and self._delete(pool, buddy(prefix)):
            prefix = prefix.supernet()
        self._insert(pool, (prefix,))

    def _take(self, pool: SubnetPoolId, free: IpNetwork, part: IpNetwork) -> None:
        """Replace *free* by what is left of it without *part*."""
        if not self._delete(pool, free):
            raise RetryTransaction(f"free prefixes of subnet pool {pool} changed meanwhile")
        self._insert(pool, remove_part(free, part))

    def _delete(self, pool: SubnetPoolId, prefix: IpNetwork) -> bool:
        """Delete a free prefix; return whether it was one."""
        values = {"of_pool": str(pool), "length": prefix.prefixlen, "at_first": _first(prefix)}
        return DELETE.count(self._connection, values) == 1

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


def _prefix(kind: type[IpNetwork], row: Any) -> IpNetwork:
    return kind((int(row.first, 16), int(row.prefixlen)))
