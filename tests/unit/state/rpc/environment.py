"""A memory source behind a state RPC server on a fake network."""

from __future__ import annotations

from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.testing.fakes.transport import FakeBroker


def offered(wire: FakeBroker, source: MemorySource, budget: int = 256 * 1024) -> RemoteSource:
    StateRpcServer(source, wire.transport(), budget=budget).open()
    return RemoteSource(wire.transport(), timeout=60)
