"""Attendance: all that the server does for agents, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from netfw.drivers.agent_requests import Request
from netfw.model.agent import Agent
from netfw.server.agents.agents import AgentHandler, ZoneHandler
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.agents.rpc_handlers import AgentRpcHandlers, Answer
from netfw.server.binding.binder import PortBinder
from netfw.server.core.context import ServerContext
from netfw.server.core.quotas import QuotaHandler
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork
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
    """What hears agents, answers them, and gives them things to serve."""

    keepers: tuple[ResourceHandler, ...]
    agents: HeartbeatHandler
    statuses: PortStatuses
    answers: Mapping[type[Request[Any]], Answer]
    services: list[str]
    """The names of the service plugins, which agents may ask for."""
    rescheduling: Rescheduler
    """To be started by who runs a server, and closed at its end."""


def build_agent_services(backbone: ServerContext, binder: PortBinder) -> AgentServices:
    """Have agents be attended to."""
    services: list[str] = []
    dhcp, l3, statuses = DhcpScheduler(backbone), RouterScheduler(backbone), PortStatuses(backbone)
    waiting = PortsAwaitingDhcp(dhcp, statuses)
    rescheduling = Rescheduler(
        [dhcp.reconcile, l3.mend, waiting.mend], backbone.settings.reschedule_interval
    )
    backbone.watchers += [dhcp.watch, l3.watch, waiting.watch, rescheduling.watch]
    backbone.reassigned.append(waiting.follow_agents)

    def rebind(unit: UnitOfWork, agent: Agent) -> None:
        binder.rebind_failed(unit, agent.host)

    backbone.arrivals += [rebind, rescheduling.arrived]
    return AgentServices(
        keepers=(
            AgentHandler(backbone.settings),
            ZoneHandler(backbone.settings),
            QuotaHandler(backbone.quotas),
            DhcpAgentHandler(dhcp),
            DhcpNetworkHandler(dhcp),
            L3AgentHandler(l3),
            L3RouterHandler(l3),
        ),
        agents=HeartbeatHandler(backbone),
        statuses=statuses,
        answers=AgentRpcHandlers(backbone, lambda: services).table(),
        services=services,
        rescheduling=rescheduling,
    )
