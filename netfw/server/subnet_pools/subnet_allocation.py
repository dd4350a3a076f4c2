"""Allocation of the prefixes of subnets from subnet pools, within the transaction of a subnet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from ipaddress import ip_address
from typing import Any, cast
from uuid import UUID

from netfw.drivers.server.query import Body, Query
from netfw.errors import InvalidInput, NotFound
from netfw.errors.requests import BadRequest
from netfw.errors.subnet_pools import NetworkAddressScopeAffinityError, SubnetAllocationError
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref
from netfw.model.subnet import PREFIX_DELEGATION, Subnet
from netfw.model.subnet_pool import SubnetPool
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import SubnetPoolId
from netfw.model.wire import Json
from netfw.model.wire.scalars import CIDR
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.subnet_pools.pool_validation import (
    Scopes,
    check_affinity,
    check_length,
    check_pool_quota,
    find_scope,
    pool_of,
)

POOL, DEFAULT, LENGTH = "subnetpool_id", "use_default_subnetpool", "prefixlen"


def allocate_prefix(unit: UnitOfWork, body: Body, others: Sequence[Subnet]) -> dict[str, Json]:
    """Return *body* of a new subnet with the prefix that it gets from the pool it names, if any.

    *others*: the other subnets of its network, which is locked.

    :raises NotFound: the requester sees no such pool.
    :raises InvalidInput: the request contradicts itself, the pool, or the other subnets.
    :raises Conflict: the pool has no such free prefix, or the project's quota of it is used up.
    """
    pool = _find_pool(unit, body)
    found = {name: value for name, value in body.items() if name not in (DEFAULT, LENGTH)}
    if pool is None:
        if body.get(LENGTH) is not None:
            raise InvalidInput({LENGTH: "needs a subnet pool; name one, or the cidr instead"})
        _check_without_pool(unit, body, others)
        return found
    _check_version(pool, body)
    check_affinity(pool.ip_version, pool, others, _scopes(unit, others))
    prefix = _allocate(unit, pool, body)
    return {**found, "cidr": str(prefix), POOL: str(pool.id)}


def _check_version(pool: SubnetPool, body: Body) -> None:
    """Refuse a subnet of another IP version than *pool*.

    :raises BadRequest: names the attribute.
    """
    requested = {"ip_version": body.get("ip_version")}
    if body.get("cidr"):
        requested["cidr"] = _parse_cidr(body["cidr"]).version
    for name, version in requested.items():
        if version not in (None, pool.ip_version):
            text = f"is of IPv{version}, and subnet pool {pool.id} of IPv{pool.ip_version}"
            raise BadRequest({name: text})


def release_prefix(unit: UnitOfWork, subnet: Subnet) -> None:
    """Return the prefix of a deleted *subnet* to its pool."""
    id = pool_of(subnet)
    if id is not None and (pool := lock_pool(unit, id)) is not None:
        unit.tx.prefixes.release(pool.id, subnet.cidr)


def lock_pool(unit: UnitOfWork, id: SubnetPoolId) -> SubnetPool | None:
    """Return the pool of *id* of any project, locked until the transaction ends."""
    try:
        row = unit.tx.resources.get(Kind.SUBNET_POOL, id, lock=True)
    except NotFound:
        return None
    return cast(SubnetPool, row.resource())


def with_scopes(unit: UnitOfWork, network: Network, subnets: Sequence[Subnet]) -> Network:
    """Return *network* with the address scopes that its *subnets* give it."""
    scopes = _scopes(unit, subnets)
    return unit.evolved(
        network,
        ipv4_address_scope=find_scope(subnets, 4, scopes),
        ipv6_address_scope=find_scope(subnets, 6, scopes),
    )


def _scopes(unit: UnitOfWork, subnets: Iterable[Subnet]) -> Scopes:
    ids = {id for id in map(pool_of, subnets) if id is not None}
    if not ids:
        return {}
    rows = unit.tx.resources.present(Ref(Kind.SUBNET_POOL, id) for id in sorted(ids))
    pools = (cast(SubnetPool, row.resource()) for row in rows)
    return {pool.id: pool.address_scope_id for pool in pools}


def _find_pool(unit: UnitOfWork, body: Body) -> SubnetPool | None:
    """Return the pool that *body* names, locked; ``None``: it names none."""
    named, default = body.get(POOL), body.get(DEFAULT)
    if default and named is not None:
        raise InvalidInput({DEFAULT: f"cannot be combined with {POOL}; leave one of them out"})
    if not default and named in (None, PREFIX_DELEGATION):
        return None
    if "subnetpool" not in unit.context.handlers:
        text = "this server has no subnet pools; say the cidr instead"
        raise InvalidInput({DEFAULT if default else POOL: text})
    if default:
        return _default_pool(unit, body)
    row = unit.tx.resources.get(
        Kind.SUBNET_POOL, UUID(str(named)), project=unit.requester.sees, lock=True
    )
    return cast(SubnetPool, row.resource())


def _default_pool(unit: UnitOfWork, body: Body) -> SubnetPool:
    version = body.get("ip_version")
    if body.get("cidr"):
        version = _parse_cidr(body["cidr"]).version
    if version is None:
        raise InvalidInput({"ip_version": f"is required with {DEFAULT}, unless there is a cidr"})
    pool = find_default_pool(unit, cast(int, version))
    if pool is None:
        raise InvalidInput({DEFAULT: f"there is no default subnet pool for IPv{version}"})
    return pool


def find_default_pool(unit: UnitOfWork, version: int) -> SubnetPool | None:
    """Return the default pool of an IP version that the requester sees, locked; or ``None``."""
    query = Query(filters={"is_default": (True,), "ip_version": (version,)}, limit=1)
    rows = unit.tx.resources.find(Kind.SUBNET_POOL, query, project=unit.requester.sees)
    return lock_pool(unit, SubnetPoolId(rows[0].ref.id)) if rows else None


def _allocate(unit: UnitOfWork, pool: SubnetPool, body: Body) -> IpNetwork:
    """Allocate the requested prefix of *pool*, or one of the requested length."""
    length = pool.default_prefixlen if body.get(LENGTH) is None else cast(int, body[LENGTH])
    wanted: IpNetwork | None = None
    if body.get("cidr"):
        if body.get(LENGTH) is not None:
            raise InvalidInput({LENGTH: "cannot be combined with cidr; leave one of them out"})
        wanted = _parse_cidr(body["cidr"])
        length = wanted.prefixlen
    elif body.get("allocation_pools"):
        text = "can be chosen together with the cidr only, and the subnet pool chooses the cidr"
        raise InvalidInput({"allocation_pools": text})
    check_length(pool, length, LENGTH if wanted is None else "cidr")
    if pool.default_quota is not None:
        check_pool_quota(pool, _prefixes_of(unit, pool, str(body.get("project_id", ""))), length)
    if wanted is not None:
        if not unit.tx.prefixes.acquire(pool.id, wanted):
            raise SubnetAllocationError(f"{wanted} is not free in subnet pool {pool.id}")
        return wanted
    prefix = unit.tx.prefixes.acquire_any(pool, length)
    if prefix is None:
        raise SubnetAllocationError(
            f"subnet pool {pool.id} has no free /{length}; ask for a longer prefix, or add "
            "prefixes to the pool"
        )
    _check_gateway_within(body.get("gateway_ip"), prefix)
    return prefix


def _check_gateway_within(gateway: Json, prefix: IpNetwork) -> None:
    if isinstance(gateway, str) and ip_address(gateway) not in prefix:
        text = f"{gateway} is not in {prefix}, which the subnet pool chose; name the cidr too"
        raise InvalidInput({"gateway_ip": text})


def _prefixes_of(unit: UnitOfWork, pool: SubnetPool, project: str) -> Collection[IpNetwork]:
    """Return the prefixes that subnets of *project* have of *pool*."""
    query = Query(filters={POOL: (str(pool.id),), "project_id": (project,)})
    rows = unit.tx.resources.find(Kind.SUBNET, query)
    return [_parse_cidr(row.body["cidr"]) for row in rows]


def _check_without_pool(unit: UnitOfWork, body: Body, others: Sequence[Subnet]) -> None:
    """Refuse a prefix of no pool on a network whose subnets are of pools."""
    if body.get(POOL) == PREFIX_DELEGATION:
        scopes = _scopes(unit, others)
        if find_scope(others, 6, scopes) is not None:
            text = "the network's other IPv6 subnets are in an address scope"
            raise NetworkAddressScopeAffinityError({POOL: text})
        return
    if body.get("cidr") and any(pool_of(each) is not None for each in others):
        check_affinity(_parse_cidr(body["cidr"]).version, None, others, _scopes(unit, others))


def _parse_cidr(text: Any) -> IpNetwork:
    try:
        return CIDR.parse(text)
    except ValueError as exc:
        raise InvalidInput({"cidr": str(exc)}) from exc
