"""The program behind a source in memory, for the suite of state sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from netfw.drivers.transport import Transport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import Assignment, Item
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.testing.conformance.state_source.environment import SourceEnvironment

RESOURCE_BYTES = 700
"""About the size of one resource in a message."""


class MemoryEnvironment:
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


def remote_memory(
    stack: ExitStack, server: Transport, client: Transport, page: int, timeout: float
) -> SourceEnvironment:
    """Return a memory source behind a server and a client; *stack* closes all of it."""
    for transport in (server, client):
        stack.callback(transport.close)
    memory = MemorySource(page=page)
    rpc_server = StateRpcServer(memory, server, budget=page * RESOURCE_BYTES)
    rpc_server.open()
    stack.callback(rpc_server.close)
    source = RemoteSource(client, timeout=timeout)
    stack.callback(source.close)

    def cut() -> None:
        rpc_server.close()
        server.close()
        source.timeout = timeout / 40

    return SourceEnvironment(source, MemoryEnvironment(memory), cut)
