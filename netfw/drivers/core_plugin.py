"""CorePlugin: stores networks, subnets and ports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from netfw.drivers.agent_requests import Request
from netfw.drivers.reports import Report, ReportResult
from netfw.drivers.resource_plugin import ResourcePlugin

R = TypeVar("R")


class CorePlugin(ResourcePlugin):
    """Stores networks, subnets, ports and agents; there is one of it.

    Promises beyond those of :class:`ResourcePlugin`:

    1. It stores the networks, segments, subnets, ports and agents.
    2. A request that changes one passes, in this order: rows, extension drivers, segments or the
       binding request, the ``check`` of mechanism drivers and service plugins, commit, outbox.
    3. A port with a host is bound, or its binding has failed with the reasons, before ``create``
       or ``update`` returns.
    4. A report that is late changes nothing; a port is ACTIVE when all that must prepare it have
       reported its present revision.
    5. ``answer`` is idempotent: the same request gives an equal answer and no second effect.
    """

    GROUP: ClassVar[str] = "netfw.core_plugins"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def handle_reports(self, reports: Sequence[Report]) -> ReportResult:
        """Record the reports of agents on the resources that it stores.  Raises no own errors.

        Return a result with ``resync`` if one of the agents was considered dead until now.
        """

    @abstractmethod
    def handle_request(self, request: Request[R]) -> R:
        """Answer an agent.

        :raises NotSupported: it does not answer that kind of request; service plugins are asked.
        :raises RequestError: it cannot be; the agent gets it.
        """
