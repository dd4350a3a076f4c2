"""What an agent tells its state source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.router_values import HaRole
from netfw.drivers.subscription import Service
from netfw.model.agent import Agent
from netfw.model.common_fields import Status
from netfw.model.resource import Ref


@frozen(kw_only=True)
class StatusReport:
    """What became of a resource on a host, at one revision of it.

    Of a port from ``L2``: it is wired, or is not.  Of a port from ``DHCP``: it can get its
    addresses.  Of a floating IP or a router from ``L3``: it works, or does not.
    """

    ref: Ref
    revision: int
    """The one that was converged: a later one is not known to work, an earlier one is history."""
    host: str
    service: Service
    status: Status
    """``ACTIVE``, ``DOWN``, ``DEGRADED`` (tried again) or ``ERROR`` (somebody must act)."""
    reason: str = ""
    """For a person: why it is not ``ACTIVE``."""


@frozen(kw_only=True)
class RoleReport:
    """The HA role of a router on this host."""

    DRAFT: ClassVar[bool] = True

    ref: Ref
    revision: int
    host: str
    role: HaRole
    service: Service = Service.L3


@frozen(kw_only=True)
class Heartbeat:
    """The agent is alive.  It is judged by the source's clock, when it arrives."""

    agent: Agent
    """What it is and can do: mappings, tunnel end points, extensions."""
    counts: Mapping[str, int] = field(factory=dict)
    """What it has: devices, networks, routers; how far it lags behind."""
    start: bool = False
    """The first one of this process."""


Report = StatusReport | RoleReport | Heartbeat


@frozen
class ReportResult:
    """The answer of a state source to the reports of an agent."""

    resync: bool = False
    """The source had considered the agent dead: the agent compares everything again."""
