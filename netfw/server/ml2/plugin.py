"""Ml2Plugin: the core plugin for networks, segments, subnets, ports and agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.core_plugin import CorePlugin
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Report, ReportResult
from netfw.errors import NotSupported
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.ml2.builder import core_of

__all__ = ["Ml2Plugin", "server_context"]

R = TypeVar("R")

ReportHandler = Callable[[Sequence[Report]], ReportResult]
"""Records the reports of its own types, and ignores others."""
Answer = Callable[[Request[Any]], Any]


class Ml2Plugin(HandlerPlugin, CorePlugin):
    """Core plugin, assembled from resource handlers, report handlers and request handlers."""

    VERSION: ClassVar[int] = 2

    def __init__(
        self,
        context: ServerContext,
        handlers: Sequence[ResourceHandler],
        report_handlers: Sequence[ReportHandler] = (),
        request_handlers: Mapping[type[Request[Any]], Answer] | None = None,
    ) -> None:
        super().__init__(context, handlers)
        self._report_handlers = tuple(report_handlers)
        self._request_handlers = dict(request_handlers or {})

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        core = core_of(host)
        agents = core.agent_services
        return cls(
            core.context,
            core.handlers(),
            (agents.agents, agents.statuses),
            agents.request_handlers,
        )

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("ml2")

    def handle_reports(self, reports: Sequence[Report]) -> ReportResult:
        handlers = (*self._report_handlers, *self.context.report_handlers)
        results = [handle(reports) for handle in handlers]
        return ReportResult(resync=any(result.resync for result in results))

    def handle_request(self, request: Request[R]) -> R:
        handle = self._request_handlers.get(type(request))
        if handle is None:
            raise NotSupported(f"the core plugin does not answer {type(request).__name__}")
        return cast(R, handle(request))
