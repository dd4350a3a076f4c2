"""Ml2Plugin: the core plugin for networks, segments, subnets, ports and agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from netfw.drivers.agent_requests import Request
from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.core_plugin import CorePlugin
from netfw.drivers.reports import Report
from netfw.errors import NotSupported
from netfw.server.core.context import ServerContext, server_context
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.ml2.builder import core_of

__all__ = ["Ml2Plugin", "server_context"]

R = TypeVar("R")

Hearing = Callable[[Sequence[Report]], bool | None]
"""Takes the reports that it knows, and passes over others; ``True``: one was believed dead."""
Answer = Callable[[Request[Any]], Any]


class Ml2Plugin(HandlerPlugin, CorePlugin):
    """Core plugin, assembled from resource handlers, report handlers and request handlers."""

    VERSION: ClassVar[int] = 1

    def __init__(
        self,
        context: ServerContext,
        handlers: Sequence[ResourceHandler],
        hearing: Sequence[Hearing] = (),
        answers: Mapping[type[Request[Any]], Answer] | None = None,
    ) -> None:
        super().__init__(context, handlers)
        self._hearing, self._answers = tuple(hearing), dict(answers or {})

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        core = core_of(host)
        there = core.agent_services
        return cls(
            core.context, core.handlers(), (there.agents, there.statuses), there.request_handlers
        )

    def describe(self) -> DriverInfo:
        return DriverInfo("ml2")

    def handle_reports(self, reports: Sequence[Report]) -> bool:
        said = [hear(reports) for hear in (*self._hearing, *self.context.report_handlers)]
        return any(said)

    def handle_request(self, request: Request[R]) -> R:
        answer = self._answers.get(type(request))
        if answer is None:
            raise NotSupported(f"the core plugin does not answer {type(request).__name__}")
        return cast(R, answer(request))
