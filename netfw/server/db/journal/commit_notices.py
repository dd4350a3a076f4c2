"""CommitNotices: notices of commits by other processes, where the database sends them.

PostgreSQL has LISTEN and NOTIFY; other databases are polled.  Notices can be lost with a
connection: code that relies on them polls too, but rarely.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable
from netfw.server.db.journal.head_poller import autocommit_connection
from netfw.server.db.journal.journal import CHANNEL

LOG = logging.getLogger(__name__)
GATHER: Final = 0.01
"""Seconds for which notices are gathered after one."""
RETRY: Final = 1.0
"""Seconds between attempts to listen."""


class CommitNotices:
    """Listens in a thread of its own; without notices of the database it does nothing."""

    def __init__(self, engine: Engine, on_notice: Callable[[], None]) -> None:
        self._engine, self._on_notice = engine, on_notice
        self.arrive = False
        """Whether a notice arrived on the present connection, so that more will."""
        self._closed = threading.Event()
        self._stop_read, self._stop_write = -1, -1
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to listen."""
        if self._engine.dialect.name == "postgresql" and self._thread is None:
            self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
            try:
                self._thread = start_daemon_thread("commit-notices", "commit notices", self._run)
            except BackendUnavailable as exc:
                LOG.warning("%s; the database is polled instead", exc)
                os.close(self._stop_read)
                os.close(self._stop_write)

    def close(self) -> None:
        """Stop."""
        self._closed.set()
        if self._thread is not None:
            os.close(self._stop_write)
            self._thread.join()
            os.close(self._stop_read)
            self._thread = None

    def _run(self) -> None:
        dbapi = self._engine.dialect.loaded_dbapi
        while not self._closed.is_set():
            try:
                self._listen()
            except (SQLAlchemyError, dbapi.Error, OSError) as exc:
                LOG.debug("commit notices: the database does not answer: %s", exc)
            except Exception:
                LOG.exception("commit notices: internal error; continuing")
            self.arrive = False
            self._closed.wait(RETRY)

    def _listen(self) -> None:
        """Listen until it is closed, or the connection is lost."""
        connection = autocommit_connection(self._engine)
        try:
            driver: Any = connection.dbapi_connection
            driver.execute(f"LISTEN {CHANNEL}")
            self._on_notice()
            poller = select.poll()  # not select(): descriptors may be beyond 1023
            for descriptor in (driver.pgconn.socket, self._stop_read):
                poller.register(descriptor, select.POLLIN)
            while not self._closed.is_set():
                if self._stop_read in dict(poller.poll()):
                    return
                driver.pgconn.consume_input()
                while driver.pgconn.notifies():
                    self.arrive = True
                self._on_notice()
                self._closed.wait(GATHER)
        finally:
            connection.close()
