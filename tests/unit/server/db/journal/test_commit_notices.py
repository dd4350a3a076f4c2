"""Notices of commits in a process with very many open files."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import sqlite3
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from netfw.server.db.journal import commit_notices
from netfw.server.db.journal.commit_notices import CommitNotices


@pytest.fixture
def many_files() -> Any:
    """Raise the limit of open files above that of select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the limit of open files is too low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_notices_arrive_on_a_descriptor_that_select_cannot_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, client = socket.socketpair()
    descriptor = fcntl.fcntl(client.fileno(), fcntl.F_DUPFD_CLOEXEC, 1100)
    noticed, listening = threading.Event(), threading.Event()
    pgconn = SimpleNamespace(
        socket=descriptor, consume_input=lambda: os.read(descriptor, 1), notifies=lambda: None
    )
    driver = SimpleNamespace(execute=lambda _: listening.set(), pgconn=pgconn)
    connection = SimpleNamespace(dbapi_connection=driver, close=lambda: None)
    monkeypatch.setattr(commit_notices, "autocommit_connection", lambda _: connection)
    dialect = SimpleNamespace(name="postgresql", loaded_dbapi=sqlite3)
    notices = CommitNotices(cast(Any, SimpleNamespace(dialect=dialect)), noticed.set)
    notices.start()
    try:
        assert listening.wait(60)
        assert noticed.wait(60), "what was missed before"
        noticed.clear()
        database.send(b"x")
        assert noticed.wait(60)
    finally:
        notices.close()
        os.close(descriptor)
        database.close()
        client.close()
