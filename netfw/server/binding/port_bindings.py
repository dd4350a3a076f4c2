"""PortBindingHandler: the bindings of a port, as a resource below it.

A port has one binding, to its host. A second one, prepared on another host, comes with live
migration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import InvalidInput, NotFound, NotSupported
from netfw.model.binding import VifType
from netfw.model.resource import Kind
from netfw.server.core.resource_handler import Reader, ResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork

LATER = "a port has one binding, which follows its binding:host_id; a second one is not supported"
PARENT = "port_id"


class PortBindingHandler(ResourceHandler):
    """Shows the bindings of ports, and why they failed."""

    name: ClassVar[str] = "binding"

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        ports = [str(each) for each in query.filters.get(PARENT, ())]
        if len(ports) != 1:
            raise InvalidInput({PARENT: "say the one port whose bindings you want"})
        found = _bindings(reader, requester, ports[0])
        return tuple(body for body in found if _wanted(body, query))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        port, _, host = id.partition("/")
        for body in _bindings(reader, requester, port):
            if body["host"] == host:
                return body
        raise NotFound(f"port {port[:80]} has no binding to host {host[:80]!r}")

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        raise NotSupported(LATER)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        raise NotSupported(f"{LATER}; change binding:profile or binding:vnic_type of the port")

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        raise NotSupported(f"{LATER}; empty binding:host_id of the port")

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        raise NotSupported(LATER)


def _bindings(reader: Reader, requester: RequestContext, port: str) -> tuple[dict[str, Any], ...]:
    try:
        id = UUID(port)
    except ValueError:
        raise NotFound(f"there is no port {port[:80]!r}") from None
    body = reader.resources.get(Kind.PORT, id, project=requester.sees).body
    if not body["binding:host_id"]:
        return ()
    return (_binding(body),)


def _binding(port: Mapping[str, Any]) -> dict[str, Any]:
    bound = port["binding:vif_type"] != VifType.BINDING_FAILED.value
    return {
        "port_id": port["id"],
        "project_id": port["project_id"],
        "host": port["binding:host_id"],
        "vnic_type": port["binding:vnic_type"],
        "vif_type": port["binding:vif_type"],
        "vif_details": port["binding:vif_details"],
        "profile": port["binding:profile"],
        "status": "ACTIVE" if bound else "INACTIVE",
    }


def _wanted(body: Mapping[str, Any], query: Query) -> bool:
    return all(body.get(name) in values for name, values in query.filters.items() if name != PARENT)
