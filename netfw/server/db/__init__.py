"""The database of the server: the only code that speaks SQL.

:class:`~netfw.server.db.database.Database` runs transactions; what can be done within one is in
:class:`~netfw.server.db.database.Transaction`.
"""

from __future__ import annotations

from netfw.server.db.database import Database, ReadSnapshot, Transaction
from netfw.server.db.engine.engines import Limits
from netfw.server.db.resources.row import Row

__all__ = ["Database", "Limits", "ReadSnapshot", "Row", "Transaction"]
