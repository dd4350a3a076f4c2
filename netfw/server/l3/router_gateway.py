"""External gateways of routers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from netfw.errors import InvalidInput
from netfw.errors.requests import BadRequest
from netfw.model.port import Port
from netfw.model.router import ExternalGateway, Router
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import NetworkId
from netfw.server.core.sharing import is_external_for
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.router_interfaces import check_apart
from netfw.server.l3.router_ports import (
    RouterPorts,
    change_port,
    drop_port,
    make_port,
    read_router_ports,
)

GATEWAY_INFO = "external_gateway_info"

Info = Mapping[str, Any]


def update_gateway(unit: UnitOfWork, router: Router, info: Info | None) -> ExternalGateway | None:
    """Set the gateway of *router* as *info* specifies, or remove it; return the new gateway.

    A pre-commit hook checks whether something needs what is removed.

    :raises NotFound: there is no such network that the requester may see.
    :raises BadRequest: the network is not external, or an address is not on it.
    :raises Conflict: an address is taken, or none is left.
    """
    attached = read_router_ports(unit.tx, router.id)
    if not info:
        if attached.gateway is not None:
            drop_port(unit, attached.gateway)
        return None
    network_id = NetworkId(UUID(str(info["network_id"])))
    requested = info.get("external_fixed_ips")
    before = router.gateway
    stays = before is not None and before.network_id == network_id and attached.gateway is not None
    port = attached.gateway
    if port is None or not stays:
        port = _new_port(unit, router, network_id, requested, port)
    elif requested:
        port = _readdressed(unit, port, requested)
    _check(unit, port, attached)
    return ExternalGateway(
        network_id=network_id,
        enable_snat=bool(info.get("enable_snat", before.enable_snat if before and stays else True)),
        fixed_ips=port.fixed_ips,
        qos_policy_id=_policy(info, before if stays else None),
    )


def _policy(info: Info, before: ExternalGateway | None) -> Any:
    if "qos_policy_id" in info:
        return None if info["qos_policy_id"] is None else UUID(str(info["qos_policy_id"]))
    return None if before is None else before.qos_policy_id


def _new_port(
    unit: UnitOfWork,
    router: Router,
    network_id: NetworkId,
    requested: Sequence[Mapping[str, Any]] | None,
    old: Port | None,
) -> Port:
    network, _ = unit.visible_network(network_id)
    if not is_external_for(unit, network):
        problem = f"network {network_id} is not external: no router leads there"
        raise BadRequest({f"{GATEWAY_INFO}.network_id": problem})
    if old is not None:
        drop_port(unit, old)
    body: dict[str, Any] = {
        "project_id": "",
        "network_id": str(network_id),
        "device_id": str(router.id),
        "device_owner": DeviceOwner.ROUTER_GATEWAY.value,
    }
    if requested:
        body["fixed_ips"] = list(requested)
    try:
        return make_port(unit, body)
    except InvalidInput as exc:
        raise _placed(exc) from exc


def _readdressed(unit: UnitOfWork, port: Port, requested: Sequence[Mapping[str, Any]]) -> Port:
    try:
        return change_port(unit, port.id, {"fixed_ips": list(requested)})
    except InvalidInput as exc:
        raise _placed(exc) from exc


def _placed(error: InvalidInput) -> InvalidInput:
    """Return *error* of a port with the paths of the router's request."""
    return type(error)(
        {
            f"{GATEWAY_INFO}.{path.replace('fixed_ips', 'external_fixed_ips', 1)}": text
            for path, text in error.problems.items()
        }
    )


def _check(unit: UnitOfWork, port: Port, before: RouterPorts) -> None:
    """Refuse a gateway on a network of the router's interfaces, or with a subnet's gateway
    address."""
    subnets = {subnet.id: subnet for subnet in unit.subnets(port.network_id)}
    problems = {}
    for at, fixed in enumerate(port.fixed_ips):
        if fixed.address == subnets[fixed.subnet_id].gateway:
            problems[f"{GATEWAY_INFO}.external_fixed_ips[{at}].ip_address"] = (
                f"{fixed.address} is the gateway of the external subnet itself"
            )
    if problems:
        raise BadRequest(problems)
    inside = {fixed.subnet_id for each in before.interfaces for fixed in each.fixed_ips}
    others = [before.subnets[id] for id in sorted(inside)]
    for fixed in port.fixed_ips:
        check_apart(subnets[fixed.subnet_id], others, f"{GATEWAY_INFO}.network_id")
