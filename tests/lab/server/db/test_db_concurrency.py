"""Several processes on one database: nothing is given twice, and nobody fails without reason."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from sqlalchemy import event

from netfw.drivers.server.query import Query
from netfw.drivers.server.type_driver import Range
from netfw.model import NetworkType
from netfw.model.resource import Kind
from netfw.server.db import Database, Transaction
from netfw.server.db.allocation.quotas import UNLIMITED
from tests.lab.server.db.processes import (
    VLANS,
    at_once,
    give_back_these,
    make_ports,
    make_ports_for_ever,
    stop_in_the_middle,
    take_numbers,
    take_these,
)
from tests.lab.server.db.samples import group, network, store, subnet
from tests.lab.server.forkserver import CONTEXT

WORKERS = 4


def ports(database: Database) -> int:
    return database.read(lambda view: view.resources.count(Kind.PORT, Query()))


def used(database: Database) -> int:
    usage = database.read(lambda view: view.quotas.of_project("p"))
    return usage["port"].used if "port" in usage else 0


@pytest.mark.spec("ML2-09", "ML2-11")
def test_ports_made_by_several_processes_get_every_address_once(
    url: str, database: Database
) -> None:
    store(database, network(), subnet(last="10.0.0.61"), group())
    before = database.read(lambda view: view.journal.cursor())
    made = [each for part in at_once(WORKERS, make_ports, url, "10.0.0.61") for each in part]
    assert sorted(made) == sorted(f"10.0.0.{n}" for n in range(2, 62))
    assert ports(database) == used(database) == 60
    after = database.read(lambda view: view.journal.cursor())
    assert after.seq - before.seq == 60


@pytest.mark.spec("ML2-01")
def test_segment_numbers_taken_and_given_back_by_several_processes_differ(
    url: str, database: Database
) -> None:
    wanted = Range(VLANS, 100, 159)
    database.transaction(lambda tx: tx.allocations.define(NetworkType.VLAN, (wanted,)))
    kept = [each for part in at_once(WORKERS, take_numbers, url) for each in part]
    assert max(Counter(kept).values()) == 1
    left = set()
    while (more := database.transaction(lambda tx: tx.allocations.acquire_any(VLANS))) is not None:
        left.add(more)
    assert sorted([*kept, *left]) == list(range(100, 160))


@pytest.mark.spec("ML2-01")
def test_a_number_that_several_processes_want_goes_to_one(url: str, database: Database) -> None:
    wanted = list(range(200, 220))
    parts = at_once(WORKERS, take_these, url, wanted)
    assert sorted(number for part in parts for number in part) == wanted
    at_once(WORKERS, give_back_these, url, wanted)
    database.transaction(
        lambda tx: tx.allocations.define(NetworkType.VLAN, (Range(VLANS, 200, 219),))
    )
    taken = [database.transaction(lambda tx: tx.allocations.acquire_any(VLANS)) for _ in range(21)]
    assert taken == [*wanted, None]


@pytest.mark.spec("ML2-11")
def test_a_process_that_is_killed_in_mid_transaction_leaves_nothing(
    url: str, database: Database
) -> None:
    store(database, network(), subnet(), group())
    before = database.read(lambda view: view.journal.cursor())
    reached = CONTEXT.Event()
    process = CONTEXT.Process(target=stop_in_the_middle, args=(url, reached))
    process.start()
    assert reached.wait(60)
    process.kill()
    process.join()
    assert database.transaction(lambda tx: str(tx.addresses.acquire_any(subnet()))) == "10.0.0.2"
    assert database.read(lambda view: view.journal.cursor()) == before
    assert (ports(database), used(database)) == (0, 0)
    assert database.read(lambda view: view.resources.count(Kind.SECURITY_GROUP, Query())) == 1


@pytest.mark.spec("ML2-11")
def test_processes_that_are_killed_at_work_leave_whole_ports_only(
    url: str, database: Database
) -> None:
    wide = subnet(last="10.0.255.254")
    store(database, network(), wide, group())
    begin = database.read(lambda view: view.journal.cursor()).seq
    processes = [CONTEXT.Process(target=make_ports_for_ever, args=(url,)) for _ in range(3)]
    for process in processes:
        process.start()
    deadline = time.monotonic() + 60
    for at_least, process in zip((20, 30, 40), processes, strict=True):
        while ports(database) < at_least:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.join()
    # It waits for the locks of a killed process, whose commit may be under way in the server.
    rest = database.transaction(lambda tx: tx.addresses.take_some(wide, 100_000))
    made = ports(database)
    assert used(database) == made
    assert database.read(lambda view: view.journal.cursor()).seq - begin == made
    assert len(rest) + made == 65533


def test_a_counter_that_appears_meanwhile_is_not_an_excess(
    url: str, database: Database, open_database: Callable[..., Database]
) -> None:
    if database.is_file:
        pytest.skip("a file has one writer at a time")
    other, done = open_database(url), []

    def use(tx: Transaction) -> None:
        tx.quotas.use("p", "port", 1, UNLIMITED)

    def meanwhile(_conn: object, _cursor: object, text: str, *_: object) -> None:
        if "FROM quotas" in text and not done:
            done.append(text)
            other.transaction(use)

    event.listen(database.writing, "before_cursor_execute", meanwhile)
    database.transaction(use)
    assert (len(done), used(database)) == (1, 2)
