"""Attendance: all that the server does for agents, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from netfw.drivers.agent_requests import Request
from netfw.model.agent import Agent
from netfw.server.plugin.agent_reports import AgentReports
from netfw.server.plugin.agents import AgentKeeper
from netfw.server.plugin.answers import Answer, Answers
from netfw.server.plugin.backbone import Backbone
from netfw.server.plugin.binder import Binder
from netfw.server.plugin.dhcp_scheduling import DhcpScheduler
from netfw.server.plugin.keeper import Keeper
from netfw.server.plugin.quotas import QuotaKeeper
from netfw.server.plugin.rescheduling import Rescheduling
from netfw.server.plugin.router_scheduling import RouterScheduler
from netfw.server.plugin.scheduled import (
    DhcpAgentKeeper,
    DhcpNetworkKeeper,
    L3AgentKeeper,
    L3RouterKeeper,
)
from netfw.server.plugin.statuses import PortStatuses
from netfw.server.plugin.unit import Unit
from netfw.server.plugin.waiting_ports import WaitingPorts
from netfw.server.plugin.zones import ZoneKeeper


@frozen(kw_only=True)
class Attendance:
    """What hears agents, answers them, and gives them things to serve."""

    keepers: tuple[Keeper, ...]
    agents: AgentReports
    statuses: PortStatuses
    answers: Mapping[type[Request[Any]], Answer]
    services: list[str]
    """The names of the service plugins, which agents may ask for."""
    rescheduling: Rescheduling
    """To be started by who runs a server, and closed at its end."""


def attend(backbone: Backbone, binder: Binder) -> Attendance:
    """Have agents be attended to."""
    services: list[str] = []
    dhcp, l3, statuses = DhcpScheduler(backbone), RouterScheduler(backbone), PortStatuses(backbone)
    waiting = WaitingPorts(dhcp, statuses)
    rescheduling = Rescheduling(
        [dhcp.reconcile, l3.mend, waiting.mend], backbone.settings.reschedule_interval
    )
    backbone.watchers += [dhcp.watch, l3.watch, waiting.watch, rescheduling.watch]
    backbone.reassigned.append(waiting.follow_agents)

    def rebind(unit: Unit, agent: Agent) -> None:
        binder.rebind_failed(unit, agent.host)

    backbone.arrivals += [rebind, rescheduling.arrived]
    return Attendance(
        keepers=(
            AgentKeeper(backbone.settings),
            ZoneKeeper(backbone.settings),
            QuotaKeeper(backbone.quotas),
            DhcpAgentKeeper(dhcp),
            DhcpNetworkKeeper(dhcp),
            L3AgentKeeper(l3),
            L3RouterKeeper(l3),
        ),
        agents=AgentReports(backbone),
        statuses=statuses,
        answers=Answers(backbone, lambda: services).table(),
        services=services,
        rescheduling=rescheduling,
    )
