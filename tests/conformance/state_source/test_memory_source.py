"""The source in memory passes the suite that every source passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pytest

from netfw.drivers.registry.loader import load
from netfw.drivers.state_source import Cursor, Delta, StateSource
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Report, ReportResult
from netfw.drivers.values.subscription import Subscription
from netfw.errors import BackendUnavailable
from netfw.state.memory_source import MemorySource
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.memory_backend import MemorySourceBackend
from netfw.testing.conformance.state_source.suite import StateSourceConformance

pytestmark = pytest.mark.fakes

R = TypeVar("R")


@pytest.mark.spec("DRV-21", "L3-67", "RPC-02", "RPC-08")
class TestMemorySource(StateSourceConformance):
    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        source = MemorySource(page=page)
        yield SourceEnvironment(source, MemorySourceBackend(source))
        source.close()


class RemoteSource(MemorySource):
    """A source in memory as if it were behind a wire that can be cut."""

    gone = False

    def cut(self) -> None:
        self.gone = True

    def answering(self) -> MemorySource:
        if self.gone:
            raise BackendUnavailable("cut off")
        return super()  # type: ignore[return-value]

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        return self.answering().snapshot(subscription)

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        return self.answering().changes(subscription, since)

    def report(self, reports: Sequence[Report]) -> ReportResult:
        return self.answering().report(reports)

    def request(self, request: Request[R]) -> R:
        return self.answering().request(request)


class TestRemoteSource(StateSourceConformance):
    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        source = RemoteSource(page=page)
        yield SourceEnvironment(source, MemorySourceBackend(source), source.cut)


def test_the_source_in_memory_loads_by_its_name() -> None:
    assert load(StateSource, "memory") is MemorySource
