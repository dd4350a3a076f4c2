"""ExtensionDrivers: the extension drivers of a server, and the stores of their attributes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

from attrs import evolve, frozen

from netfw.drivers.server.attribute import Attribute, plain
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.errors import ConfigError, InvalidInput
from netfw.model.network import Network
from netfw.model.resource import Kind, Ref, Resource, kind_of, ref
from netfw.model.wire import CODECS, Json
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.schema.resource_tables import table_mapping

LOG = logging.getLogger(__name__)
R = TypeVar("R", bound=Resource)


class ExtensionDrivers:
    """Attributes that extension drivers add to networks, subnets and ports.

    :raises ConfigError: two drivers declare the same attribute.
    """

    def __init__(self, drivers: Sequence[ExtensionDriver]) -> None:
        self.drivers = tuple(drivers)
        self._declared = {driver: dict(driver.attributes()) for driver in self.drivers}
        self._names: dict[Kind, dict[str, ExtensionDriver]] = {}
        for driver, kinds in self._declared.items():
            for kind, attributes in kinds.items():
                for each in attributes:
                    self._claim(driver, kind, each.name)
        self._extending = tuple(
            driver for driver in self.drivers if type(driver).extend is not ExtensionDriver.extend
        )
        self._keeping = {
            kind: frozenset(driver for driver in self.drivers if self._keeps(driver, kind))
            for kind in self._names
        }

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        """Return all declared attributes by kind; the API has no other extension attributes."""
        found: dict[Kind, tuple[Attribute, ...]] = {}
        for kinds in self._declared.values():
            for kind, attributes in kinds.items():
                found[kind] = (*found.get(kind, ()), *attributes)
        return found

    def declared(self) -> Mapping[str, Mapping[str, tuple[Attribute, ...]]]:
        """Return the declared attributes by driver name, then by resource name, for the API.

        An attribute without a column is never filterable, whatever its driver declares.
        """
        return {
            driver.describe().name: {
                kind.value: tuple(_restrict_filter(kind, each) for each in attributes)
                for kind, attributes in kinds.items()
            }
            for driver, kinds in self._declared.items()
        }

    def plain(self, kind: Kind, body: Body) -> Body:
        """Return *body* without the attributes of extension drivers."""
        names = self._names.get(kind, {})
        return {name: value for name, value in body.items() if name not in names}

    def apply(
        self,
        unit: UnitOfWork,
        before: R | None,
        after: R,
        body: Body,
        network: Network | None = None,
    ) -> R:
        """Return *after* with the fields that the drivers set, and store their other attributes.

        Call it before *after* is stored, once its other fields are known.

        :raises RequestError: a driver refuses the request.
        """
        kind, shaped, request_id = kind_of(after), after, unit.request_id(ref(after))
        for driver in self.drivers:
            declared = self._declared[driver].get(kind)
            if declared is None:
                continue
            requested = _requested(declared, body, new=before is None)
            change = Change(before=before, after=shaped, network=network, request_id=request_id)
            shaped = cast(R, _apply_fields(driver, change, requested))
            if driver not in self._keeping[kind]:
                continue
            names = frozenset(each.name for each in declared)
            driver.store_attributes(
                Change(before=before, after=shaped, network=network, request_id=request_id),
                requested,
                _UnitStore(unit, names),
            )
        return shaped

    def extend(self, kind: Kind, bodies: Sequence[MutableMapping[str, Any]]) -> None:
        """Add to *bodies*, which hold the stored attributes, those computed on reading."""
        for driver in self._extending:
            declared = self._declared[driver].get(kind)
            if declared is None:
                continue
            names = frozenset(each.name for each in declared)
            rows = {UUID(body["id"]): body for body in bodies}
            try:
                found = driver.extend(kind, tuple(rows), _RowStore(rows, names))
                computed = {
                    id: _own_attributes(found[id], names) for id in rows.keys() & found.keys()
                }
            except (
                Exception
            ):  # the contract: a failure loses the attributes of the driver, nothing else
                LOG.exception(
                    "extension driver %s: computing its attributes failed", driver.describe().name
                )
                continue
            for id, own in computed.items():
                rows[id].update(own)

    def _keeps(self, driver: ExtensionDriver, kind: Kind) -> bool:
        """Return whether *driver* may store attributes of *kind*."""
        if type(driver).store_attributes is not ExtensionDriver.store_attributes:
            return True
        names = {each.name for each in self._declared[driver].get(kind, ())}
        return not names.issubset(CODECS[kind].names)

    def _claim(self, driver: ExtensionDriver, kind: Kind, name: str) -> None:
        other = self._names.setdefault(kind, {}).setdefault(name, driver)
        if other is not driver:
            names = f"{other.describe().name} and {driver.describe().name}"
            raise ConfigError(f"extension_drivers: {names} both declare {name} of a {kind}")


@frozen
class _UnitStore:
    """``AttributeStore`` of one driver: the part of ``extra`` in the rows that has its names."""

    unit: UnitOfWork
    names: frozenset[str]

    def read(self, kind: Kind, ids: Sequence[UUID]) -> Mapping[UUID, Body]:
        refs = {Ref(kind, id) for id in ids}
        known = {each.id: self.unit.extras[each] for each in refs if each in self.unit.extras}
        missing = [each for each in refs if each.id not in known]
        if missing:
            rows = self.unit.tx.resources.present(missing)
            known |= {row.ref.id: dict(row.extra) for row in rows}
        return {id: own for id, extra in known.items() if (own := self._own(extra))}

    def write(self, ref: Ref, extra: Body) -> None:
        if strange := extra.keys() - self.names:
            raise AssertionError(f"a driver keeps what it did not declare: {sorted(strange)}")
        self.unit.set_extra(ref, extra, without=self.names - extra.keys())

    def _own(self, extra: Mapping[str, Any]) -> Body:
        return {name: value for name, value in extra.items() if name in self.names}


@frozen
class _RowStore:
    """Read-only ``AttributeStore`` of rows that were read already."""

    rows: Mapping[UUID, Mapping[str, Any]]
    names: frozenset[str]

    def read(self, kind: Kind, ids: Sequence[UUID]) -> Mapping[UUID, Body]:
        return {
            id: {name: value for name, value in self.rows[id].items() if name in self.names}
            for id in ids
            if id in self.rows
        }

    def write(self, ref: Ref, extra: Body) -> None:
        raise AssertionError("nothing is written while it is shown")


def _own_attributes(computed: Body, names: frozenset[str]) -> Body:
    """Return the driver's own attributes in *computed*.

    :raises TypeError: a value cannot be rendered as JSON.
    """
    own = {name: computed[name] for name in computed.keys() & names}
    json.dumps(own)
    return own


def _apply_fields(driver: ExtensionDriver, change: Change, requested: Body) -> Resource:
    try:
        shaped = driver.apply_fields(change, requested)
    except ValueError as exc:  # the model refuses what the driver made of the request
        raise InvalidInput({str(change.ref.kind): str(exc)}) from exc
    if shaped is not change.after and ref(shaped) != change.ref:
        raise AssertionError(f"{driver.describe().name} answers with {ref(shaped)}")
    return shaped


def _restrict_filter(kind: Kind, declared: Attribute) -> Attribute:
    return (
        declared
        if declared.name in table_mapping(kind).columns
        else evolve(declared, filterable=False)
    )


def _requested(declared: Iterable[Attribute], body: Body, *, new: bool) -> Body:
    """Return the values in *body* for the declared attributes, with defaults if the resource is
    *new*."""
    requested: dict[str, Json] = {}
    for each in declared:
        if each.name in body:
            requested[each.name] = body[each.name]
        elif new and each.settable and (each.nullable or each.default is not None):
            requested[each.name] = plain(each.default)
    return requested
