"""CorePlugin: stores networks, subnets and ports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Report, ReportResult

R = TypeVar("R")


class CorePlugin(ResourcePlugin):
    """Stores networks, subnets, ports and agents; a server has one.

    Promises beyond those of :class:`ResourcePlugin`:

    1. It stores the networks, segments, subnets, ports and agents.
    2. A request that changes one of them passes, in this order: rows, extension drivers, segments
       or the binding request, ``validate`` of mechanism drivers and of service plugins,
       commit, outbox.
    3. A port with a host is bound, or its binding has failed with the reasons, before ``create``
       or ``update`` returns.
    4. A late report changes nothing; a port is ACTIVE when every agent and driver that must
       prepare it has reported its present revision.
    5. ``handle_request`` is idempotent: the same request gives an equal answer and no second
       effect.
    """

    GROUP: ClassVar[str] = "netfw.core_plugins"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def handle_reports(self, reports: Sequence[Report]) -> ReportResult:
        """Record the reports of agents on the resources that it stores.  Raises no own errors.

        Return a result with ``resync`` if one of the agents was considered dead until now, or was
        switched on again.
        """

    @abstractmethod
    def handle_request(self, request: Request[R]) -> R:
        """Answer an agent.

        :raises NotSupported: it does not answer requests of that type; service plugins are tried.
        :raises RequestError: the request is impossible; the agent gets this error.
        """
