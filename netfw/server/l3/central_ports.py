"""Ports of the central part of distributed routers.

The central part translates what leaves by the gateway. It has a port on each IPv4 subnet of the
router's interfaces, and one on each network for all its IPv6 subnets. They exist while the router
is distributed and has a gateway, and change in the transactions of the router and its interfaces.
They belong to no project, so that no quota counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from netfw.drivers.server.change import Change
from netfw.errors import NotFound
from netfw.errors.ports import IpAddressGenerationFailure
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.model.values.device_owner import DeviceOwner, is_distributed
from netfw.model.values.ids import NetworkId, PortId, SubnetId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.router_ports import (
    RouterPorts,
    change_port,
    drop_port,
    get_router_for_update,
    make_port,
    read_router_ports,
    router_of,
)

PortKey = tuple[NetworkId, SubnetId | None]
"""Network and IPv4 subnet of a port; without a subnet, it is for all IPv6 subnets."""


def update_central_ports(unit: UnitOfWork, change: Change) -> None:
    """Update the central part's ports of a router that changed, or whose interface did.

    It is a :data:`.PrecommitHook`.
    """
    match change.before, change.after:
        case Router() as before, Router() as router if _is_central(before) != _is_central(router):
            _update(unit, router.id)
        case before, after if _attachment(before) != _attachment(after):
            named = {_router_id(each) for each in (before, after)}
            for id in sorted(each for each in named if each is not None):
                _update(unit, id)
        case _:
            pass


def plan_central_ports(
    router: Router, attached: RouterPorts
) -> Mapping[PortKey, frozenset[SubnetId]]:
    """Return the subnets of each port that the central part of *router* is to have."""
    if not _is_central(router):
        return {}
    found: dict[PortKey, frozenset[SubnetId]] = {}
    for port in attached.interfaces:
        for key, subnets in _subnets_by_key(port).items():
            found[key] = found.get(key, frozenset()) | subnets
    return found


def _is_central(router: Router) -> bool:
    """Return whether *router* has a central part."""
    return router.distributed and router.gateway is not None


def _attachment(resource: object) -> tuple[object, ...] | None:
    """Return what the central part's ports depend on, of a port that matters to them."""
    if _router_id(resource) is None or not isinstance(resource, Port):
        return None
    return resource.device_id, resource.device_owner, resource.fixed_ips


def _router_id(resource: object) -> UUID | None:
    """Return the router of a port that is its distributed interface, or of its central part."""
    if not isinstance(resource, Port):
        return None
    owner = resource.device_owner
    matters = is_distributed(owner) or owner == DeviceOwner.ROUTER_CENTRALIZED_SNAT
    return router_of(resource) if matters else None


def _update(unit: UnitOfWork, router_id: UUID) -> None:
    """Give a router exactly the ports of its central part.

    :raises IpAddressGenerationFailure: a subnet has no address left.
    """
    try:
        router = get_router_for_update(unit, router_id)
    except NotFound:
        return  # deleted in this transaction
    attached = read_router_ports(unit.tx, router.id)
    wanted = dict(plan_central_ports(router, attached))
    for port in attached.central:
        keys = _subnets_by_key(port)
        key = next(iter(keys), None) if len(keys) == 1 else None
        subnets = wanted.pop(key, None) if key is not None else None
        if key is None or subnets is None:
            drop_port(unit, port)
        elif keys[key] != subnets:
            _readdress(unit, router, port.id, subnets)
    for (network, _), subnets in sorted(wanted.items(), key=str):
        _create(unit, router, attached.gateway, network, subnets)


def _subnets_by_key(port: Port) -> Mapping[PortKey, frozenset[SubnetId]]:
    found: dict[PortKey, frozenset[SubnetId]] = {}
    for fixed in port.fixed_ips:
        key = port.network_id, fixed.subnet_id if fixed.address.version == 4 else None
        found[key] = found.get(key, frozenset()) | {fixed.subnet_id}
    return found


def _create(
    unit: UnitOfWork,
    router: Router,
    gateway: Port | None,
    network: NetworkId,
    subnets: frozenset[SubnetId],
) -> None:
    """Create a port on *subnets* where the *gateway* is bound."""
    body: dict[str, Any] = {
        "project_id": "",
        "network_id": str(network),
        "device_id": str(router.id),
        "device_owner": DeviceOwner.ROUTER_CENTRALIZED_SNAT.value,
        "fixed_ips": _requested(subnets),
    }
    if gateway is not None:
        body["binding:host_id"] = gateway.binding.host
        body["binding:hosts"] = sorted(gateway.binding.hosts)
    try:
        make_port(unit, body)
    except IpAddressGenerationFailure as exc:
        raise _no_address(router, subnets) from exc


def _readdress(
    unit: UnitOfWork, router: Router, port: PortId, subnets: frozenset[SubnetId]
) -> None:
    try:
        change_port(unit, port, {"fixed_ips": _requested(subnets)})
    except IpAddressGenerationFailure as exc:
        raise _no_address(router, subnets) from exc


def _requested(subnets: frozenset[SubnetId]) -> list[Any]:
    return [{"subnet_id": str(each)} for each in sorted(subnets)]


def _no_address(router: Router, subnets: frozenset[SubnetId]) -> IpAddressGenerationFailure:
    named = ", ".join(str(each) for each in sorted(subnets))
    return IpAddressGenerationFailure(
        f"subnet {named} has no address left for the central part of distributed router "
        f"{router.id}: enlarge its allocation pools, or delete a port there"
    )
