"""Ml2Plugin: the core plugin: networks, segments, subnets, ports and agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from netfw.drivers.agent_requests import Request
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.core_plugin import CorePlugin
from netfw.drivers.reports import Report, ReportResult
from netfw.errors import NotSupported
from netfw.server.core.context import ServerContext, backbone_of
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.ml2.builder import core_of

__all__ = ["Ml2Plugin", "backbone_of"]

R = TypeVar("R")

ReportHandler = Callable[[Sequence[Report]], ReportResult]
"""Records the reports of its own types, and ignores others."""
Answer = Callable[[Request[Any]], Any]


class Ml2Plugin(HandlerPlugin, CorePlugin):
    """The core plugin, put together of keepers, of who hears reports, and of who answers."""

    VERSION: ClassVar[int] = 1

    def __init__(
        self,
        backbone: ServerContext,
        keepers: Sequence[ResourceHandler],
        hearing: Sequence[ReportHandler] = (),
        answers: Mapping[type[Request[Any]], Answer] | None = None,
    ) -> None:
        super().__init__(backbone, keepers)
        self._hearing, self._answers = tuple(hearing), dict(answers or {})

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        core = core_of(host)
        there = core.attendance
        return cls(core.backbone, core.keepers(), (there.agents, there.statuses), there.answers)

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("ml2")

    def handle_reports(self, reports: Sequence[Report]) -> ReportResult:
        results = [handle(reports) for handle in (*self._hearing, *self.backbone.hearing)]
        return ReportResult(resync=any(result.resync for result in results))

    def handle_request(self, request: Request[R]) -> R:
        answer = self._answers.get(type(request))
        if answer is None:
            raise NotSupported(f"the core plugin does not answer {type(request).__name__}")
        return cast(R, answer(request))
