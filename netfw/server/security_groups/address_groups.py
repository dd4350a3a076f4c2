"""AddressGroupHandler: named sets of prefixes that rules of security groups refer to.

A change of the addresses is a change of the address group alone: rules keep their revisions, and
the hosts whose rules name the group get its new addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast
from uuid import uuid4

from attrs import evolve

from netfw.drivers.server.query import Body, Query
from netfw.errors import InvalidInput
from netfw.errors.address_groups import (
    AddressesAlreadyExist,
    AddressesNotFound,
    AddressGroupInUse,
)
from netfw.model.resource import Kind
from netfw.model.security_group import AddressGroup
from netfw.model.values.address import IpNetwork, as_network
from netfw.model.wire import parse, render
from netfw.server.core.resource_handler import Act, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork

NAMED_IN_TEXTS = 3
"""Addresses or rules that a message names."""
REFERRING = (Kind.SECURITY_GROUP_RULE, Kind.DEFAULT_SECURITY_GROUP_RULE)
"""Kinds whose rows name an address group."""


class AddressGroupHandler(StoredResourceHandler[AddressGroup]):
    """Address groups; their addresses are changed by actions only."""

    name = "address_group"
    kind = Kind.ADDRESS_GROUP
    quota: ClassVar[str | None] = None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[AddressGroup, ...]:
        return unit.insert(*(self._new(unit, body) for body in bodies))

    def _new(self, unit: UnitOfWork, body: Body) -> AddressGroup:
        addresses = _requested(body)
        _check_size(unit, len(addresses))
        group = parse(self.kind, {**body, "id": str(uuid4()), "addresses": []})
        return evolve(cast(AddressGroup, group), addresses=addresses)

    def do_update(self, unit: UnitOfWork, before: AddressGroup, body: Body) -> AddressGroup:
        plain = evolve(before, addresses=frozenset())
        after = cast(AddressGroup, parse(self.kind, {**render(plain), **body}))
        return unit.update(before, evolve(after, addresses=before.addresses))

    def do_delete(self, unit: UnitOfWork, before: AddressGroup) -> None:
        query = Query(
            filters={"remote_address_group_id": (str(before.id),)}, limit=NAMED_IN_TEXTS + 1
        )
        for kind in REFERRING:
            rules = [row.body["id"] for row in unit.tx.resources.find(kind, query)]
            if rules:
                raise AddressGroupInUse(
                    f"address group {before.id} is named by rules "
                    f"({kind} {_some(rules)}); delete them first"
                )
        unit.delete(before)

    def actions(self) -> Mapping[str, Act[AddressGroup]]:
        return {
            "add_addresses": self._add_addresses,
            "remove_addresses": self._remove_addresses,
        }

    def _add_addresses(self, unit: UnitOfWork, before: AddressGroup, body: Body) -> Body:
        added = _requested(body)
        if present := added & before.addresses:
            text = f"address group {before.id} has {_some(present)} already; leave them out"
            raise AddressesAlreadyExist({"addresses": text})
        _check_size(unit, len(before.addresses) + len(added))
        return self._store(unit, before, before.addresses | added)

    def _remove_addresses(self, unit: UnitOfWork, before: AddressGroup, body: Body) -> Body:
        removed = _requested(body)
        if missing := removed - before.addresses:
            raise AddressesNotFound(f"address group {before.id} does not have {_some(missing)}")
        return self._store(unit, before, before.addresses - removed)

    def _store(
        self, unit: UnitOfWork, before: AddressGroup, addresses: frozenset[IpNetwork]
    ) -> Body:
        after = unit.update(before, evolve(before, addresses=addresses))
        return self.render_all(unit, (after,))[0]


def _check_size(unit: UnitOfWork, count: int) -> None:
    """Refuse a group with *count* addresses if that is more than the operator allows."""
    most = unit.context.settings.max_addresses_per_address_group
    if count > most:
        text = f"the group would have {count}, more than {most}; use several groups"
        raise InvalidInput({"addresses": text})


def _requested(body: Body) -> frozenset[IpNetwork]:
    return frozenset(map(as_network, cast("list[Any]", body["addresses"])))


def _some(items: Collection[object]) -> str:
    """Render the first of *items*."""
    texts: Iterable[str] = sorted(map(str, items))[:NAMED_IN_TEXTS]
    return ", ".join(texts) + (" and others" if len(items) > NAMED_IN_TEXTS else "")
