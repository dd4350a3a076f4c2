"""AgentServices: heartbeats, status reports, RPC handlers and schedulers, assembled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from netfw.drivers.values.agent_requests import Request
from netfw.server.agents.agents import SERVICES, AgentHandler, ZoneHandler
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.agents.rpc_handlers import AgentRpcHandlers, Answer
from netfw.server.binding.binder import PortBinder
from netfw.server.binding.failed_bindings import FailedBindings
from netfw.server.core.quotas import QuotaHandler
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.server_context import ServerContext
from netfw.server.l2.distributed_dhcp import DistributedDhcpPorts
from netfw.server.l2.port_status import PortStatuses
from netfw.server.l2.ports_awaiting_dhcp import PortsAwaitingDhcp
from netfw.server.scheduling.api import (
    DhcpAgentHandler,
    DhcpNetworkHandler,
    L3AgentHandler,
    L3RouterHandler,
)
from netfw.server.scheduling.dhcp import DhcpScheduler
from netfw.server.scheduling.rescheduler import Rescheduler
from netfw.server.scheduling.routers import RouterScheduler


@frozen(kw_only=True)
class AgentServices:
    """Components of the server that serve agents."""

    handlers: tuple[ResourceHandler, ...]
    agents: HeartbeatHandler
    statuses: PortStatuses
    request_handlers: Mapping[type[Request[Any]], Answer]
    services: list[str]
    """Names of the service plugins, which agents may request."""
    rescheduler: Rescheduler
    """Rescheduler; the server process starts and closes it."""


def build_agent_services(context: ServerContext, binder: PortBinder) -> AgentServices:
    """Assemble the services for agents, and register their hooks."""
    services: list[str] = []
    dhcp, l3, statuses = DhcpScheduler(context), RouterScheduler(context), PortStatuses(context)
    waiting, dhcp_ports = PortsAwaitingDhcp(dhcp, statuses), DistributedDhcpPorts(context)
    reconcilers = dhcp.reconcile, l3.reconcile, waiting.reconcile, dhcp_ports.reconcile
    context.reconcilers += reconcilers
    rescheduler = Rescheduler(context.reconcilers, context.settings.reschedule_interval)
    bindings = FailedBindings(context, binder, rescheduler.trigger, others=SERVICES)
    context.reconcilers.append(bindings.reconcile)
    watches = (dhcp.watch, l3.watch, waiting.watch, rescheduler.watch, bindings.watch)
    context.precommit_hooks += (dhcp_ports.watch, *watches)
    context.reassignment_hooks.append(waiting.follow_agents)

    context.agent_up_hooks += [bindings.on_agent_up, rescheduler.on_agent_up]
    return AgentServices(
        handlers=(
            AgentHandler(context.settings),
            ZoneHandler(context.settings),
            QuotaHandler(context.quotas),
            DhcpAgentHandler(dhcp),
            DhcpNetworkHandler(dhcp),
            L3AgentHandler(l3),
            L3RouterHandler(l3),
        ),
        agents=HeartbeatHandler(context),
        statuses=statuses,
        request_handlers=AgentRpcHandlers(context, lambda: services).table(),
        services=services,
        rescheduler=rescheduler,
    )
