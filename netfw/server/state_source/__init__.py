"""State for agents, from the database.

:class:`~netfw.server.state_source.database_source.DatabaseSource` is the state source of the
server; :class:`~netfw.server.state_source.commit_watcher.CommitWatcher` detects commits of this and
of other processes.
"""

from __future__ import annotations

from netfw.server.state_source.commit_watcher import CommitWatcher
from netfw.server.state_source.database_source import DatabaseSource

__all__ = ["CommitWatcher", "DatabaseSource"]
