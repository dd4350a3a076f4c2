"""State sources offered to other processes, over any transport.

:class:`StateRpcServer` offers one, :class:`RemoteSource` is the same source in another process.
"""

from __future__ import annotations

from netfw.state.rpc.client import RemoteSource
from netfw.state.rpc.server import StateRpcServer
from netfw.state.rpc.source_interfaces import (
    CommitFeed,
    EncodedDelta,
    EncodedSource,
    ReachabilitySource,
)

__all__ = [
    "CommitFeed",
    "EncodedDelta",
    "EncodedSource",
    "ReachabilitySource",
    "RemoteSource",
    "StateRpcServer",
]
