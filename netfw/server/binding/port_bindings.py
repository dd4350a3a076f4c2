"""PortBindingHandler: the bindings of a port, as a resource below it.

The active binding is that of the port itself.  The port of an instance can have inactive ones on
other hosts, which prepare for it; activating one moves the port there.  Live migration does so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import Conflict, NotFound, NotSupported
from netfw.errors.ports import (
    PortBindingAlreadyActive,
    PortBindingAlreadyExists,
    PortBindingError,
    PortBindingNotFound,
    PortNotFound,
)
from netfw.errors.requests import BadRequest
from netfw.model.binding import Binding, VifType
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.values.device_owner import COMPUTE_PREFIX, is_compute
from netfw.model.wire.ports import BINDING
from netfw.server.binding.algorithm import FAILURE
from netfw.server.binding.binder import HOST, PortBinder
from netfw.server.binding.inactive_bindings import (
    MAX_INACTIVE,
    StoredBinding,
    inactive_bindings,
)
from netfw.server.core.resource_handler import Reader, ResourceHandler, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.row import Row

PARENT = "port_id"
_INPUTS = ("vnic_type", "profile")
"""Attributes of a binding that requests set, each an attribute of the port with a prefix."""


class PortBindingHandler(ResourceHandler):
    """Bindings of ports; each change of them is a change of the port."""

    name: ClassVar[str] = "binding"

    def __init__(self, ports: StoredResourceHandler[Port], binder: PortBinder) -> None:
        self._ports, self._binder = ports, binder

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        ports = [str(each) for each in query.filters.get(PARENT, ())]
        if len(ports) != 1:
            raise BadRequest({PARENT: "say the one port whose bindings you want"})
        found = _bindings(reader, requester, ports[0])
        return tuple(body for body in found if _wanted(body, query))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        port, _, host = id.partition("/")
        for body in _bindings(reader, requester, port):
            if body["host"] == host:
                return body
        raise _no_binding(port, host)

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return tuple(self._create(unit, body) for body in bodies)

    def _create(self, unit: UnitOfWork, body: Body) -> Body:
        port, host = self._ports.get_for_update(unit, str(body[PARENT])), str(body["host"])
        _require_instance(port)
        inactive = inactive_bindings(unit.extra_of(port))
        if host == port.binding.host or host in inactive:
            raise PortBindingAlreadyExists(f"port {port.id} has a binding to host {host!r} already")
        if len(inactive) >= MAX_INACTIVE:
            raise Conflict(f"port {port.id} has {MAX_INACTIVE} inactive bindings; delete one first")
        if not port.binding.host:
            return self._update_active(unit, port, {**body, "host": host})
        inactive[host] = self._prepare(unit, port, Binding(host=host), body)
        return self._store(unit, port, inactive, host)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        port, inactive, host = self._instance_member(unit, id, revision)
        if host == port.binding.host:
            return self._update_active(unit, port, body)
        inactive[host] = self._prepare(unit, port, inactive[host].binding, body)
        return self._store(unit, port, inactive, host)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        port, inactive, host = self._member(unit, id, revision)
        if host == port.binding.host:
            raise Conflict(
                f"the binding of port {port.id} to host {host!r} is active; activate another one "
                f"first, or empty {HOST} of the port"
            )
        del inactive[host]
        unit.update(port, self._binder.store_inactive(unit, port, inactive.values()))

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        if action != "activate":
            raise NotSupported(f"a {self.name} has no action {action!r}")
        port, _, host = self._instance_member(unit, id)
        if host == port.binding.host:
            raise PortBindingAlreadyActive(
                f"the binding of port {port.id} to host {host!r} is active already"
            )
        return _active_body(unit.update(port, self._binder.activate(unit, port, host)))

    def _member(
        self, unit: UnitOfWork, id: str, revision: int | None = None
    ) -> tuple[Port, dict[str, StoredBinding], str]:
        """Return a port, locked, with its inactive bindings, and the host that *id* names."""
        port_id, _, host = id.partition("/")
        port = self._ports.get_for_update(unit, port_id, revision)
        inactive = inactive_bindings(unit.extra_of(port))
        if not host or (host != port.binding.host and host not in inactive):
            raise _no_binding(port_id, host)
        return port, inactive, host

    def _instance_member(
        self, unit: UnitOfWork, id: str, revision: int | None = None
    ) -> tuple[Port, dict[str, StoredBinding], str]:
        """Return what `_member` does, if the port is of an instance."""
        found = self._member(unit, id, revision)
        _require_instance(found[0])
        return found

    def _prepare(self, unit: UnitOfWork, port: Port, binding: Binding, body: Body) -> StoredBinding:
        """Return *binding* as *body* changes it, bound by the mechanism drivers.

        :raises InvalidInput: no driver binds it.
        """
        changes = {f"binding:{name}": body[name] for name in _INPUTS if name in body}
        requested = BINDING.parse({**BINDING.render(binding), **changes})
        made = self._binder.prepare(unit, port, requested)
        _refuse_failed(made.binding)
        return made

    def _update_active(self, unit: UnitOfWork, port: Port, body: Body) -> Body:
        """Change the binding of the port itself."""
        changes = {f"binding:{name}": body[name] for name in _INPUTS if name in body}
        if "host" in body:
            changes[HOST] = body["host"]
        after = self._ports.do_update(unit, port, changes)
        _refuse_failed(after.binding)
        return _active_body(after)

    def _store(
        self, unit: UnitOfWork, port: Port, inactive: Mapping[str, StoredBinding], host: str
    ) -> Body:
        after = unit.update(port, self._binder.store_inactive(unit, port, inactive.values()))
        return _inactive_body(after, inactive[host])


def _no_binding(port: str, host: str) -> NotFound:
    return PortBindingNotFound(f"port {port[:80]} has no binding to host {host[:80]!r}")


def _require_instance(port: Port) -> None:
    """Refuse a port that is not of an instance: it has one binding at most."""
    if not is_compute(port.device_owner):
        problem = (
            f"it is of {port.device_owner or 'no device'}; only a port of an instance "
            f"({COMPUTE_PREFIX}...) has several bindings"
        )
        raise BadRequest({PARENT: problem})


def _refuse_failed(binding: Binding) -> None:
    if binding.vif_type == VifType.BINDING_FAILED.value:
        reasons = cast("list[str]", binding.vif_details.other.content()[FAILURE])
        raise PortBindingError(
            {"host": f"no driver binds it to {binding.host!r}: {'; '.join(reasons)}"}
        )


def _bindings(reader: Reader, requester: RequestContext, port: str) -> tuple[Body, ...]:
    try:
        id = UUID(port)
    except ValueError:
        raise PortNotFound(f"there is no port {port[:80]!r}") from None
    row: Row = reader.resources.get(Kind.PORT, id, project=requester.sees)
    value = cast(Port, row.resource())
    if not value.binding.host:
        return ()
    inactive = inactive_bindings(row.extra).values()
    return (_active_body(value), *(_inactive_body(value, each) for each in inactive))


def _active_body(port: Port) -> Body:
    bound = port.binding.vif_type != VifType.BINDING_FAILED.value
    return _body(port, port.binding, "ACTIVE" if bound else "INACTIVE")


def _inactive_body(port: Port, stored: StoredBinding) -> Body:
    return _body(port, stored.binding, "INACTIVE")


def _body(port: Port, binding: Binding, status: str) -> Body:
    shown = BINDING.render(evolve(binding, hosts=(), prepared_hosts=()))
    return {
        PARENT: str(port.id),
        "project_id": port.project_id,
        "host": binding.host,
        **{
            name: shown[f"binding:{name}"]
            for name in ("vnic_type", "vif_type", "vif_details", "profile")
        },
        "status": status,
    }


def _wanted(body: Mapping[str, Any], query: Query) -> bool:
    return all(body.get(name) in values for name, values in query.filters.items() if name != PARENT)
