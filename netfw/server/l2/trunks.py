"""TrunkHandler, and the service plugin for trunks.

Each port of a trunk says so itself (``Port.trunk``), so that agents need no other resource, and
only changes of such ports cost something here.  Sub-ports are on the hosts of their parent: they
are bound with it, and follow it.  All changes of a trunk lock the parent, then the trunk, then the
sub-ports; a change of the parent's binding does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import uuid4

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors.trunk import PortInUseAsSubPort, SubPortNotFound, TrunkInErrorState
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.trunk import SubPort, Trunk, TrunkMembership
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import PortId
from netfw.model.wire import parse, render
from netfw.model.wire.ports import SUB_PORT, TRUNK_MEMBERSHIP
from netfw.server.binding.binder import HOST
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Act, Reader, StoredResourceHandler, apply_query
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l2.ports import PortHandler
from netfw.server.l2.trunk_status import add_trunk_statuses, needs_status
from netfw.server.l2.trunk_validation import (
    Requested,
    check_manageable,
    check_parent,
    lock_ports,
    make_sub_ports,
    validate_requested,
)

SUB_PORTS = "sub_ports"


class TrunkHandler(StoredResourceHandler[Trunk]):
    """Trunks; their ports are changed in the same transaction."""

    name: ClassVar[str] = "trunk"
    kind: ClassVar[Kind] = Kind.TRUNK
    quota: ClassVar[str | None] = "trunk"
    reading_actions: ClassVar[frozenset[str]] = frozenset({"get_subports"})

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Trunk, ...]:
        ids = {str(body["port_id"]) for body in bodies}
        ids |= {str(sub["port_id"]) for body in bodies for sub in _requested(body)}
        ports = lock_ports(unit, ids)
        made = []
        for body in bodies:
            trunk = self._create(unit, body, ports)
            made.append(trunk)
            for id, membership in _memberships(trunk).items():
                ports[id] = evolve(ports[id], trunk=membership)
        return tuple(made)

    def _create(self, unit: UnitOfWork, body: Body, ports: Mapping[PortId, Port]) -> Trunk:
        plain = {name: value for name, value in body.items() if name != SUB_PORTS}
        trunk = cast(Trunk, parse(self.kind, {**plain, "id": str(uuid4()), SUB_PORTS: []}))
        parent = ports[trunk.port_id]
        check_parent(parent)
        subs = make_sub_ports(unit, parent, (), _requested(body), ports)
        (trunk,) = unit.insert(evolve(trunk, sub_ports=subs))
        _join(unit, trunk, parent, subs, with_parent=True)
        return trunk

    def do_update(self, unit: UnitOfWork, before: Trunk, body: Body) -> Trunk:
        return unit.update(before, cast(Trunk, parse(self.kind, {**render(before), **body})))

    def do_delete(self, unit: UnitOfWork, before: Trunk) -> None:
        check_manageable(before)
        unit.delete(before)
        _leave(unit, before, before.sub_ports, with_parent=True)

    def get_for_update(self, unit: UnitOfWork, id: str, revision: int | None = None) -> Trunk:
        """Return the trunk, locked after its parent."""
        row = unit.tx.resources.get(self.kind, self.identity(id), project=unit.requester.sees)
        unit.tx.statuses.get_for_update(Kind.PORT, [cast(Trunk, row.resource()).port_id])
        return super().get_for_update(unit, id, revision)

    def actions(self) -> Mapping[str, Act[Any]]:
        return {
            "add_subports": self._add_sub_ports,
            "remove_subports": self._remove_sub_ports,
        }

    def read_action(self, reader: Reader, requester: RequestContext, id: str, action: str) -> Body:
        row = reader.resources.get(self.kind, self.identity(id), project=requester.sees)
        trunk = cast(Trunk, row.resource())
        return {SUB_PORTS: [SUB_PORT.render(sub) for sub in trunk.sub_ports]}

    def _add_sub_ports(self, unit: UnitOfWork, before: Trunk, body: Body) -> Body:
        check_manageable(before)
        requested = _requested(body)
        ports = lock_ports(unit, {str(before.port_id), *(str(it["port_id"]) for it in requested)})
        if self.render_all(unit, (before,))[0]["status"] == Status.ERROR.value:
            raise TrunkInErrorState(
                f"a port of trunk {before.id} cannot be bound to its host; remove that sub-port, "
                "or repair the host, before you add others"
            )
        parent = ports[before.port_id]
        new = make_sub_ports(unit, parent, before.sub_ports, requested, ports)
        after = unit.update(before, evolve(before, sub_ports=(*before.sub_ports, *new)))
        _join(unit, after, parent, new)
        return self.render_all(unit, (after,))[0]

    def _remove_sub_ports(self, unit: UnitOfWork, before: Trunk, body: Body) -> Body:
        check_manageable(before)
        present = {str(sub.port_id): sub for sub in before.sub_ports}
        gone = {}
        for requested in _requested(body, with_tags=False):
            id = str(requested["port_id"])
            if id not in present:
                raise SubPortNotFound(f"trunk {before.id} has no sub-port {id}")
            gone[id] = present[id]
        kept = tuple(sub for id, sub in present.items() if id not in gone)
        after = unit.update(before, evolve(before, sub_ports=kept))
        _leave(unit, before, gone.values())
        return self.render_all(unit, (after,))[0]

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        if not needs_status(query):
            return super().find(reader, requester, query)
        filters = {name: values for name, values in query.filters.items() if name != "status"}
        everything = super().find(reader, requester, Query(filters=filters))
        of_status = {"status": query.filters["status"]} if "status" in query.filters else {}
        return apply_query(everything, evolve(query, filters=of_status))

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        add_trunk_statuses(reader, bodies)


class TrunkPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for trunks; it also lets sub-ports follow their parents."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (TrunkHandler(),))
        context.precommit_hooks.append(bind_sub_ports)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("trunk")


def bind_sub_ports(unit: UnitOfWork, change: Change) -> None:
    """Bind sub-ports like their parent; a :data:`.PrecommitHook`.

    :raises PortInUseAsSubPort: a sub-port would be bound to another host than its parent.
    """
    before, after = change.before, change.after
    if not (isinstance(before, Port) and isinstance(after, Port)):
        return
    if before.trunk is None or before.trunk != after.trunk or _hosts(before) == _hosts(after):
        return
    membership = before.trunk
    if membership.parent_id is not None:
        _check_host(unit, after, membership.parent_id)
        return
    row = unit.tx.resources.get(Kind.TRUNK, membership.trunk_id, lock=True)
    trunk = cast(Trunk, row.resource())
    with unit.elevated():
        _ports(unit).bind_like(unit, after, [sub.port_id for sub in trunk.sub_ports])


def _hosts(port: Port) -> tuple[str, frozenset[str]]:
    return port.binding.host, port.binding.prepared_hosts


def _check_host(unit: UnitOfWork, sub_port: Port, parent_id: PortId) -> None:
    parent = cast(Port, unit.tx.resources.get(Kind.PORT, parent_id).resource())
    if _hosts(sub_port) != _hosts(parent):
        raise PortInUseAsSubPort(
            f"port {sub_port.id} is a sub-port, and is on the hosts of its parent port "
            f"{parent_id}: change {HOST} of that one, or remove the sub-port from its trunk"
        )


def _requested(body: Body, *, with_tags: bool = True) -> Requested:
    """Return the sub-ports of a request, validated by themselves."""
    found = cast("list[Mapping[str, Any]]", body.get(SUB_PORTS) or [])
    validate_requested(found, with_tags=with_tags)
    return found


def _join(
    unit: UnitOfWork,
    trunk: Trunk,
    parent: Port,
    sub_ports: Iterable[SubPort],
    *,
    with_parent: bool = False,
) -> None:
    """Make ports part of *trunk*; sub-ports are bound to the hosts of *parent*."""
    memberships = {
        id: {"trunk": TRUNK_MEMBERSHIP.render(each)} for id, each in _memberships(trunk).items()
    }
    place = {"device_owner": DeviceOwner.TRUNK_SUB_PORT.value, HOST: parent.binding.host}
    bodies: dict[PortId, Body] = {
        sub.port_id: {**place, **memberships[sub.port_id]} for sub in sub_ports
    }
    with unit.elevated():
        if with_parent:
            _ports(unit).update_all(unit, {parent.id: memberships[parent.id]})
        _ports(unit).update_all(unit, bodies)
        if parent.binding.prepared_hosts:
            _ports(unit).bind_like(unit, parent, bodies)


def _leave(
    unit: UnitOfWork, trunk: Trunk, sub_ports: Iterable[SubPort], *, with_parent: bool = False
) -> None:
    """Take ports out of *trunk*; sub-ports are bound to no host any more."""
    free: Body = {"device_owner": "", HOST: "", "trunk": None}
    with unit.elevated():
        if with_parent:
            _ports(unit).update_all(unit, {trunk.port_id: {"trunk": None}})
        _ports(unit).update_all(unit, {sub.port_id: free for sub in sub_ports})


def _memberships(trunk: Trunk) -> dict[PortId, TrunkMembership]:
    """Return the memberships of all ports of *trunk*."""
    of_sub_ports = {
        sub.port_id: TrunkMembership(
            trunk_id=trunk.id, parent_id=trunk.port_id, segmentation_id=sub.segmentation_id
        )
        for sub in trunk.sub_ports
    }
    return {trunk.port_id: TrunkMembership(trunk_id=trunk.id), **of_sub_ports}


def _ports(unit: UnitOfWork) -> PortHandler:
    return cast(PortHandler, unit.context.handler("port"))
