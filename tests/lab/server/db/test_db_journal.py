"""The journal tells changes in the order of commits, and says so where it cannot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.state_source import Cursor
from netfw.errors import CursorLost
from netfw.model.resource import Kind, Ref, ref
from netfw.server.db import Database, Transaction
from netfw.server.db.journal.journal import Journal, Retention
from tests.lab.server.db.processes import make_ports
from tests.lab.server.db.samples import group, network, port, store, subnet, uid

SERVED = f"served:network:{uid(1)}"
MEMBERS = f"members:security_group:{uid(3)}"


def since(database: Database, cursor: Cursor, *topics: str, limit: int = 1000) -> list[Ref]:
    entries = database.read(lambda view: view.journal.since(cursor, topics, limit))
    return [entry.ref for entry in entries]


@pytest.mark.spec("RPC-02", "RPC-07")
def test_changes_are_noted_under_the_topics_of_before_and_after(database: Database) -> None:
    begin = database.read(lambda view: view.journal.cursor())
    one = port(5, security_groups={uid(3)})
    store(database, network(), subnet(), group())
    store(database, one)
    made = database.read(lambda view: view.journal.cursor())
    assert made == Cursor(begin.epoch, begin.seq + 2)
    assert since(database, begin, MEMBERS) == [ref(one)]
    assert since(database, made, MEMBERS) == []

    def leave(tx: Transaction) -> None:
        now = tx.resources.get(Kind.PORT, one.id).resource()
        tx.resources.update(now, evolve(now, security_groups=frozenset()))

    database.transaction(leave)
    left = database.read(lambda view: view.journal.cursor())
    assert since(database, made, MEMBERS) == [ref(one)]
    database.transaction(lambda tx: tx.resources.delete(evolve(one, revision=2)))
    assert since(database, left, SERVED) == [ref(one)]
    assert since(database, left, MEMBERS) == [ref(one)]


def test_a_transaction_that_fails_or_only_reads_has_no_number(database: Database) -> None:
    before = database.read(lambda view: view.journal.cursor())

    def fail(tx: Transaction) -> None:
        tx.resources.insert(network())
        raise KeyError("not today")

    with pytest.raises(KeyError):
        database.transaction(fail)
    database.transaction(lambda tx: tx.quotas.use("p", "port", 1, -1))
    assert database.read(lambda view: view.journal.cursor()) == before


@pytest.mark.spec("RPC-02")
def test_pages_do_not_part_a_commit(database: Database) -> None:
    begin = database.read(lambda view: view.journal.cursor())
    store(database, network(), subnet(), *(port(10 + n) for n in range(4)))
    store(database, port(20))
    store(database, port(21))

    def page(cursor: Cursor, limit: int) -> list[tuple[int, int]]:
        entries = database.read(lambda view: view.journal.since(cursor, [SERVED], limit))
        return [(entry.seq - begin.seq, entry.ref.id.int) for entry in entries]

    first = [(1, 1), (1, 2), *((1, n) for n in range(10, 14))]
    assert sorted(page(begin, 2)) == first
    assert sorted(page(begin, 7)) == [*first, (2, 20)]
    assert page(evolve(begin, seq=begin.seq + 1), 1) == [(2, 20)]
    assert page(evolve(begin, seq=begin.seq + 1), 5) == [(2, 20), (3, 21)]


@pytest.mark.spec("RPC-02")
def test_a_cursor_that_cannot_be_served_is_refused(database: Database) -> None:
    begin = database.read(lambda view: view.journal.cursor())
    for number in range(1, 9):
        store(database, network(number))
    now = database.read(lambda view: view.journal.cursor())
    for wrong in (evolve(now, seq=now.seq + 1), evolve(now, epoch="another")):
        with pytest.raises(CursorLost):
            since(database, wrong, SERVED)

    keep = Retention(commits=3, age=0)
    late = time.time() + 10
    young = database.transaction(lambda tx: tx.journal.prune(Retention(commits=3, age=3600)))
    assert young == 0
    gone = database.transaction(lambda tx: Journal(tx.connection, lambda: late).prune(keep))
    assert gone > 0
    assert database.transaction(lambda tx: Journal(tx.connection, lambda: late).prune(keep)) == 0
    with pytest.raises(CursorLost, match="all that is remembered"):
        since(database, begin, SERVED)
    recent = evolve(now, seq=now.seq - 3)
    assert [each.id.int for each in since(database, recent, f"seen:network:{uid(7)}")] == [7]
    database.transaction(lambda tx: tx.journal.start_epoch())
    with pytest.raises(CursorLost, match="restored"):
        since(database, now, SERVED)
    assert not since(database, database.read(lambda view: view.journal.cursor()), SERVED)


@pytest.mark.spec("RPC-02", "ML2-11")
def test_a_reader_misses_nothing_while_several_write(
    url: str, database: Database, open_database: Callable[..., Database]
) -> None:
    store(database, network(), subnet(last="10.0.0.81"), group())
    cursor = database.read(lambda view: view.journal.cursor())
    writers = [
        threading.Thread(target=make_ports, args=(url, "10.0.0.81", seed)) for seed in range(3)
    ]
    for writer in writers:
        writer.start()
    seen: list[UUID] = []
    ended = False
    while not ended:
        ended = not any(writer.is_alive() for writer in writers)
        entries = database.read(lambda view, at=cursor: view.journal.since(at, [SERVED], 5))
        if entries:
            seen += [entry.ref.id for entry in entries]
            cursor = evolve(cursor, seq=entries[-1].seq)
            ended = False
    assert len(seen) == len(set(seen)) == 80


def test_a_view_is_of_one_moment(url: str, open_database: Callable[..., Database]) -> None:
    database, other = open_database(url), open_database(url)

    def look(view: object) -> None:
        before = view.journal.cursor()  # type: ignore[attr-defined]
        store(other, network())
        assert view.journal.cursor() == before  # type: ignore[attr-defined]
        assert view.resources.present([ref(network())]) == ()  # type: ignore[attr-defined]

    database.read(look)
    assert database.read(lambda view: len(view.resources.present([ref(network())]))) == 1
