"""AddressScopeHandler: address scopes, and the checks of pools that are put into them."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, ClassVar, Final, cast
from uuid import UUID, uuid4

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors.subnet_pools import (
    AddressScopeInUse,
    AddressScopePrefixConflict,
    AddressScopeUpdateError,
    IllegalSubnetPoolIpVersionAssociationToAddressScope,
    IllegalSubnetPoolUpdate,
)
from netfw.model.resource import Kind
from netfw.model.subnet_pool import AddressScope, SubnetPool
from netfw.model.values.address import IpNetwork
from netfw.model.wire import parse, render
from netfw.server.core.disjoint_prefixes import DisjointPrefixes
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork

OF_ANOTHER_PROJECT: Final = "a subnet pool of another project"
"""The owner of prefixes that the requester does not see."""


class AddressScopeHandler(StoredResourceHandler[AddressScope]):
    """Address scopes: sets of pools without overlapping prefixes."""

    name, kind = "address_scope", Kind.ADDRESS_SCOPE
    quota: ClassVar[str | None] = None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[AddressScope, ...]:
        new = (parse(self.kind, {**body, "id": str(uuid4())}) for body in bodies)
        return unit.insert(*(cast(AddressScope, each) for each in new))

    def do_update(self, unit: UnitOfWork, before: AddressScope, body: Body) -> AddressScope:
        after = cast(AddressScope, parse(self.kind, {**render(before), **body}))
        if before.shared and not after.shared:
            text = "cannot be withdrawn: pools and networks of other projects may depend on it"
            raise AddressScopeUpdateError({"shared": text})
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: AddressScope) -> None:
        query = Query(filters={"address_scope_id": (str(before.id),)}, limit=1)
        for row in unit.tx.resources.find(Kind.SUBNET_POOL, query):
            raise AddressScopeInUse(
                f"address scope {before.id} is in use by subnet pool {row.body['id']}; remove it "
                "from its pools first"
            )
        unit.delete(before)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        """Remove tags, which there are none of."""
        for body in bodies:
            del body["tags"]


class ScopeMembers:
    """Pools of address scopes, whose prefixes do not overlap: each scope is read once."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._prefixes: dict[UUID, DisjointPrefixes] = {}

    def add(self, pool: SubnetPool) -> None:
        """Add *pool* to its address scope, with these prefixes; lock the scope.

        :raises NotFound: the requester sees no such scope.
        :raises InvalidInput: the scope is of another IP version.
        :raises AddressScopePrefixConflict: another pool of the scope has some of the prefixes.
        """
        if pool.address_scope_id is None:
            return
        scope = _lock_scope(self._unit, pool.address_scope_id)
        if scope.ip_version != pool.ip_version:
            text = f"{scope.id} is of IPv{scope.ip_version}, and the pool of IPv{pool.ip_version}"
            raise IllegalSubnetPoolIpVersionAssociationToAddressScope({"address_scope_id": text})
        if scope.id not in self._prefixes:
            self._prefixes[scope.id] = self._read(scope, pool)
        others = self._prefixes[scope.id]
        for prefix in pool.prefixes:
            if found := others.find_overlap(prefix):
                raise _overlap(prefix, *found)
        for prefix in pool.prefixes:
            others.add(prefix, f"subnet pool {pool.id}")

    def _read(self, scope: AddressScope, left_out: SubnetPool) -> DisjointPrefixes:
        """Read the prefixes of all pools of *scope* but one."""
        found = DisjointPrefixes()
        query = Query(filters={"address_scope_id": (str(scope.id),)})
        for row in self._unit.tx.resources.find(Kind.SUBNET_POOL, query):
            pool = cast(SubnetPool, row.resource())
            if pool.id != left_out.id:
                is_own = self._unit.requester.sees in (None, pool.project_id)
                for prefix in pool.prefixes:
                    found.add(prefix, f"subnet pool {pool.id}" if is_own else OF_ANOTHER_PROJECT)
        return found


def _overlap(prefix: IpNetwork, other: IpNetwork, owner: str) -> AddressScopePrefixConflict:
    """Return the error; it says of a pool of another project what the request says already."""
    if owner == OF_ANOTHER_PROJECT:
        text = f"{prefix} overlaps with {owner}"
    else:
        both = max(prefix, other, key=lambda each: each.prefixlen)
        text = f"{both} is of {owner} too"
    return AddressScopePrefixConflict(f"{text}, which is in the same address scope")


def check_scope_owner(unit: UnitOfWork, pool: SubnetPool) -> None:
    """Refuse to change a pool in an address scope of another project.

    :raises IllegalSubnetPoolUpdate: the scope is of another project, and the requester no admin.
    """
    if pool.address_scope_id is None or unit.requester.admin:
        return
    row = unit.tx.resources.get(Kind.ADDRESS_SCOPE, pool.address_scope_id)
    if row.body["project_id"] != unit.requester.project_id:
        text = f"is {pool.address_scope_id} of another project, so that only administrators change"
        raise IllegalSubnetPoolUpdate({"address_scope_id": f"{text} the pool"})


def _lock_scope(unit: UnitOfWork, id: UUID) -> AddressScope:
    sees = unit.requester.sees
    row = unit.tx.resources.get(Kind.ADDRESS_SCOPE, id, project=sees, lock=True)
    return cast(AddressScope, row.resource())
