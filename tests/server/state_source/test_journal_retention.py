"""The journal is pruned whatever date a wrong clock gave to one of its commits."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest

from netfw.model.network import Network
from netfw.model.values.ids import NetworkId
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.db.database import Transaction
from netfw.server.db.journal.journal import Journal, Retention
from netfw.server.db.schema.tables import JOURNAL

DAY = 86_400
KEPT = Retention(commits=2, age=DAY)


def commit(context: ServerContext) -> int:
    new = Network(id=NetworkId(uuid4()), project_id="p")
    context.run(SERVER, lambda unit: unit.insert(new))
    return context.read(lambda view: view.journal.head().seq)


def redate(context: ServerContext, seq: int, at: float) -> None:
    change = JOURNAL.update().where(JOURNAL.c.seq == seq).values(at=int(at))
    context.database.transaction(lambda tx: tx.connection.execute(change))


@pytest.mark.spec("RPC-02")
def test_a_commit_with_a_date_in_the_far_future_is_pruned(context: ServerContext) -> None:
    seqs = [commit(context) for _ in range(6)]
    now = time.time()
    for seq in seqs:
        redate(context, seq, now - 2 * DAY)
    redate(context, seqs[1], now + 1000 * DAY)

    def prune(tx: Transaction) -> int:
        return Journal(tx.connection, lambda: now).prune(KEPT)

    assert context.database.transaction(prune) > 0
    assert context.read(lambda view: view.journal.head().oldest) == seqs[-1] - KEPT.commits


@pytest.mark.spec("RPC-02")
def test_a_commit_of_a_clock_that_is_a_little_fast_is_young(context: ServerContext) -> None:
    seqs = [commit(context) for _ in range(6)]
    now = time.time()
    for seq in seqs:
        redate(context, seq, now + 60)
    prune = context.database.transaction(lambda tx: Journal(tx.connection, lambda: now).prune(KEPT))
    assert prune == 0
