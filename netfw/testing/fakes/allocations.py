"""Stores of segment numbers and of addresses in memory, with transactions as a database has them.

Of two transactions that are open at once one gets a number, the other another one, or a
``Conflict``; what a transaction took is free again when it fails.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from attrs import frozen

from netfw.drivers.server.type_driver import Pool, Range
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import SubnetId
from netfw.testing.fakes.number_pool import Entries, NumberPool, Span


@frozen
class AllocationEntries:
    """An ``AllocationStore`` of one transaction."""

    entries: Entries[Pool]
    ranges: tuple[Range, ...]

    def acquire(self, pool: Pool, number: int) -> bool:
        """Take *number*; return false if it is taken."""
        return self.entries.acquire(pool, number)

    def acquire_any(self, pool: Pool) -> int | None:
        """Take any free number of the pool's ranges."""
        spans = [(offered.first, offered.last) for offered in self.ranges if offered.pool == pool]
        return self.entries.acquire_any(pool, spans)

    def release(self, pool: Pool, number: int) -> None:
        """Free *number*."""
        self.entries.release(pool, number)


class MemoryAllocations:
    """The numbers of segments; requests without a number get one of *ranges*."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges = tuple(ranges)
        self._pool: NumberPool[Pool] = NumberPool()

    @contextmanager
    def transaction(self) -> Iterator[AllocationEntries]:
        """Open a store; its changes are committed when the block ends, unless it raises."""
        with self._pool.transaction() as entries:
            yield AllocationEntries(entries, self._ranges)

    def taken(self) -> frozenset[tuple[Pool, int]]:
        """Return the taken numbers."""
        by_pool = self._pool.intervals.items()
        return frozenset((pool, number) for pool, numbers in by_pool for number in numbers)


@frozen
class AddressEntries:
    """An ``AddressStore`` of one transaction."""

    entries: Entries[SubnetId]

    def acquire(self, subnet: SubnetId, address: IpAddress) -> bool:
        """Take *address*; return false if it is taken."""
        return self.entries.acquire(subnet, int(address))

    def acquire_any(self, subnet: Subnet) -> IpAddress | None:
        """Take any free address of the subnet's pools."""
        pools: list[Span] = [(int(p.start), int(p.end)) for p in subnet.allocation_pools]
        number = self.entries.acquire_any(subnet.id, pools)
        return None if number is None else type(subnet.cidr.network_address)(number)

    def release(self, subnet: SubnetId, address: IpAddress) -> None:
        """Free *address*."""
        self.entries.release(subnet, int(address))

    @property
    def calls(self) -> int:
        """The number of requests in this transaction."""
        return self.entries.calls


class MemoryAddresses:
    """The addresses of subnets."""

    def __init__(self) -> None:
        self._pool: NumberPool[SubnetId] = NumberPool()

    @contextmanager
    def transaction(self) -> Iterator[AddressEntries]:
        """Open a store; its changes are committed when the block ends, unless it raises."""
        with self._pool.transaction() as entries:
            yield AddressEntries(entries)

    def taken(self, subnet: Subnet) -> frozenset[IpAddress]:
        """Return the taken addresses of *subnet*."""
        kind = ipaddress.IPv4Address if subnet.ip_version == 4 else ipaddress.IPv6Address
        return frozenset(kind(number) for number in self._pool.taken(subnet.id))

    def define(self, subnet: Subnet) -> None:
        """Ignore a new or changed subnet: its pools come with every request."""

    def drop(self, subnet: SubnetId) -> None:
        """Drop a deleted subnet with its taken addresses."""
        self._pool.intervals.pop(subnet, None)
