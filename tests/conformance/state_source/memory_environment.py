"""A source in memory behind a server and a client, for the suite of state sources."""

from __future__ import annotations

from contextlib import ExitStack

from netfw.drivers.transport import Transport
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.memory_backend import MemorySourceBackend

RESOURCE_BYTES = 700
"""About the size of one resource in a message."""


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

    return SourceEnvironment(source, MemorySourceBackend(memory), cut)
