"""Interfaces and routes of routers.

A request names a subnet, whose gateway address the interface gets, or an existing port. IPv6
subnets of one network share a port.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast
from uuid import UUID

from netfw.drivers.server.query import Body
from netfw.errors import Forbidden
from netfw.errors.networks import SubnetMismatchForPort
from netfw.errors.ports import PortInUse
from netfw.errors.requests import BadRequest
from netfw.errors.routers import (
    InvalidRoutes,
    RouterInterfaceNotFound,
    RouterInterfaceNotFoundForSubnet,
    RoutesExhausted,
)
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.ids import PortId, SubnetId
from netfw.model.values.route import Route
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.router_ports import (
    RouterPorts,
    change_port,
    drop_port,
    interface_owner,
    make_port,
    read_router_ports,
    subnets_of,
)


def check_apart(new: Subnet, others: Iterable[Subnet], path: str) -> None:
    """Validate that *new* does not overlap with the subnets of a router.

    :raises BadRequest: at *path*, it is one of them, or their addresses overlap.
    """
    for other in others:
        if other.id == new.id:
            raise BadRequest({path: f"the router has a port on subnet {new.id} already"})
        provisional = other.provisional or new.provisional
        if other.ip_version == new.ip_version and not provisional and other.cidr.overlaps(new.cidr):
            raise BadRequest(
                {
                    path: f"{new.cidr} of subnet {new.id} overlaps {other.cidr} of subnet "
                    f"{other.id}, which the router is connected to"
                }
            )


def add_interface(unit: UnitOfWork, router: Router, body: Body) -> Body:
    """Connect *router* to a subnet, or by a port.

    :raises NotFound: there is no such subnet or port that the requester may see.
    :raises BadRequest: the router cannot be there.
    :raises Forbidden: it would take another project's port, or its network's gateway address.
    :raises Conflict: the port, or the address, is in use.
    """
    subnet_id, port_id = _one_of(body)
    attached = read_router_ports(unit.tx, router.id)
    if port_id is not None:
        port = _by_port(unit, router, attached, port_id)
        subnets = tuple(fixed.subnet_id for fixed in port.fixed_ips)
    else:
        subnet = _subnet(unit, cast(SubnetId, subnet_id))
        port, subnets = _by_subnet(unit, router, attached, subnet), (subnet.id,)
    unit.touch(router)
    return _render_interface(router, port, subnets)


def remove_interface(unit: UnitOfWork, router: Router, body: Body) -> Body:
    """Disconnect *router* from a subnet, or remove a port.

    A pre-commit hook checks whether something needs the interface.

    :raises NotFound: the router has no such interface.
    :raises SubnetMismatchForPort: the port is not on the subnet.
    """
    subnet_id, port_id = _parse_id(body, "subnet_id"), _parse_id(body, "port_id")
    if subnet_id is None and port_id is None:
        raise BadRequest({"subnet_id": "is required, or port_id"})
    attached = read_router_ports(unit.tx, router.id)
    port = _interface(router, attached, subnet_id, port_id)
    subnets = tuple(fixed.subnet_id for fixed in port.fixed_ips)
    if subnet_id is not None and any(each != subnet_id for each in subnets):
        left = [
            {"subnet_id": str(fixed.subnet_id), "ip_address": str(fixed.address)}
            for fixed in port.fixed_ips
            if fixed.subnet_id != subnet_id
        ]
        change_port(unit, port.id, {"fixed_ips": left})
        subnets = (SubnetId(subnet_id),)
    else:
        drop_port(unit, port)
    unit.touch(router)
    return _render_interface(router, port, subnets)


def _one_of(body: Body) -> tuple[UUID | None, UUID | None]:
    subnet_id, port_id = _parse_id(body, "subnet_id"), _parse_id(body, "port_id")
    if (subnet_id is None) == (port_id is None):
        raise BadRequest({"subnet_id": "say either subnet_id or port_id"})
    return subnet_id, port_id


def _parse_id(body: Body, name: str) -> UUID | None:
    value = body.get(name)
    try:
        return None if value is None else UUID(str(value))
    except ValueError as exc:
        raise BadRequest({name: "is not an id"}) from exc


def _subnet(unit: UnitOfWork, id: SubnetId) -> Subnet:
    row = unit.tx.resources.get(Kind.SUBNET, id, project=unit.requester.sees)
    subnet = cast(Subnet, row.resource())
    if subnet.gateway is None:
        raise BadRequest(
            {
                "subnet_id": f"subnet {id} has no gateway address for the router to take; give it "
                "one, or connect the router by a port"
            }
        )
    if subnet.ipv6_address_mode is not None and subnet.ipv6_ra_mode is None:
        raise BadRequest(
            {"subnet_id": f"subnet {id} is announced by a router that is not ours (ipv6_ra_mode)"}
        )
    _check_gateway(unit, subnet)
    return subnet


def _check_gateway(unit: UnitOfWork, subnet: Subnet) -> None:
    """Check the right to the gateway address, to which all hosts of the network send.

    :raises Forbidden: the network belongs to another project.
    """
    owner = unit.network(subnet.network_id).project_id
    if not unit.requester.admin and unit.requester.project_id != owner:
        raise Forbidden(
            f"{subnet.gateway} is the gateway of a network that another project owns; make a port "
            "there and connect the router by it (port_id)"
        )


def _by_subnet(unit: UnitOfWork, router: Router, attached: RouterPorts, subnet: Subnet) -> Port:
    check_apart(subnet, attached.subnets.values(), "subnet_id")
    wanted = {"subnet_id": str(subnet.id), "ip_address": str(subnet.gateway)}
    beside = _ipv6_port(attached, subnet) if subnet.ip_version == 6 else None
    if beside is not None:
        present = [
            {"subnet_id": str(fixed.subnet_id), "ip_address": str(fixed.address)}
            for fixed in beside.fixed_ips
        ]
        return change_port(unit, beside.id, {"fixed_ips": [*present, wanted]})
    return make_port(
        unit,
        {
            "project_id": router.project_id,
            "network_id": str(subnet.network_id),
            "device_id": str(router.id),
            "device_owner": interface_owner(router),
            "fixed_ips": [wanted],
        },
    )


def _ipv6_port(attached: RouterPorts, subnet: Subnet) -> Port | None:
    """Return the interface on the subnet's network that has IPv6 addresses only."""
    for port in attached.interfaces:
        versions = {fixed.address.version for fixed in port.fixed_ips}
        if port.network_id == subnet.network_id and versions == {6}:
            return port
    return None


