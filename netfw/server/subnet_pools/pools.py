"""SubnetPoolHandler, and the service plugin for subnet pools and address scopes.

All changes of a pool, and all allocations from it, lock the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import UUID, uuid4

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import Forbidden, InvalidInput
from netfw.errors.subnet_pools import (
    EmptySubnetPoolPrefixList,
    IllegalSubnetPoolPrefixUpdate,
    SubnetPoolDeleteError,
)
from netfw.model.rbac_policy import EVERY_PROJECT
from netfw.model.resource import Kind
from netfw.model.subnet_pool import SubnetPool, compact
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import NetworkId
from netfw.model.wire import parse, render
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Act, Reader, StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.sharing import check_scope_access, policies_of
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.prefix_arithmetic import subtract
from netfw.server.subnet_pools.address_scopes import (
    AddressScopeHandler,
    ScopeMembers,
    check_scope_owner,
)
from netfw.server.subnet_pools.pool_validation import (
    LENGTHS,
    check_pool,
    complete_pool,
    parse_prefixes,
)
from netfw.server.subnet_pools.subnet_onboarding import onboard_subnets, rescope_networks


class SubnetPoolHandler(StoredResourceHandler[SubnetPool]):
    """Subnet pools: their free prefixes are defined with them, and dropped with them."""

    name, kind = "subnetpool", Kind.SUBNET_POOL
    quota: ClassVar[str | None] = "subnetpool"

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[SubnetPool, ...]:
        made, members = [], ScopeMembers(unit)
        for body in bodies:
            values = {**complete_pool(body), "id": str(uuid4())}
            pool = cast(SubnetPool, parse(self.kind, values))
            members.add(pool)
            if pool.shared:
                check_scope_access(unit, pool, EVERY_PROJECT, "shared")
            _check_only_default(unit, pool)
            (stored,) = unit.insert(pool)
            unit.tx.prefixes.define(stored)
            made.append(stored)
        return tuple(made)

    def do_update(self, unit: UnitOfWork, before: SubnetPool, body: Body) -> SubnetPool:
        check_scope_owner(unit, before)
        values = {**render(before), **body}
        check_pool(values)
        after = cast(SubnetPool, parse(self.kind, values))
        if after.ip_version != before.ip_version or subtract(before.prefixes, after.prefixes):
            text = "must contain all prefixes that the pool has; remove_prefixes removes some"
            raise IllegalSubnetPoolPrefixUpdate({"prefixes": text})
        return self._store(unit, before, after)

    def do_delete(self, unit: UnitOfWork, before: SubnetPool) -> None:
        query = Query(filters={"subnetpool_id": (str(before.id),)}, limit=1)
        for row in unit.tx.resources.find(Kind.SUBNET, query):
            text = f"subnet {row.body['id']} has a prefix of it; delete its subnets first"
            raise SubnetPoolDeleteError({"id": text})
        unit.delete(before)

    def actions(self) -> Mapping[str, Act[Any]]:
        return {
            "add_prefixes": self._add_prefixes,
            "remove_prefixes": self._remove_prefixes,
            "onboard_network_subnets": self._onboard,
        }

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        """Show prefix lengths as text, which is what clients of this API expect."""
        for body in bodies:
            for name in LENGTHS:
                body[name] = str(body[name])

    def _add_prefixes(self, unit: UnitOfWork, before: SubnetPool, body: Body) -> Body:
        check_scope_owner(unit, before)
        return _prefixes(self._extend(unit, before, _requested(before, body)))

    def _remove_prefixes(self, unit: UnitOfWork, before: SubnetPool, body: Body) -> Body:
        check_scope_owner(unit, before)
        removed = compact(_requested(before, body))
        left = subtract(before.prefixes, removed)
        if not left:
            raise EmptySubnetPoolPrefixList({"prefixes": "a pool keeps one prefix at least"})
        for prefix in subtract(before.prefixes, left):
            if not unit.tx.prefixes.acquire(before.id, prefix):
                text = f"subnets have prefixes of {prefix}; delete them first"
                raise IllegalSubnetPoolPrefixUpdate({"prefixes": text})
        return _prefixes(unit.update(before, _with_prefixes(unit, before, left)))

    def _onboard(self, unit: UnitOfWork, before: SubnetPool, body: Body) -> Body:
        network = unit.visible_network(NetworkId(UUID(str(body["network_id"]))))[0]
        if unit.requester.sees not in (None, network.project_id):
            raise Forbidden(f"network {network.id} is of another project; its owner can do that")
        check_scope_owner(unit, before)
        unit.network(network.id, lock=True)
        subnets = [
            each for each in unit.subnets(network.id) if each.ip_version == before.ip_version
        ]
        after = self._extend(unit, before, (each.cidr for each in subnets))
        onboard_subnets(unit, after, network.id, subnets)
        return {"subnets": [{"id": str(each.id), "cidr": str(each.cidr)} for each in subnets]}

    def _extend(
        self, unit: UnitOfWork, before: SubnetPool, prefixes: Iterable[IpNetwork]
    ) -> SubnetPool:
        after = _with_prefixes(unit, before, (*before.prefixes, *prefixes))
        return self._store(unit, before, after)

    def _store(self, unit: UnitOfWork, before: SubnetPool, after: SubnetPool) -> SubnetPool:
        if after.address_scope_id != before.address_scope_id or after.prefixes != before.prefixes:
            ScopeMembers(unit).add(after)
        if after.is_default and not before.is_default:
            _check_only_default(unit, after)
        stored = unit.update(before, after)
        for prefix in subtract(after.prefixes, before.prefixes):
            unit.tx.prefixes.release(after.id, prefix)
        if after.address_scope_id != before.address_scope_id:
            for policy in policies_of(unit, after.id):
                check_scope_access(unit, after, policy.target_project, "address_scope_id")
            rescope_networks(unit, stored)
        return stored


class SubnetPoolsPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for subnet pools and address scopes."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (SubnetPoolHandler(), AddressScopeHandler()))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("subnet_pools")


def _check_only_default(unit: UnitOfWork, pool: SubnetPool) -> None:
    """Refuse a second default pool of an IP version; a constraint of the database is the backstop.

    :raises InvalidInput: naming the other one.
    """
    if not pool.is_default:
        return
    query = Query(filters={"is_default": (True,), "ip_version": (pool.ip_version,)}, limit=1)
    for row in unit.tx.resources.find(Kind.SUBNET_POOL, query):
        text = f"subnet pool {row.body['id']} is the default of IPv{pool.ip_version} already"
        raise InvalidInput({"is_default": text})


def _with_prefixes(unit: UnitOfWork, pool: SubnetPool, prefixes: Iterable[IpNetwork]) -> SubnetPool:
    """Return *pool* with other prefixes.

    :raises InvalidInput: they are too many: removing one can leave many.
    """
    try:
        return unit.evolved(pool, prefixes=prefixes)
    except ValueError as exc:
        raise InvalidInput({"prefixes": str(exc)}) from exc


def _requested(pool: SubnetPool, body: Body) -> tuple[IpNetwork, ...]:
    """Return the prefixes of an action.

    :raises InvalidInput: they are of another IP version than *pool*.
    """
    prefixes = parse_prefixes(cast("list[str]", body["prefixes"]))
    if any(each.version != pool.ip_version for each in prefixes):
        raise InvalidInput({"prefixes": f"the pool has IPv{pool.ip_version} prefixes only"})
    return prefixes


def _prefixes(pool: SubnetPool) -> Body:
    return {"prefixes": [str(each) for each in pool.prefixes]}
