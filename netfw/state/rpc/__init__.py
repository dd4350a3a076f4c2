"""State sources offered to other processes, over any transport.

:class:`StateRpcServer` offers one, :class:`RemoteSource` is the same source in another process.
"""

from __future__ import annotations

from netfw.state.rpc.client import RemoteSource
from netfw.state.rpc.protocols import (
    CommitFeed,
    EncodedDelta,
    EncodedSource,
    ReachabilitySource,
)
from netfw.state.rpc.server import StateRpcServer

__all__ = [
    "CommitFeed",
    "EncodedDelta",
    "EncodedSource",
    "ReachabilitySource",
    "RemoteSource",
    "StateRpcServer",
]
