"""The backend of a source in memory, for the suite of state sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import Assignment, Item
from netfw.state.memory_source import MemorySource


class MemorySourceBackend:
    """The embedding program, which commits to the source."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Ref | Assignment] = ()) -> None:
        self.source.commit(put, remove)

    def begin(self, put: Sequence[Item] = ()) -> Callable[[], None]:
        return lambda: self.source.commit(put)

    def items(self) -> Sequence[Item]:
        return self.source.items()

    def forget_history(self) -> None:
        self.source.forget_history()

    def restore(self, items: Sequence[Item]) -> None:
        self.source.restore(*items)

    def status(self, target: Ref, service: Service) -> Status | None:
        report = self.source.status(target, service)
        return None if report is None else report.status

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        return self.source.roles(router)
