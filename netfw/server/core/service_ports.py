"""Ports that the server makes for the network itself."""

from __future__ import annotations

from typing import Any, cast

from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.values.ids import PortId
from netfw.server.core.resource_handler import StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork


def make_service_port(
    unit: UnitOfWork,
    network: Network,
    *,
    device: str,
    owner: str,
    host: str,
    fixed_ips: list[Any] | None = None,
) -> PortId:
    """Create a port of the server's own; it is exempt from quotas."""
    body: dict[str, Any] = {
        "network_id": str(network.id),
        "project_id": network.project_id,
        "device_id": device,
        "device_owner": owner,
        "binding:host_id": host,
        "port_security_enabled": False,
        "security_groups": [],
    }
    if fixed_ips is not None:
        body["fixed_ips"] = fixed_ips
    handler = cast(StoredResourceHandler[Port], unit.context.handler("port"))
    made = handler.do_create(unit, [body])
    unit.count("port", made, implicit=True)
    return made[0].id
