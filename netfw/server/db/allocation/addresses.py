"""The addresses of subnets: which are taken, in the transaction of the caller."""

from __future__ import annotations

from typing import Final

from netfw.model.address import IpAddress, IpNetwork
from netfw.model.ids import SubnetId
from netfw.model.subnet import Subnet
from netfw.server.db.allocation.free_ranges import Ranges
from netfw.server.db.allocation.intervals import Interval

EVERYTHING: Final = Interval(0, 2**128 - 1)


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
        self._ranges.define(pool, EVERYTHING, ())
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
