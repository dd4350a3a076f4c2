"""Reports of an agent to its state source."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.resource import Ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status


@frozen(kw_only=True)
class StatusReport:
    """The status of a resource on a host, at one revision.

    Of a port from ``L2``: whether it is wired, or, from a host that prepares for it, that the host
    is ready for its activation (``ACTIVE``).  Of a port from ``DHCP``: whether it can get its
    addresses.  Of a floating IP or a router from ``L3``: whether it works.
    """

    ref: Ref
    revision: int
    """The revision that was converged; the report says nothing about another one."""
    host: str
    service: Service
    status: Status
    """``ACTIVE``, ``DOWN``, ``DEGRADED`` (retried) or ``ERROR`` (needs an operator)."""
    reason: str = ""
    """Why it is not ``ACTIVE``, for operators."""


@frozen(kw_only=True)
class RoleReport:
    """The role of a highly available router on a host: a fact, whatever revision it has.

    Of two reports of one boot of the host, that with the later time is valid, whichever arrives
    last.
    """

    ref: Ref
    revision: int
    """The revision that the agent knows."""
    host: str
    role: HaRole
    service: Service = Service.L3
    boot: UUID | None = field(default=None, eq=False)
    """The boot of the host; ``None``: the report that arrives last is valid."""
    since: int = field(default=0, eq=False)
    """When the host took the role, in microseconds of the monotonic clock of its boot."""


@frozen(kw_only=True)
class Heartbeat:
    """A sign of life of an agent, timed by the clock of the source on arrival."""

    agent: Agent
    """The agent with its configuration: mappings, tunnel endpoints, extensions."""
    counts: Mapping[str, int] = field(factory=dict)
    """Numbers of devices, networks, routers; how far the agent lags behind."""
    start: bool = False
    """This is the first heartbeat of this process."""


Report = StatusReport | RoleReport | Heartbeat


@frozen
class ReportResult:
    """The answer of a state source to the reports of an agent."""

    resync: bool = False
    """The agent was considered dead, or was switched on again: it compares everything."""
