"""Completion and validation of subnets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from netfw.drivers.server.query import Body
from netfw.drivers.support.unusable_addresses import gateway_problem, prefix_problem
from netfw.errors import InvalidInput, merge_invalid
from netfw.errors.networks import (
    DNSNameServersExhausted,
    GatewayConflictWithAllocationPools,
    HostRoutesExhausted,
    InvalidAllocationPool,
    InvalidSubnetServiceType,
    OutOfBoundsAllocationPool,
    OverlappingAllocationPools,
)
from netfw.errors.requests import BadRequest
from netfw.model.subnet import PREFIX_DELEGATION, PROVISIONAL_PREFIX, AllocationPool, Subnet
from netfw.model.values.address import IpAddress, IpNetwork, as_address
from netfw.model.values.validation import InvalidValue, Problem
from netfw.model.wire import Json
from netfw.model.wire.scalars import CIDR
from netfw.server.core.settings import Settings

SERVICE = re.compile("[a-z_]+:.*")
"""Pattern of the port owners for which a subnet can be reserved."""


def completed(body: Body) -> dict[str, Json]:
    """Return *body* of a new subnet with the gateway and pools that it leaves to the server.

    :raises InvalidInput: it has no prefix.
    :raises Conflict: the gateway is in a pool.
    """
    if body.get("subnetpool_id") == PREFIX_DELEGATION:
        return _completed_delegated(body)
    return _with_pools({**body}, _block(body.get("cidr")))


def _completed_delegated(body: Body) -> dict[str, Json]:
    """Return *body* of a new subnet whose prefix a provider is to delegate."""
    fixed = ("cidr", "gateway_ip", "allocation_pools")
    provisional: dict[str, Json] = {
        "cidr": str(PROVISIONAL_PREFIX),
        "gateway_ip": str(PROVISIONAL_PREFIX[1]),
    }
    text = "the server decides it when a prefix is delegated; leave it out"
    given = {name for name in fixed if body.get(name)}
    if problems := {name: text for name in given if body[name] != provisional.get(name)}:
        raise InvalidInput(problems)
    found = {name: value for name, value in body.items() if name not in fixed}
    return _with_pools({**found, **provisional}, PROVISIONAL_PREFIX)


def _with_pools(found: dict[str, Json], block: IpNetwork) -> dict[str, Json]:
    if "gateway_ip" not in found:
        found["gateway_ip"] = _text(default_gateway(block))
    if found.get("allocation_pools") is None:
        gateway = _address(found["gateway_ip"])
        found["allocation_pools"] = [
            {"start": str(pool.start), "end": str(pool.end)}
            for pool in default_allocation_pools(block, gateway)
        ]
    check_pools(found)
    return found


def check_pools(body: Body) -> None:
    """Refuse allocation pools that are not within the prefix, overlap, or have the gateway.

    :raises InvalidInput: a pool is none of the prefix.
    :raises Conflict: two pools overlap, or the gateway could be allocated to a port.
    """
    raw, block = body.get("allocation_pools"), _block(body.get("cidr"))
    pools = [_pool(at, each, block) for at, each in enumerate(raw if isinstance(raw, list) else ())]
    ordered = sorted(pools, key=lambda pool: int(pool.start))
    for pool, after in pairwise(ordered):
        if int(after.start) <= int(pool.end):
            raise OverlappingAllocationPools(
                f"allocation pools {pool.start} to {pool.end} and {after.start} to {after.end} "
                f"of {block} overlap"
            )
    gateway = _address(body.get("gateway_ip"))
    for pool in pools:
        if gateway is not None and gateway in pool:
            raise GatewayConflictWithAllocationPools(
                f"gateway {gateway} is in allocation pool {pool.start} to {pool.end}; leave it out "
                "of it"
            )


def _pool(at: int, raw: Any, block: IpNetwork) -> AllocationPool:
    """Return one pool of a body.

    :raises InvalidAllocationPool: it is no range of addresses of one family.
    :raises OutOfBoundsAllocationPool: it is not within *block*.
    """
    path = f"allocation_pools[{at}]"
    try:
        pool = AllocationPool(start=raw["start"], end=raw["end"])
    except InvalidValue as exc:
        raise InvalidAllocationPool(dict(exc.problems)).within(path) from exc
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidAllocationPool({path: f"is no range of addresses: {exc}"}) from exc
    if pool.start.version != block.version:
        text = f"{pool.start} to {pool.end} is of another family than {block}"
        raise InvalidAllocationPool({path: text})
    if pool.start not in block or pool.end not in block:
        text = f"{pool.start} to {pool.end} is not within {block}"
        raise OutOfBoundsAllocationPool({path: text})
    return pool


def default_gateway(block: IpNetwork) -> IpAddress | None:
    """Return the default gateway of a subnet.

    In IPv6 this is the address of all routers of the subnet (RFC 4291, 2.6.1), which is its first.
    A prefix of one address belongs to a host.
    """
    bits = block.max_prefixlen - block.prefixlen
    if bits == 0:
        return None
    return block.network_address + (1 if block.version == 4 and bits > 1 else 0)


def default_allocation_pools(
    block: IpNetwork, gateway: IpAddress | None
) -> tuple[AllocationPool, ...]:
    """Return the host addresses of *block* without the gateway."""
    first, last = int(block.network_address), int(block.broadcast_address)
    if block.max_prefixlen - block.prefixlen > 1:
        first, last = first + 1, last - (1 if block.version == 4 else 0)
    spans = [(first, last)]
    if gateway is not None and gateway in block:
        spans = [(first, int(gateway) - 1), (max(first, int(gateway) + 1), last)]
        if int(gateway) < first:
            spans = [(first, last)]
    address = type(block.network_address)
    return tuple(
        AllocationPool(start=address(low), end=address(high)) for low, high in spans if low <= high
    )


def check_subnet(after: Subnet, settings: Settings, before: Subnet | None = None) -> None:
    """Refuse what the model permits but no subnet can be; unchanged values of *before* may stay.

    :raises InvalidInput: naming each invalid attribute.
    """
    former = set() if before is None else {str(each) for each in _errors(before, settings)}
    if errors := [each for each in _errors(after, settings) if str(each) not in former]:
        raise merge_invalid(errors)


def check_overlap(new: Subnet, others: Iterable[Subnet]) -> None:
    """Refuse a prefix that overlaps with another one of its network; provisional ones may.

    :raises InvalidInput: naming the other one.
    """
    for other in () if new.provisional else others:
        same_family = other.ip_version == new.ip_version and not other.provisional
        if same_family and other.cidr.overlaps(new.cidr):
            # Clients match these words, and try another prefix.
            text = f"{new.cidr} overlaps with another subnet of its network: {other.cidr} of "
            raise InvalidInput({"cidr": f"{text}subnet {other.id}"})


def _errors(subnet: Subnet, settings: Settings) -> Iterator[InvalidInput]:
    for path, text in _problems(subnet):
        yield InvalidInput({path: text})
    servers, most = len(subnet.dns_nameservers), settings.max_dns_nameservers
    if servers > most:
        yield DNSNameServersExhausted({"dns_nameservers": f"{servers}, and {most} are allowed"})
    routes, most = len(subnet.host_routes), settings.max_subnet_host_routes
    if routes > most:
        yield HostRoutesExhausted({"host_routes": f"{routes}, and {most} are allowed"})
    for at, service in enumerate(subnet.service_types):
        if not SERVICE.fullmatch(service):
            text = f"{service!r} is no device owner, such as compute:nova"
            yield InvalidSubnetServiceType({f"service_types[{at}]": text})


def _problems(subnet: Subnet) -> Iterator[Problem]:
    block = subnet.cidr
    if (unusable := prefix_problem(block)) is not None:
        yield "cidr", unusable
    gateway = None if subnet.provisional else subnet.gateway
    if gateway is not None and (no_router := gateway_problem(gateway, block)) is not None:
        yield "gateway_ip", no_router
    if subnet.enable_dhcp and block.max_prefixlen - block.prefixlen < 2:
        yield "enable_dhcp", f"{block} has no room for a DHCP server; set it to false"
    if subnet.segment_id is not None:
        yield "segment_id", "subnets of single segments are not supported"
    for name, mode in _modes(subnet).items():
        if mode is not None and not subnet.enable_dhcp:
            yield name, "cannot be set while enable_dhcp is false"


def _modes(subnet: Subnet) -> Mapping[str, Any]:
    return {"ipv6_ra_mode": subnet.ipv6_ra_mode, "ipv6_address_mode": subnet.ipv6_address_mode}


def _block(text: Json) -> IpNetwork:
    if not text:
        raise BadRequest({"cidr": "is required"})
    try:
        return CIDR.parse(text)
    except ValueError as exc:
        raise InvalidInput({"cidr": str(exc)}) from exc


def _address(text: Json) -> IpAddress | None:
    """Parse *text* as an address; an invalid one is refused when the subnet is built."""
    try:
        return as_address(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _text(address: IpAddress | None) -> str | None:
    return None if address is None else str(address)
