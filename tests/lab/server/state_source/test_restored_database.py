"""Agents that have read more than a restored database has."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from attrs import evolve

from netfw.drivers.values.reports import ReportResult
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import CursorLost
from netfw.server.db import Database
from netfw.server.state_source.commit_watcher import CommitWatcher
from netfw.server.state_source.database_source import DatabaseSource
from tests.lab.server.db.samples import network, store

AGENT = Subscription("host1", {Service.L2})


@pytest.fixture
def source(database: Database) -> Iterator[DatabaseSource]:
    commits = CommitWatcher(database)
    made = DatabaseSource(
        database,
        commits,
        handle_reports=lambda reports: ReportResult(),
        handle_request=lambda request: None,
    )
    yield made
    made.close()
    commits.close()


@pytest.mark.spec("RPC-02", "DRV-48")
def test_cursors_ahead_of_the_journal_are_lost_and_logged_once_with_the_remedy(
    database: Database, source: DatabaseSource, caplog: pytest.LogCaptureFixture
) -> None:
    store(database, network())
    now = database.read(lambda view: view.journal.cursor())
    ahead, older = evolve(now, seq=now.seq + 5), evolve(now, epoch="another")
    with caplog.at_level(logging.WARNING, "netfw.server.state_source"):
        for cursor in (older, ahead, ahead):
            with pytest.raises(CursorLost):
                source.changes(AGENT, cursor)
    (record,) = caplog.records
    assert "run `netfw-db mark-restored`" in record.getMessage()
    *_, last = source.snapshot(AGENT)
    assert source.changes(AGENT, last.cursor).cursor == now
