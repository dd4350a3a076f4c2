"""Agents that report, and plugins of a few handlers."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from sqlalchemy import text

from netfw.drivers.server.query import RequestContext
from netfw.drivers.values.reports import Heartbeat
from netfw.drivers.values.subscription import AGENT_TYPES, Service
from netfw.model.agent import Agent
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.server_context import ServerContext

ADMIN = RequestContext(project_id="admin", admin=True)


class HandlersOnly(HandlerPlugin):
    """A plugin of resource handlers and nothing else."""

    @classmethod
    def from_conf(cls, options: Any, host: Any) -> Any:
        raise NotImplementedError

    def describe(self) -> Any:
        raise NotImplementedError


def tunnel_address(host: str) -> str:
    """Return the tunnel address of a host; no two have the same."""
    if host == "a":
        return "192.0.2.1"
    number = int.from_bytes(uuid5(NAMESPACE_DNS, host).bytes[:3], "big")
    return str(IPv4Address(0x0A000000 + number))


def beat(
    host: str = "a", kind: str = "Open vSwitch agent", *, start: bool = False, **reported: Any
) -> Heartbeat:
    counts = reported.pop("counts", {"devices": 0})
    has_tunnels = AGENT_TYPES.get(kind, Service.L2) is Service.L2
    tunnel = {"tunneling_ip": tunnel_address(host)} if has_tunnels else {}
    agent = Agent(
        id=AgentId(uuid5(NAMESPACE_DNS, f"{kind} {host}")),
        agent_type=kind,
        binary="netfw-agent",
        host=host,
        availability_zone=reported.pop("zone", None),
        configurations=JsonDocument({**tunnel, **counts, **reported}),
    )
    return Heartbeat(agent=agent, counts=counts, start=start)


def grow_old(context: ServerContext, host: str, seconds: int) -> None:
    """Have the agents of *host* be silent for so long."""
    with context.database.writing.begin() as connection:
        connection.execute(
            text(
                "UPDATE heartbeats SET at = at - :ms WHERE agent_id IN "
                "(SELECT id FROM agents WHERE host = :host)"
            ),
            {"ms": seconds * 1000, "host": host},
        )
