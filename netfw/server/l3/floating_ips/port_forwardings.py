"""PortForwardingHandler, and the service plugin for port forwardings of floating IPs.

A floating IP either stands for one port, or forwards ports. With its first port forwarding it gets
the router that leads to all of them; with the last one it loses that router. All changes of the
port forwardings of a floating IP lock the floating IP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput
from netfw.errors.requests import BadRequest
from netfw.errors.routers import (
    ExternalGatewayForFloatingIPNotFound,
    FloatingIPPortAlreadyAssociated,
    PortForwardingNotFound,
    PortHasBindingFloatingIP,
)
from netfw.model import l3_extensions
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.port import FixedIp
from netfw.model.resource import Kind, Ref, ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import RouterId, SubnetId
from netfw.model.wire import parse, render
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.floating_ips.forwarded_port_index import ForwardedPortIndex
from netfw.server.l3.floating_ips.forwarded_ports import find_port_forwardings, release_router
from netfw.server.l3.floating_ips.inside_ports import (
    choose_fixed_ip,
    find_router,
    get_inside_port,
    lock_inside_ports,
)
from netfw.server.l3.port_hooks import QUOTA, find_floating_ips
from netfw.server.scheduling.missing_l3_extensions import check_extension

PARENT = "floatingip_id"
PORT = "internal_port_id"
ADDRESS = "internal_ip_address"


class PortForwardingHandler(StoredResourceHandler[PortForwarding]):
    """Port forwardings; the id of a member is ``<floating IP>/<port forwarding>``."""

    name: ClassVar[str] = "port_forwarding"
    kind: ClassVar[Kind] = Kind.PORT_FORWARDING
    quota: ClassVar[str | None] = QUOTA

    def find_projects(self, bodies: Sequence[Body]) -> Iterable[str]:
        return ()  # that of the floating IP: `do_create` reads it, and checks the quota then

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[PortForwarding, ...]:
        lock_inside_ports(unit, (body[PORT] for body in bodies))
        parents = sorted({str(body[PARENT]) for body in bodies})
        builders = {
            each: _ForwardingBuilder(unit, _locked_floating_ip(unit, each)) for each in parents
        }
        if len(bodies) > 1:
            owners = (builders[str(body[PARENT])].project_id for body in bodies)
            unit.check_quota(QUOTA, owners)
        return unit.insert(
            *(builders[str(body[PARENT])].add({**body, "id": str(uuid4())}) for body in bodies)
        )

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        own = Ref(self.kind, self.identity(id.partition("/")[2]))
        stored = [row.body[PORT] for row in unit.tx.resources.present([own])]
        lock_inside_ports(unit, [body[PORT]] if PORT in body else stored)
        return super().update(unit, id, body, revision)

    def do_update(self, unit: UnitOfWork, before: PortForwarding, body: Body) -> PortForwarding:
        floating = _locked_floating_ip(unit, str(before.floating_ip_id))
        builder = _ForwardingBuilder(unit, floating, replaced=before)
        return unit.update(before, builder.add(_merge(render(before), body)))

    def do_delete(self, unit: UnitOfWork, before: PortForwarding) -> None:
        unit.delete(before)
        release_router(unit, [_locked_floating_ip(unit, str(before.floating_ip_id))])

    def get_for_update(
        self, unit: UnitOfWork, id: str, revision: int | None = None
    ) -> PortForwarding:
        floating, _, own = id.partition("/")
        _locked_floating_ip(unit, floating)
        found = super().get_for_update(unit, own, revision)
        _check_parent(found.id, str(found.floating_ip_id), floating)
        return found

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        floating, _, own = id.partition("/")
        row = reader.resources.get(self.kind, self.identity(own), project=requester.sees)
        _check_parent(row.ref.id, row.body[PARENT], floating)
        return self._decorated(reader, requester, (row,))[0]

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        """Remove the floating IP, which the URL names, and tags, which there are none of."""
        for body in bodies:
            del body[PARENT], body["tags"]


class PortForwardingPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for port forwardings; it needs the plugin for routers."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (PortForwardingHandler(),))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("port_forwarding")


def _locked_floating_ip(unit: UnitOfWork, id: str) -> FloatingIp:
    handler = cast(StoredResourceHandler[FloatingIp], unit.context.handler("floatingip"))
    return handler.get_for_update(unit, id)


def _check_parent(id: UUID, floating_ip: str, named: str) -> None:
    if floating_ip != named:
        raise PortForwardingNotFound(
            f"there is no port_forwarding {id} of floating IP {named[:80]}"
        )


def _merge(before: Mapping[str, Any], body: Body) -> dict[str, Any]:
    """Return *before* with the changes of *body*.

    A port replaces a range and the other way round; another inside port comes with its own address.
    """
    merged = dict(before)
    for ports in ("external_port", "internal_port"):
        if ports in body or f"{ports}_range" in body:
            merged.pop(ports, None)
            merged.pop(f"{ports}_range", None)
    if PORT in body:
        merged.pop(ADDRESS)
    return {**merged, **body}


class _ForwardingBuilder:
    """Builds the port forwardings of one floating IP, which is locked.

    What is there already, and what leads to each inside address, is read once in a request.
    """

    def __init__(
        self, unit: UnitOfWork, floating: FloatingIp, replaced: PortForwarding | None = None
    ) -> None:
        """Read the other port forwardings of a floating IP.

        :param replaced: the port forwarding that is changed.
        :raises Conflict: the floating IP is associated already.
        """
        if floating.port_id is not None:
            raise FloatingIPPortAlreadyAssociated(
                f"floating IP {floating.address} stands for port {floating.port_id}; disassociate "
                "it, then it can forward single ports"
            )
        self._unit, self._floating = unit, floating
        present = find_port_forwardings(unit.tx, floatingip_id=[floating.id])
        own = None if replaced is None else replaced.id
        self._index = ForwardedPortIndex(each for each in present if each.id != own)
        self._inside: dict[tuple[str, object], FixedIp] = {}
        self._routed: set[SubnetId] = set()

    @property
    def project_id(self) -> str:
        """The project of the port forwardings: that of the floating IP."""
        return self._floating.project_id

    def add(self, body: Mapping[str, Any]) -> PortForwarding:
        """Return the port forwarding of *body*; give the floating IP the router that it needs.

        :raises NotFound: there is no such port that the requester may see.
        :raises InvalidInput: the port has no such address, no router leads to it, or ports overlap
            with those of another one.
        :raises Conflict: the address of the port is associated already, or the L3 agents of the
            router do not forward ports.
        """
        fixed = self._inside_address(str(body[PORT]), body.get(ADDRESS))
        values = {**body, "project_id": self._floating.project_id, ADDRESS: str(fixed.address)}
        new = cast(PortForwarding, parse(Kind.PORT_FORWARDING, values))
        first = not self._index
        self._index.add(new)
        if fixed.subnet_id not in self._routed:
            self._route(new, fixed, None if first else self._floating.router_id)
        return new

    def _inside_address(self, port: str, requested: Any) -> FixedIp:
        if (port, requested) not in self._inside:
            self._inside[port, requested] = _find_inside_address(
                self._unit, self._floating, port, None if requested is None else str(requested)
            )
        return self._inside[port, requested]

    def _route(self, new: PortForwarding, fixed: FixedIp, only: RouterId | None) -> None:
        unit, floating = self._unit, self._floating
        try:
            router = find_router(unit, floating, new.internal_port_id, fixed, only)
        except ExternalGatewayForFloatingIPNotFound as exc:
            raise BadRequest({PORT: str(exc)}) from exc
        check_extension(unit, router.id, l3_extensions.PORT_FORWARDING)
        self._routed.add(fixed.subnet_id)
        if router.id != floating.router_id:
            unit.tx.statuses.delete([ref(floating)])
            routed = evolve(floating, router_id=router.id, status=Status.DOWN)
            self._floating = unit.update(floating, routed)


def _find_inside_address(
    unit: UnitOfWork, floating: FloatingIp, port_id: str, requested: str | None
) -> FixedIp:
    try:
        port = get_inside_port(unit, port_id)
        fixed = choose_fixed_ip(unit, floating, port, requested)
    except InvalidInput as exc:
        names = {"port_id": PORT, "fixed_ip_address": ADDRESS}
        problems = {names[path]: text for path, text in exc.problems.items()}
        raise type(exc)(problems) from exc
    for other in find_floating_ips(unit, port_id=port.id):
        if other.fixed_address == fixed.address:
            raise PortHasBindingFloatingIP(
                f"{fixed.address} of port {port.id} has floating IP {other.address} already; "
                "disassociate that first"
            )
    return fixed