def _by_port(unit: UnitOfWork, router: Router, attached: RouterPorts, id: UUID) -> Port:
    row = unit.tx.resources.get(Kind.PORT, id, project=unit.requester.sees, lock=True)
    port = cast(Port, row.resource())
    if not unit.requester.admin and port.project_id != unit.requester.project_id:
        raise Forbidden(f"port {id} belongs to another project; a router takes one of its own")
    if port.device_id:
        raise PortInUse(
            f"port {id} is in use by {port.device_owner or 'device'} {port.device_id}; "
            "a router takes only an unused port"
        )
    if port.trunk is not None:
        raise PortInUse(
            f"port {id} is of trunk {port.trunk.trunk_id}; a router takes only an unused port"
        )
    subnets = subnets_of(unit.tx, port.fixed_ips)
    _check_port(port, tuple(subnets.values()), attached)
    return change_port(
        unit,
        PortId(id),
        {"device_id": str(router.id), "device_owner": interface_owner(router)},
    )


def _check_port(port: Port, subnets: Sequence[Subnet], attached: RouterPorts) -> None:
    if not subnets:
        raise BadRequest({"port_id": f"port {port.id} has no address; a router needs one"})
    for subnet in subnets:
        check_apart(subnet, attached.subnets.values(), "port_id")
    if sum(subnet.ip_version == 4 for subnet in subnets) > 1:
        raise BadRequest(
            {"port_id": f"port {port.id} is on several IPv4 subnets; a router's is on one"}
        )
    if any(subnet.ip_version == 6 for subnet in subnets):
        for other in attached.interfaces:
            versions = {fixed.address.version for fixed in other.fixed_ips}
            if other.network_id == port.network_id and 6 in versions:
                raise BadRequest(
                    {
                        "port_id": f"the router's port {other.id} is for the IPv6 subnets of "
                        f"network {port.network_id}; add subnets to it by subnet_id"
                    }
                )


def _interface(
    router: Router, attached: RouterPorts, subnet_id: UUID | None, port_id: UUID | None
) -> Port:
    if port_id is None:
        found = attached.on(SubnetId(cast(UUID, subnet_id)))
        if found is None:
            raise RouterInterfaceNotFoundForSubnet(
                f"router {router.id} has no interface on subnet {subnet_id}"
            )
        return found
    for port in attached.interfaces:
        if port.id == port_id:
            on = {fixed.subnet_id for fixed in port.fixed_ips}
            if subnet_id is not None and subnet_id not in on:
                raise SubnetMismatchForPort(
                    {"subnet_id": f"port {port_id} is not on subnet {subnet_id}"}
                )
            return port
    raise RouterInterfaceNotFound(f"router {router.id} has no interface {port_id}")


def _render_interface(router: Router, port: Port, subnets: Sequence[UUID]) -> Body:
    return {
        "id": str(router.id),
        "project_id": router.project_id,
        "tenant_id": router.project_id,
        "port_id": str(port.id),
        "network_id": str(port.network_id),
        "subnet_id": str(subnets[0]) if subnets else None,
        "subnet_ids": [str(each) for each in subnets],
        "tags": sorted(router.tags),
    }


def check_routes(new: Sequence[Route], attached: RouterPorts, most: int) -> None:
    """Validate the routes of a router.

    :raises InvalidRoutes: naming each next hop that the router does not reach, or that is its own.
    """
    if len(new) > most:
        raise RoutesExhausted(
            {"routes": f"{len(new)} are more than the {most} that a router can have"}
        )
    own, problems = attached.addresses, {}
    for at, route in enumerate(new):
        if route.nexthop in own:
            problems[f"routes[{at}].nexthop"] = f"{route.nexthop} is the router's own address"
        elif not reaches(attached.subnets.values(), route):
            problems[f"routes[{at}].nexthop"] = (
                f"{route.nexthop} is on no subnet that the router is connected to"
            )
    if problems:
        raise InvalidRoutes(problems)


def reaches(subnets: Iterable[Subnet], route: Route) -> bool:
    """Return whether the next hop of *route* is on one of *subnets*."""
    return any(route.nexthop in subnet.cidr for subnet in subnets)


def add_routes(present: Sequence[Route], new: Iterable[Route]) -> tuple[Route, ...]:
    """Return *present* with those of *new* that are not among them."""
    return tuple(dict.fromkeys((*present, *new)))


def remove_routes(present: Sequence[Route], gone: Iterable[Route]) -> tuple[Route, ...]:
    """Return *present* without *gone*; a missing route is ignored."""
    without = set(gone)
    return tuple(route for route in present if route not in without)
