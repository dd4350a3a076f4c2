from __future__ import annotations

from collections.abc import Iterable

from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import DelAddress
from netfw.linux.ip.plan import plan_addresses
from netfw.linux.ip.values import Address


def converge_addresses(
    network: NetlinkClient, device: str, wanted: Iterable[Address]
) -> tuple[Address, ...]:
    """Make the permanent addresses of *device* equal to *wanted*; return those removed."""
    done = network.apply(plan_addresses(tuple(wanted), network.addresses(device))).done
    return tuple(operation.address for operation in done if isinstance(operation, DelAddress))
