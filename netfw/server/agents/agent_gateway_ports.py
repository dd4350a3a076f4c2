"""What a host has from the server for its agents: gateway ports, and its MAC address."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service, agent_service
from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner
from netfw.server.core.resource_handler import Reader
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.allocation_stores import HostMacPool


def gateway_device_id(host: str) -> str:
    """Return the device id of the ports that a host has on external networks."""
    return f"fg{uuid5(NAMESPACE_DNS, host)}"


def release_host_resources(unit: UnitOfWork, agent: Agent) -> None:
    """Release what the host of *agent*, which is deleted, had for it."""
    service = agent_service(agent.agent_type)
    if service is Service.L3:
        release_gateway_ports(unit, agent.host)
    elif service is Service.L2 and not _has_l2_agent(unit, agent.host):
        HostMacPool(unit.tx.connection).release(agent.host)


def release_gateway_ports(unit: UnitOfWork, host: str, **filters: str) -> None:
    """Delete the ports of *host* on external networks, or those that match *filters*."""
    wanted: dict[str, Any] = {
        **filters,
        "device_owner": DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
        "device_id": gateway_device_id(host),
    }
    query = Query(filters={name: (text,) for name, text in wanted.items()})
    for row in unit.tx.resources.find(Kind.PORT, query):
        unit.context.handler("port").delete(unit, str(row.ref.id))


def is_mac_of_port(reader: Reader, mac: Mac) -> bool:
    """Return whether a port has *mac*: a host with it would drop what the port sends."""
    return bool(reader.resources.find(Kind.PORT, Query(filters={"mac_address": (mac,)})))


def _has_l2_agent(unit: UnitOfWork, host: str) -> bool:
    rows = unit.tx.resources.find(Kind.AGENT, Query(filters={"host": (host,)}))
    return any(agent_service(row.body["agent_type"]) is Service.L2 for row in rows)
