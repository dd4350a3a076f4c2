"""Free prefixes of a pool, and operations on them.  Pure.

Free prefixes are disjoint, and each is as large as possible: its buddy, the other half of the
prefix that is one bit shorter, is not entirely free.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import summarize_address_range
from itertools import islice

from netfw.model.values.address import IpNetwork


def first_part(free: IpNetwork, length: int) -> IpNetwork:
    """Return the lowest prefix of *length* in *free*."""
    return type(free)((int(free.network_address), length))


def remove_part(free: IpNetwork, part: IpNetwork) -> tuple[IpNetwork, ...]:
    """Return what is left of *free* without *part*, which it contains."""
    return tuple(free.address_exclude(part))  # type: ignore[arg-type]


def buddy(prefix: IpNetwork) -> IpNetwork:
    """Return the other half of the prefix that is one bit shorter; the whole space has none."""
    one, other = prefix.supernet().subnets()
    return other if prefix == one else one


def subtract(whole: Iterable[IpNetwork], parts: Iterable[IpNetwork]) -> tuple[IpNetwork, ...]:
    """Return the addresses of *whole* that *parts* lack, in as few prefixes as possible.

    The prefixes of each are disjoint, and all are of one family.
    """
    left: list[IpNetwork] = []
    removed, at = sorted(parts), 0
    for one in sorted(whole):
        low, high = _bounds(one)
        while at < len(removed) and _bounds(removed[at])[1] < low:
            at += 1
        for part in islice(removed, at, None):
            first, last = _bounds(part)
            if first > high:
                break
            left += _summarize(one, low, first - 1)
            low = max(low, last + 1)
        left += _summarize(one, low, high)
    return tuple(left)


def _bounds(prefix: IpNetwork) -> tuple[int, int]:
    return int(prefix.network_address), int(prefix.broadcast_address)


def _summarize(like: IpNetwork, first: int, last: int) -> Iterable[IpNetwork]:
    if first > last:
        return ()
    address = type(like.network_address)
    return summarize_address_range(address(first), address(last))
