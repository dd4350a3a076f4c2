"""Subnets whose prefixes a provider delegates to the gateway of their router.

Their router is the one whose interface has the gateway address of the subnet, which only the owner
of the network can give away: other routers on a shared network have no part in it.  An agent
reports the prefix.  Without its router's gateway or interface a subnet is provisional again,
whether or not an agent runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Network
from typing import cast
from uuid import UUID

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.agent_requests import SetPrefix
from netfw.errors import Conflict, InvalidInput
from netfw.model.port import Port
from netfw.model.renumbering import renumber
from netfw.model.resource import Kind
from netfw.model.subnet import PROVISIONAL_PREFIX, Subnet
from netfw.model.values.device_owner import ROUTER_INTERFACES, DeviceOwner, is_router_attachment
from netfw.model.values.ids import SubnetId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l2.subnets import SubnetHandler
from netfw.server.l3.router_interfaces import check_apart
from netfw.server.l3.router_ports import (
    get_router_for_update,
    read_router_ports,
    router_of,
    subnets_of,
)


def set_prefix(unit: UnitOfWork, request: SetPrefix) -> None:
    """Renumber a subnet to a delegated prefix, or make it provisional.

    :raises NotFound: there is no such subnet.
    :raises InvalidInput: no subnet can have the prefix, or another one has it.
    :raises Conflict: the prefix of the subnet is not delegated, or not to the router of *request*.
    """
    subnet, prefix = request.subnet, request.prefix
    found = cast(Subnet, unit.tx.resources.get(Kind.SUBNET, subnet).resource())
    if not found.delegated:
        raise Conflict(f"the prefix of subnet {subnet} is {found.cidr} and is not delegated")
    if request.router not in _routers(unit, found):
        raise Conflict(f"router {request.router} does not have the gateway address of {subnet}")
    if prefix is None:
        _renumber(unit, subnet, None)
        return
    if not isinstance(prefix, IPv6Network) or prefix.prefixlen != PROVISIONAL_PREFIX.prefixlen:
        raise InvalidInput({"prefix": f"{prefix} is no prefix of IPv6 with 64 bits"})
    if prefix == PROVISIONAL_PREFIX or prefix.is_link_local:
        raise InvalidInput({"prefix": f"{prefix} has no addresses that are routed"})
    _check_routers(unit, found, prefix)
    _renumber(unit, subnet, prefix)


def withdraw_delegated_prefixes(unit: UnitOfWork, change: Change) -> None:
    """Make the subnets of a lost gateway or interface provisional; a pre-commit hook."""
    before, after = change.before, change.after
    if not isinstance(before, Port) or not is_router_attachment(before.device_owner):
        return
    still = after if isinstance(after, Port) and after.device_id == before.device_id else None
    if before.device_owner == DeviceOwner.ROUTER_GATEWAY:
        router = router_of(before)
        if still is None and router is not None:
            attached = read_router_ports(unit.tx, router)
            _withdraw(unit, _delegated_by(attached.interfaces, attached.subnets.values()))
        return
    left = {fixed.subnet_id for fixed in still.fixed_ips} if still is not None else set()
    gone = (fixed for fixed in before.fixed_ips if fixed.subnet_id not in left)
    _withdraw(unit, _delegated_by([before], subnets_of(unit.tx, gone).values()))


def _delegated_by(interfaces: Iterable[Port], subnets: Iterable[Subnet]) -> list[Subnet]:
    """Return those of *subnets* whose gateway address one of *interfaces* has."""
    held = {(each.subnet_id, each.address) for port in interfaces for each in port.fixed_ips}
    return [subnet for subnet in subnets if (subnet.id, subnet.gateway) in held]


def _withdraw(unit: UnitOfWork, subnets: Iterable[Subnet]) -> None:
    for subnet in sorted(subnets, key=lambda each: each.id):
        if subnet.delegated and not subnet.provisional:
            _renumber(unit, subnet.id, None)


def _renumber(unit: UnitOfWork, id: SubnetId, prefix: IPv6Network | None) -> None:
    handler = cast(SubnetHandler, unit.context.handler("subnet"))
    with unit.elevated():
        network = cast(Subnet, unit.tx.resources.get(Kind.SUBNET, id).resource()).network_id
        unit.network(network, lock=True)
        handler.renumber(unit, handler.get_for_update(unit, str(id)), prefix)


def _check_routers(unit: UnitOfWork, subnet: Subnet, prefix: IPv6Network) -> None:
    """Check that the router of *subnet* has a gateway, and that no other subnet of it has
    *prefix*; it is locked, so that both stay."""
    has_gateway = False
    for id in sorted(_routers(unit, subnet)):
        get_router_for_update(unit, id)
        attached = read_router_ports(unit.tx, id)
        is_attached = bool(_delegated_by(attached.interfaces, [subnet]))
        has_gateway |= attached.gateway is not None and is_attached
        others = (each for each in attached.subnets.values() if each.id != subnet.id)
        check_apart(renumber(subnet, prefix), others, "prefix")
    if not has_gateway:
        raise Conflict(
            f"no router with a gateway has the gateway address of subnet {subnet.id}: no provider "
            "can delegate a prefix to it"
        )


def _routers(unit: UnitOfWork, subnet: Subnet) -> frozenset[UUID]:
    """Return the routers with the gateway address of a subnet."""
    wanted = {"fixed_ips": (f"subnet_id={subnet.id}",), "device_owner": ROUTER_INTERFACES}
    rows = unit.tx.resources.find(Kind.PORT, Query(filters=wanted))
    ports = (cast(Port, row.resource()) for row in rows)
    found = (router_of(port) for port in ports if _delegated_by([port], [subnet]))
    return frozenset(id for id in found if id is not None)
