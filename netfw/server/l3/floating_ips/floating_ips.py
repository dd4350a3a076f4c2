"""FloatingIpHandler: outside addresses that are translated to inside ones.

A port of the server's own on the external network holds the address. An association locks the
router, the inside port and the floating IP, so that none of them is deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, ClassVar, Final, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import Conflict, InvalidInput
from netfw.errors.ports import InvalidIpForNetwork
from netfw.errors.requests import BadRequest
from netfw.errors.routers import (
    FipInUseByPortForwarding,
    FloatingIPPortAlreadyAssociated,
    PortHasPortForwarding,
)
from netfw.model.floating_ip import FloatingIp
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind, Ref, ref
from netfw.model.subnet import Subnet
from netfw.model.values.address import as_address
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import NetworkId
from netfw.model.wire import parse, render
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.sharing import is_external_for
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.floating_ips.floating_ip_hosts import find_host
from netfw.server.l3.floating_ips.forwarded_ports import (
    find_port_forwardings,
    has_port_forwardings,
    render_forwarded,
)
from netfw.server.l3.floating_ips.inside_ports import (
    choose_fixed_ip,
    find_router,
    get_inside_port,
    lock_inside_ports,
)
from netfw.server.l3.port_hooks import disassociate, find_floating_ips
from netfw.server.l3.router_ports import drop_port, make_port
from netfw.server.l3.router_status import add_status_reasons

TARGET: Final = ("port_id", "fixed_ip_address")
ACTION_ATTRIBUTES: Final = frozenset({*TARGET, "subnet_id", "floating_ip_address", "router_id"})
"""Attributes that request an action instead of being stored as they are."""
DETAILS: Final = (
    "name",
    "network_id",
    "mac_address",
    "admin_state_up",
    "status",
    "device_id",
    "device_owner",
)
"""Attributes of the inside port, shown with the floating IP."""


class FloatingIpHandler(StoredResourceHandler[FloatingIp]):
    """Floating IPs and their associations."""

    name: ClassVar[str] = "floatingip"
    kind: ClassVar[Kind] = Kind.FLOATING_IP
    quota: ClassVar[str | None] = "floatingip"

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[FloatingIp, ...]:
        lock_inside_ports(unit, (body.get("port_id") for body in bodies))
        return tuple(self._new(unit, body) for body in bodies)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        if body.get("port_id") is not None:
            lock_inside_ports(unit, (body["port_id"],))
        elif body.get("fixed_ip_address") is not None:
            row = unit.tx.resources.get(self.kind, self.identity(id), project=unit.requester.sees)
            lock_inside_ports(unit, (row.body["port_id"],))
        return super().update(unit, id, body, revision)

    def do_update(self, unit: UnitOfWork, before: FloatingIp, body: Body) -> FloatingIp:
        plain = {name: value for name, value in body.items() if name not in ACTION_ATTRIBUTES}
        after = cast(FloatingIp, parse(self.kind, {**render(before), **plain}))
        if not body:  # the oldest form of a disassociation, which clients still use
            after = _associated(unit, after, {"port_id": None})
        elif any(name in body for name in TARGET):
            after = _associated(unit, after, body)
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: FloatingIp) -> None:
        if has_port_forwardings(before):
            raise FipInUseByPortForwarding(
                f"floating IP {before.address} has port forwardings; delete them first"
            )
        filters = {"device_id": (str(before.id),), "device_owner": (DeviceOwner.FLOATING_IP.value,)}
        for row in unit.tx.resources.find(Kind.PORT, Query(filters=filters)):
            drop_port(unit, cast(Port, row.resource()))
        unit.tx.statuses.delete([ref(before)])
        unit.delete(before)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        wanted = {Ref(Kind.PORT, UUID(body["port_id"])) for body in bodies if body["port_id"]}
        rows = reader.resources.present(wanted) if wanted else ()
        ports = {row.body["id"]: row.body for row in rows}
        for body in bodies:
            port = ports.get(body["port_id"])
            body["port_details"] = None if port is None else {name: port[name] for name in DETAILS}
        _add_port_forwardings(reader, bodies)
        add_status_reasons(reader, self.kind, bodies)

    def _new(self, unit: UnitOfWork, body: Body) -> FloatingIp:
        id, network = uuid4(), NetworkId(UUID(str(body["floating_network_id"])))
        port = _make_outside_port(unit, id, network, body)
        plain = {name: value for name, value in body.items() if name not in ACTION_ATTRIBUTES}
        address = str(port.fixed_ips[0].address)
        attributes = {**plain, "id": str(id), "floating_ip_address": address}
        floating = cast(FloatingIp, parse(self.kind, attributes))
        return unit.insert(_associated(unit, floating, body))[0]


def _add_port_forwardings(reader: Reader, bodies: Sequence[MutableMapping[str, Any]]) -> None:
    """Add their port forwardings to floating IPs, in one statement if any has some."""
    rendered: dict[str, list[dict[str, Any]]] = {str(body["id"]): [] for body in bodies}
    ids = [UUID(body["id"]) for body in bodies if body["router_id"] and not body["port_id"]]
    for each in find_port_forwardings(reader, floatingip_id=ids) if ids else ():
        rendered[str(each.floating_ip_id)].append(render_forwarded(each))
    for body in bodies:
        body["port_forwardings"] = rendered[str(body["id"])]


def _make_outside_port(unit: UnitOfWork, id: UUID, network_id: NetworkId, body: Body) -> Port:
    """Create the port that holds the outside address.

    :raises NotFound: there is no such network that the requester may see.
    :raises BadRequest: it is not external, or has no such address.
    :raises Conflict: the address is taken, or none is left.
    """
    network, subnets = unit.visible_network(network_id)
    if not is_external_for(unit, network):
        raise BadRequest(
            {"floating_network_id": f"network {network_id} is not external (router:external)"}
        )
    _check_outside(subnets, body)
    refusal: Conflict | None = None
    for wanted in _requested_addresses(subnets, body):
        try:
            return make_port(
                unit,
                {
                    "project_id": "",
                    "network_id": str(network_id),
                    "device_id": str(id),
                    "device_owner": DeviceOwner.FLOATING_IP.value,
                    "fixed_ips": [wanted],
                },
            )
        except InvalidInput as exc:
            attribute = "floating_ip_address" if "ip_address" in wanted else "subnet_id"
            raise type(exc)({attribute: "; ".join(exc.problems.values())}) from exc
        except Conflict as exc:
            refusal = exc
    if refusal is not None:
        raise refusal
    raise BadRequest(
        {"floating_network_id": f"network {network_id} has no IPv4 subnet for an address"}
    )


def _check_outside(subnets: Sequence[Subnet], body: Body) -> None:
    """Refuse, in terms of the request, a subnet or address that the external network does not
    have."""
    subnet, address = body.get("subnet_id"), body.get("floating_ip_address")
    if subnet and all(str(subnet) != str(each.id) for each in subnets):
        raise InvalidInput({"subnet_id": f"{subnet} is no subnet of the external network"})
    if address and all(as_address(str(address)) not in each.cidr for each in subnets):
        text = f"{address} is in no subnet of the external network"
        raise InvalidIpForNetwork({"floating_ip_address": text})


def _requested_addresses(subnets: Sequence[Subnet], body: Body) -> list[dict[str, str]]:
    """Return the candidates for ``fixed_ips`` in order: the requested address or subnet, or any."""
    wanted: dict[str, str] = {}
    if body.get("subnet_id"):
        wanted["subnet_id"] = str(body["subnet_id"])
    if body.get("floating_ip_address"):
        wanted["ip_address"] = str(body["floating_ip_address"])
    if wanted:
        return [wanted]
    fitting = [each for each in subnets if each.ip_version == 4]
    meant = [each for each in fitting if DeviceOwner.FLOATING_IP in each.service_types]
    plain = [each for each in fitting if not each.service_types]
    return [{"subnet_id": str(each.id)} for each in (*meant, *plain)]


def _associated(unit: UnitOfWork, floating: FloatingIp, body: Body) -> FloatingIp:
    """Return *floating*, associated with what *body* names.

    :raises NotFound: there is no such port, or no router leads from it to the floating IP.
    :raises BadRequest: the port has no such address, or belongs to the network itself.
    :raises Conflict: the address has a floating IP already.
    """
    port_id = body.get("port_id", None if floating.port_id is None else str(floating.port_id))
    requested = body.get("fixed_ip_address")
    if port_id is None:
        if requested is not None:
            raise BadRequest({"fixed_ip_address": "belongs to no port; name port_id too"})
        if floating.port_id is None:
            return floating
        unit.tx.statuses.delete([ref(floating)])
        return disassociate(floating)
    if has_port_forwardings(floating):
        raise FipInUseByPortForwarding(
            f"floating IP {floating.address} has port forwardings; delete them first, or take "
            "another one"
        )
    port = get_inside_port(unit, str(port_id))
    fixed = choose_fixed_ip(unit, floating, port, None if requested is None else str(requested))
    _check_unassociated(unit, floating, port, fixed)
    router = find_router(unit, floating, port.id, fixed)
    after = evolve(floating, port_id=port.id, fixed_address=fixed.address, router_id=router.id)
    if after == floating:
        return floating
    if floating.port_id is not None:
        unit.tx.statuses.delete([ref(floating)])
    return evolve(after, host=find_host(unit, router, port, fixed.address), status=Status.DOWN)


def _check_unassociated(unit: UnitOfWork, floating: FloatingIp, port: Port, fixed: FixedIp) -> None:
    for other in find_floating_ips(unit, port_id=port.id):
        mapping = (other.fixed_address, other.network_id)
        if other.id != floating.id and mapping == (fixed.address, floating.network_id):
            raise FloatingIPPortAlreadyAssociated(
                f"{fixed.address} of port {port.id} has floating IP {other.address} of network "
                f"{other.network_id} already; disassociate that first"
            )
    for forwarding in find_port_forwardings(unit.tx, internal_port_id=[port.id]):
        if forwarding.internal_address == fixed.address:
            text = f"port forwarding {forwarding.id} of floating IP {forwarding.floating_ip_id}"
            raise PortHasPortForwarding(
                {"port_id": f"{fixed.address} of port {port.id} has {text}; delete that first"}
            )
