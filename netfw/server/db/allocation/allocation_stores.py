"""Pools: IP addresses of subnets, ids of segments and MAC addresses of hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.drivers.server.type_driver import Pool, Range
from netfw.model.segment import NetworkType
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, IpNetwork, Mac
from netfw.model.values.ids import SubnetId
from netfw.server.db.allocation.free_ranges import FreeRanges
from netfw.server.db.allocation.intervals import Interval
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.schema.tables import HOST_MACS

ALL_ADDRESSES: Final = Interval(0, 2**128 - 1)


class SubnetAddressStore:
    """An ``AddressStore`` over free ranges, in the transaction of the caller."""

    def __init__(self, ranges: FreeRanges) -> None:
        self._ranges = ranges

    def define(self, subnet: Subnet) -> bool:
        """Define the pools of *subnet*; allocated addresses stay allocated.

        To be called when a subnet is created and when its pools change.  Return whether they did.
        """
        block = subnet.cidr
        whole = Interval(int(block.network_address), int(block.broadcast_address))
        pools = (Interval(int(pool.start), int(pool.end)) for pool in subnet.allocation_pools)
        return self._ranges.define(_pool(subnet.id), whole, pools)

    def drop(self, subnet: SubnetId) -> None:
        """Delete the pools of *subnet*."""
        self._ranges.drop(_pool(subnet))

    def acquire(self, subnet: SubnetId, address: IpAddress) -> bool:
        """Allocate *address*, inside or outside the pools.

        Return false if it is allocated already or outside of the CIDR.  A subnet without
        definition accepts any address.
        """
        pool = _pool(subnet)
        if self._ranges.acquire(pool, int(address)):
            return True
        if self._ranges.known(pool):
            return False
        self._ranges.define(pool, ALL_ADDRESSES, ())
        return self._ranges.acquire(pool, int(address))

    def acquire_any(self, subnet: Subnet) -> IpAddress | None:
        """Allocate the lowest free address of the pools that no other transaction has locked."""
        taken = self.take_some(subnet, 1)
        return taken[0] if taken else None

    def take_some(self, subnet: Subnet, count: int) -> tuple[IpAddress, ...]:
        """Allocate *count* addresses of the pools; fewer if no more are free."""
        pool = _pool(subnet.id)
        numbers = self._ranges.acquire_any(pool, count)
        if not numbers and self.define(subnet):
            numbers = self._ranges.acquire_any(pool, count)
        return tuple(_address(subnet.cidr, number) for number in numbers)

    def release(self, subnet: SubnetId, address: IpAddress) -> None:
        """Release *address*.  Idempotent."""
        self._ranges.release(_pool(subnet), int(address))


def _pool(subnet: SubnetId) -> str:
    return f"subnet/{subnet}"


def _address(block: IpNetwork, number: int) -> IpAddress:
    return type(block.network_address)(number)


ALL_SEGMENT_IDS: Final = Interval(0, 2**32 - 1)


class SegmentIdStore:
    """An ``AllocationStore`` over free ranges, in the transaction of the caller."""

    def __init__(self, ranges: FreeRanges) -> None:
        self._ranges = ranges

    def define(self, type: NetworkType, ranges: Iterable[Range]) -> None:
        """Let the pools of *type* offer *ranges* only.  Allocated ids stay allocated."""
        offers: dict[str, list[Interval]] = {
            name: [] for name in self._ranges.pools(f"segment/{type}/")
        }
        for each in ranges:
            offers.setdefault(pool_name(each.pool), []).append(Interval(each.first, each.last))
        for name in sorted(offers):  # all processes lock pools in one order
            self._ranges.define(name, ALL_SEGMENT_IDS, offers[name])

    def lock(self, type: NetworkType) -> None:
        """Lock the definitions of the pools of *type* until the transaction ends."""
        self._ranges.lock_pools(f"segment/{type}/")

    def share(self, pool: Pool) -> None:
        """Keep the definition of *pool* until the transaction ends; others may do so as well."""
        self._ranges.share(pool_name(pool))

    def acquire(self, pool: Pool, number: int) -> bool:
        """Allocate *number*, inside or outside the ranges; return false if it is allocated."""
        name = pool_name(pool)
        if self._ranges.acquire(name, number):
            return True
        return self.create(pool) and self._ranges.acquire(name, number)

    def create(self, pool: Pool) -> bool:
        """Define *pool* without offers, unless it is defined; return whether it was not."""
        name = pool_name(pool)
        return not self._ranges.known(name) and self._ranges.define(name, ALL_SEGMENT_IDS, ())

    def acquire_any(self, pool: Pool) -> int | None:
        """Allocate a free id of the pool's ranges; return ``None`` if none is free."""
        taken = self._ranges.acquire_any(pool_name(pool))
        return taken[0] if taken else None

    def acquire_within(self, wanted: Range) -> int | None:
        """Allocate a free id of *wanted*, which the pool need not offer; ``None``: none is free."""
        span = Interval(wanted.first, wanted.last)
        return self._ranges.acquire_within(pool_name(wanted.pool), span)

    def release(self, pool: Pool, number: int) -> None:
        """Release *number*.  Idempotent."""
        self._ranges.release(pool_name(pool), number)


class ProjectSegmentIdStore:
    """An ``AllocationStore`` whose ids come from the ranges of one project only."""

    def __init__(self, store: SegmentIdStore, ranges: Iterable[Range]) -> None:
        self._store, self._ranges = store, tuple(ranges)

    def acquire(self, pool: Pool, number: int) -> bool:
        """Allocate *number*, inside or outside the ranges; return false if it is allocated."""
        return self._store.acquire(pool, number)

    def acquire_any(self, pool: Pool) -> int | None:
        """Allocate a free id of the project's ranges in *pool*; ``None``: none is free."""
        for each in self._ranges:
            number = self._store.acquire_within(each) if each.pool == pool else None
            if number is not None:
                return number
        return None

    def release(self, pool: Pool, number: int) -> None:
        """Release *number*.  Idempotent."""
        self._store.release(pool, number)


def pool_name(pool: Pool) -> str:
    """Return the name of *pool* in the tables."""
    return f"segment/{pool.type}/{pool.physical_network or ''}"


class HostMacPool:
    """The MAC address of each host for routed traffic; no two hosts have the same."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, host: str) -> Mac | None:
        """Return the MAC address of *host*, or ``None``."""
        rows = select(HOST_MACS.c.mac).where(HOST_MACS.c.host == host)
        found = self._connection.execute(rows).scalar()
        return None if found is None else Mac(found)

    def assigned(self, macs: Iterable[Mac]) -> frozenset[Mac]:
        """Return those of *macs* that hosts have."""
        rows = select(HOST_MACS.c.mac).where(HOST_MACS.c.mac.in_([str(mac) for mac in macs]))
        return frozenset(map(Mac, self._connection.execute(rows).scalars()))

    def assign(self, host: str, mac: Mac) -> None:
        """Assign *mac* to *host*.

        If another host has it, or the host got one meanwhile, the transaction is retried from its
        start: choose a random one.
        """
        try:
            self._connection.execute(insert(HOST_MACS).values(host=host, mac=str(mac)))
        except IntegrityError as exc:
            raise RetryTransaction(f"{mac} is taken, or {host} has a MAC address by now") from exc

    def release(self, host: str) -> None:
        """Release the MAC address of *host*.  Idempotent."""
        self._connection.execute(delete(HOST_MACS).where(HOST_MACS.c.host == host))
