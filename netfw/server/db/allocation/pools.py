"""Pools: IP addresses of subnets, ids of segments and MAC addresses of hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.drivers.type_driver import Pool, Range
from netfw.model.address import IpAddress, IpNetwork, Mac
from netfw.model.ids import SubnetId
from netfw.model.segment import NetworkType
from netfw.model.subnet import Subnet
from netfw.server.db.allocation.free_ranges import Ranges
from netfw.server.db.allocation.intervals import Interval
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.schema.tables import HOST_MACS

ALL_ADDRESSES: Final = Interval(0, 2**128 - 1)


class Addresses:
    """An ``AddressStore`` whose pools are free ranges."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def define(self, subnet: Subnet) -> bool:
        """Make or change the pools of *subnet*; what is taken stays so.

        To be called when a subnet is made and when its pools change.  Returns whether they do.
        """
        block = subnet.cidr
        whole = Interval(int(block.network_address), int(block.broadcast_address))
        pools = (Interval(int(pool.start), int(pool.end)) for pool in subnet.allocation_pools)
        return self._ranges.define(_pool(subnet.id), whole, pools)

    def drop(self, subnet: SubnetId) -> None:
        """Forget everything about *subnet*."""
        self._ranges.drop(_pool(subnet))

    def acquire(self, subnet: SubnetId, address: IpAddress) -> bool:
        """Take *address*, inside or outside the pools; false when it is taken or not of the block.

        Of a subnet that nobody defined, any address can be.
        """
        pool = _pool(subnet)
        if self._ranges.acquire(pool, int(address)):
            return True
        if self._ranges.known(pool):
            return False
        self._ranges.define(pool, ALL_ADDRESSES, ())
        return self._ranges.acquire(pool, int(address))

    def acquire_any(self, subnet: Subnet) -> IpAddress | None:
        """Take the lowest free address of the pools that nobody else is about to take."""
        taken = self.take_some(subnet, 1)
        return taken[0] if taken else None

    def take_some(self, subnet: Subnet, count: int) -> tuple[IpAddress, ...]:
        """Take *count* addresses of the pools; fewer when no more are left."""
        pool = _pool(subnet.id)
        numbers = self._ranges.acquire_any(pool, count)
        if not numbers and self.define(subnet):
            numbers = self._ranges.acquire_any(pool, count)
        return tuple(_address(subnet.cidr, number) for number in numbers)

    def release(self, subnet: SubnetId, address: IpAddress) -> None:
        """Free *address*.  What is free already stays so."""
        self._ranges.release(_pool(subnet), int(address))


def _pool(subnet: SubnetId) -> str:
    return f"subnet/{subnet}"


def _address(block: IpNetwork, number: int) -> IpAddress:
    return type(block.network_address)(number)


ALL_SEGMENT_IDS: Final = Interval(0, 2**32 - 1)


class SegmentIdStore:
    """An ``AllocationStore`` whose pools are free ranges."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def define(self, type: NetworkType, ranges: Iterable[Range]) -> None:
        """Have the pools of *type* offer *ranges*, and no others.  What is taken stays so."""
        offers: dict[str, list[Interval]] = {
            name: [] for name in self._ranges.pools(f"segment/{type}/")
        }
        for each in ranges:
            offers.setdefault(_name(each.pool), []).append(Interval(each.first, each.last))
        for name in sorted(offers):  # all processes lock them in one order
            self._ranges.define(name, ALL_SEGMENT_IDS, offers[name])

    def acquire(self, pool: Pool, number: int) -> bool:
        """Take *number*, inside or outside any range; false when it is taken."""
        name = _name(pool)
        if self._ranges.acquire(name, number):
            return True
        if self._ranges.known(name):
            return False
        self._ranges.define(name, ALL_SEGMENT_IDS, ())
        return self._ranges.acquire(name, number)

    def acquire_any(self, pool: Pool) -> int | None:
        """Take any free number of the pool's ranges; ``None`` when there is none."""
        taken = self._ranges.acquire_any(_name(pool))
        return taken[0] if taken else None

    def release(self, pool: Pool, number: int) -> None:
        """Free *number*.  What is free already stays so."""
        self._ranges.release(_name(pool), number)


def _name(pool: Pool) -> str:
    return f"segment/{pool.type}/{pool.physical_network or ''}"


class HostMacs:
    """Which host has which; no two have the same."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, host: str) -> Mac | None:
        """That of *host*; ``None``: it has none yet."""
        rows = select(HOST_MACS.c.mac).where(HOST_MACS.c.host == host)
        found = self._connection.execute(rows).scalar()
        return None if found is None else Mac(found)

    def assign(self, host: str, mac: Mac) -> None:
        """Have *host* have *mac*.

        When another host has it, or the host got one meanwhile, the transaction is tried again
        from its beginning: choose by chance.
        """
        try:
            self._connection.execute(insert(HOST_MACS).values(host=host, mac=str(mac)))
        except IntegrityError as exc:
            raise RetryTransaction(f"{mac} is taken, or {host} has a MAC address by now") from exc
