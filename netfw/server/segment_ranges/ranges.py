"""SegmentRangeHandler and the service plugin of network segment ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.drivers.server.type_driver import Range
from netfw.errors import ConfigError, InvalidInput
from netfw.errors.segment_ranges import (
    NetworkSegmentRangeDefaultReadOnly,
    NetworkSegmentRangeNetTypeNotSupported,
    NetworkSegmentRangeOverlaps,
    NetworkSegmentRangeReferencedByProject,
)
from netfw.model.segment import NetworkType, Provider, segmentation_ids
from netfw.model.values.validation import outside
from netfw.server.core.document_handler import DocumentHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.segment_usage import find_usage, find_used
from netfw.server.segment_ranges.range_source import (
    ALL_PROJECTS,
    NAME,
    SegmentRangeDocuments,
    find_of_type,
    range_of,
    without,
)


class SegmentRangeHandler(DocumentHandler):
    """Network segment ranges; the pools of a type are locked while its ranges change."""

    def __init__(self, types: TypeDrivers) -> None:
        super().__init__(NAME)
        self._types = types

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return tuple(self._create(unit, body) for body in bodies)

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        if body.keys() <= {"tags"}:
            return self._shown(unit.tx, super().do_update(unit, before, body))
        _refuse_default(before)
        id, type = before["id"], NetworkType(before["network_type"])
        unit.tx.allocations.lock(type)
        _check_numbers({**before, **body})
        after = range_of({**before, **body})
        _refuse_overlap(unit, after, id)
        updated = super().do_update(unit, before, body)
        self._types.define_type(unit.tx, type)
        for lost in without([range_of(before)], [after]):
            _refuse_use(unit, id, lost)
        return self._shown(unit.tx, updated)

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        _refuse_default(before)
        lost = range_of(before)
        unit.tx.allocations.lock(lost.pool.type)
        super().do_delete(unit, before)
        self._types.define_type(unit.tx, lost.pool.type)
        _refuse_use(unit, str(before["id"]), lost)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        return _with_usage(reader, super().find(reader, requester, query))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        return self._shown(reader, super().show(reader, requester, id))

    def _create(self, unit: UnitOfWork, body: Body) -> Body:
        new = {**body, "physical_network": body.get("physical_network") or ""}
        type = NetworkType(str(new["network_type"]))
        _check_numbers(new)
        self._check_segments(new)
        wanted = range_of(new)
        unit.tx.allocations.create(wanted.pool)
        unit.tx.allocations.lock(type)
        _refuse_overlap(unit, wanted)
        (made,) = super().create(unit, [new])
        self._types.define_type(unit.tx, type)
        return self._shown(unit.tx, made)

    def _new(self, unit: UnitOfWork, body: Body) -> dict[str, Any]:
        new = {**super()._new(unit, body), "default": False}
        if new["shared"]:
            new |= {"project_id": ALL_PROJECTS, "tenant_id": ALL_PROJECTS}
        return new

    def _check_segments(self, new: Mapping[str, Any]) -> None:
        """Refuse a range whose segments this server cannot have."""
        wanted = range_of(new)
        type, physical = wanted.pool.type, wanted.pool.physical_network
        if type is NetworkType.VLAN and physical is None:
            raise InvalidInput({"physical_network": "is required for a range of VLANs"})
        if type.is_well_known and type is not NetworkType.VLAN and physical is not None:
            raise InvalidInput({"physical_network": f"a {type} segment has none"})
        if not self._types.has(type):
            raise NetworkSegmentRangeNetTypeNotSupported(
                {"network_type": f"{type} is not among the types of this server"}
            )
        for number in (wanted.first, wanted.last):
            self._types.validate(
                Provider(network_type=type, physical_network=physical, segmentation_id=number)
            )

    def _shown(self, reader: Reader, body: Body) -> Body:
        (shown,) = _with_usage(reader, (body,))
        return shown


class SegmentRangesPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin of network segment ranges."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext, types: TypeDrivers) -> None:
        types.range_source = SegmentRangeDocuments()
        super().__init__(context, (SegmentRangeHandler(types),))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host), host.share(TypeDrivers, _missing))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(NAME)


def _missing() -> TypeDrivers:
    raise ConfigError("this plugin works beside the core plugin ml2 only")


def _with_usage(reader: Reader, bodies: Sequence[Body]) -> tuple[Body, ...]:
    usages = find_usage(reader.connection, [range_of(each) for each in bodies])
    return tuple(
        {
            **body,
            "project_id": body["project_id"] or None,
            "tenant_id": body["project_id"] or None,
            "available": usage.free,
            "used": {str(number): project for number, project in usage.used.items()},
        }
        for body, usage in zip(bodies, usages, strict=True)
    )


def _check_numbers(new: Mapping[str, Any]) -> None:
    type, first, last = NetworkType(new["network_type"]), new["minimum"], new["maximum"]
    allowed = segmentation_ids(type)
    if allowed is None:
        raise InvalidInput({"network_type": f"{type} segments have no numbers"})
    ends = {"minimum": first, "maximum": last}
    problems = {name: outside(end, allowed) for name, end in ends.items() if end not in allowed}
    if not problems and last < first:
        problems = {"minimum": f"{first} is more than the maximum, {last}"}
    if problems:
        raise InvalidInput(problems)


def _refuse_default(found: Mapping[str, Any]) -> None:
    if found["default"]:
        raise NetworkSegmentRangeDefaultReadOnly(
            {"id": f"range {found['id']} follows from the configuration; change it there"}
        )


def _refuse_overlap(unit: UnitOfWork, wanted: Range, own: str = "") -> None:
    """Refuse numbers of another range that does not follow from the configuration."""
    for other in find_of_type(unit.tx, wanted.pool.type):
        taken = range_of(other)
        if other["default"] or other["id"] == own or taken.pool != wanted.pool:
            continue
        if wanted.first <= taken.last and taken.first <= wanted.last:
            raise NetworkSegmentRangeOverlaps(
                f"{wanted.first} to {wanted.last} overlaps with {taken.first} to {taken.last} of "
                f"network segment range {other['id']}"
            )


def _refuse_use(unit: UnitOfWork, id: str, lost: Range) -> None:
    """Refuse to remove numbers that networks have.

    The pools are defined by now: a transaction that took a number before has ended.
    """
    for number, project in find_used(unit.tx.connection, lost).items():
        raise NetworkSegmentRangeReferencedByProject(
            f"segment {number} of network segment range {id} belongs to a network of project "
            f"{project!r}; delete it first"
        )
