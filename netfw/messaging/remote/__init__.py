"""State sources offered to other processes, over any transport.

:class:`Desk` offers one, :class:`RemoteSource` is the same source in another process.
"""

from __future__ import annotations

from netfw.messaging.remote.desk import Desk
from netfw.messaging.remote.offer import Announcing, Writing, Written
from netfw.messaging.remote.source import RemoteSource

__all__ = ["Announcing", "Desk", "RemoteSource", "Writing", "Written"]
