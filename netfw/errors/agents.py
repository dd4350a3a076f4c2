"""Refusals of agents and of what is scheduled on them."""

from __future__ import annotations

from netfw.errors import Conflict, NotFound


class AgentNotFound(NotFound):
    """The agent does not exist, or the requester may not see it."""

    resource = "agent"


class AvailabilityZoneNotFound(NotFound):
    """No agent is in the availability zone."""

    resource = "availability_zone"


class InvalidDHCPAgent(AgentNotFound):
    """The agent is no DHCP agent, or is switched off."""


class NetworkHostedByDHCPAgent(Conflict):
    """The DHCP agent serves the network."""


class NetworkNotHostedByDhcpAgent(Conflict):
    """The DHCP agent does not serve the network."""


class InvalidL3Agent(AgentNotFound):
    """The agent is no L3 agent, is switched off, or cannot have the router."""


class RouterHostedByL3Agent(Conflict):
    """Another L3 agent serves the router."""


class RouterNotHostedByL3Agent(Conflict):
    """The L3 agent does not serve the router."""


class RouterL3AgentMismatch(Conflict):
    """The mode of the L3 agent does not fit the router."""


class RouterSchedulingFailed(Conflict):
    """The router is with as many L3 agents as it may have."""


class DVRL3CannotAssignToDvrAgent(Conflict):
    """An L3 agent in mode dvr serves no router centrally."""
