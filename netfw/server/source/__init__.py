"""State for agents, from the database.

:class:`~netfw.server.source.database.DatabaseSource` is the state source of the server;
:class:`~netfw.server.source.commits.CommitWatch` notices commits, of this and of other processes.
"""

from __future__ import annotations

from netfw.server.source.commits import CommitWatch
from netfw.server.source.database import DatabaseSource

__all__ = ["CommitWatch", "DatabaseSource"]
