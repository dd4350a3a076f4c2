"""A database locked by another process: reads continue, and writes are refused soon."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest

from netfw.drivers.server.query import Query
from netfw.errors import BackendUnavailable
from netfw.model.resource import Kind
from netfw.server.core.server_context import ServerContext

CLIENTS = 16


@pytest.mark.spec("API-13")
def test_while_another_process_writes_most_wait_the_others_are_refused_and_reading_goes_on(
    context: ServerContext,
) -> None:
    database = context.database
    other = sqlite3.connect(database.writing.url.database or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused: list[float] = []
    began = time.monotonic()

    def write() -> None:
        try:
            database.transaction(lambda tx: tx.quotas.use("p", "network", 1, -1))
        except BackendUnavailable:
            refused.append(time.monotonic() - began)

    threads = [threading.Thread(target=write) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        while len(refused) < CLIENTS - 12:
            assert time.monotonic() < began + 20
            time.sleep(0.02)
        assert max(refused) < 9
        assert database.read(lambda view: view.resources.find(Kind.NETWORK, Query())) == ()
    finally:
        other.execute("ROLLBACK")
        other.close()
        for thread in threads:
            thread.join()
    used = database.read(lambda view: view.quotas.of_project("p"))["network"].used
    assert (used, len(refused)) == (12, CLIENTS - 12)
