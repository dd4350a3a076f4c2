"""Pools of free ranges do what a set of numbers would, in a few statements."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from ipaddress import ip_address
from itertools import pairwise

import pytest
from sqlalchemy import func, select, text

from netfw.drivers.server.type_driver import Pool, Range
from netfw.model import AllocationPool, NetworkType
from netfw.server.db import Database, Transaction
from netfw.server.db.allocation.free_ranges import FreeRanges
from netfw.server.db.allocation.intervals import Interval
from netfw.server.db.schema.tables import FREE_RANGES
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.db.samples import network, store, subnet


def wander(tx: Transaction, seed: int) -> None:
    """Take random steps on a pool, and check them against a set of the taken numbers."""
    chance, ranges = random.Random(seed), FreeRanges(tx.connection)
    offers = [Interval(3, 9), Interval(14, 20)]
    offered = {*range(3, 10), *range(14, 21)}
    taken: set[int] = set()
    ranges.define("x", Interval(0, 24), offers)
    for _ in range(60):
        number = chance.randrange(25)
        step = chance.choice(["take", "take", "any", "any", "within", "back", "back", "define"])
        if step == "take":
            assert ranges.acquire("x", number) == (number not in taken)
            taken.add(number)
        elif step == "any":
            count = chance.randint(1, 3)
            lowest = sorted(offered - taken)[:count]
            assert ranges.acquire_any("x", count) == tuple(lowest)
            taken.update(lowest)
        elif step == "within":
            free = sorted(set(range(number, 25)) - taken)
            found = ranges.acquire_within("x", Interval(number, 24))
            assert found == (free[0] if free else None)
            taken.update(free[:1])
        elif step == "back":
            ranges.release("x", number)
            taken.discard(number)
        else:
            first = chance.randrange(20)
            offers = [Interval(first, chance.randrange(first, 24))]
            offered = set(range(offers[0].first, offers[0].last + 1))
            ranges.define("x", Interval(0, 24), offers)
        rows = tx.connection.execute(select(FREE_RANGES).order_by(FREE_RANGES.c.first)).all()
        spans = [(int(row.first, 16), int(row.last, 16), bool(row.offered)) for row in rows]
        for one, next in pairwise(spans):
            assert one[1] < next[0]
            assert one[1] + 1 < next[0] or one[2] != next[2], "they touch and are alike"
        assert {n for a, b, _ in spans for n in range(a, b + 1)} == set(range(25)) - taken
        assert {n for a, b, o in spans for n in range(a, b + 1) if o} == offered - taken


@pytest.mark.spec("ML2-01", "ML2-09")
def test_a_pool_behaves_as_a_set_of_numbers(database: Database) -> None:
    for seed in range(4):
        database.transaction(lambda tx, seed=seed: wander(tx, seed))
        database.transaction(lambda tx: FreeRanges(tx.connection).drop("x"))


@pytest.mark.spec("ML2-09")
def test_an_address_is_handed_out_taken_by_name_and_given_back(database: Database) -> None:
    block = subnet(
        cidr="2001:db8::/64",
        gateway="2001:db8::1",
        allocation_pools=(
            AllocationPool(start="2001:db8::2", end="2001:db8::3"),
            AllocationPool(start="2001:db8::ffff:ffff:ffff:0", end="2001:db8::ffff:ffff:ffff:fffe"),
        ),
    )
    store(database, network(), block)

    def work(tx: Transaction) -> None:
        addresses = tx.addresses
        assert addresses.acquire(block.id, ip_address("2001:db8::1"))
        assert not addresses.acquire(block.id, ip_address("2001:db8::1"))
        assert not addresses.acquire(block.id, ip_address("2001:db9::1"))
        assert addresses.acquire(block.id, ip_address("2001:db8::3"))
        assert addresses.acquire_any(block) == ip_address("2001:db8::2")
        assert addresses.acquire_any(block) == ip_address("2001:db8::ffff:ffff:ffff:0")
        addresses.release(block.id, ip_address("2001:db8::3"))
        addresses.release(block.id, ip_address("2001:db8::3"))
        assert addresses.acquire_any(block) == ip_address("2001:db8::3")
        addresses.drop(block.id)
        addresses.drop(block.id)
        assert tx.connection.execute(select(func.count()).select_from(FREE_RANGES)).scalar() == 0

    database.transaction(work)


def test_undefined_subnet_can_be_used_and_defined_later(database: Database) -> None:
    block = subnet(last="10.0.0.4")

    def work(tx: Transaction) -> None:
        assert tx.addresses.acquire(block.id, ip_address("10.0.0.3"))
        assert not tx.addresses.acquire(block.id, ip_address("10.0.0.3"))
        found = [tx.addresses.acquire_any(block) for _ in range(3)]
        assert [str(each) for each in found] == ["10.0.0.2", "10.0.0.4", "None"]

    database.transaction(work)


@pytest.mark.spec("ML2-01")
def test_ranges_of_segments_follow_the_configuration_and_keep_what_is_taken(
    database: Database,
) -> None:
    one, two = Pool(NetworkType.VLAN, "one"), Pool(NetworkType.VLAN, "two")
    tunnels = Pool(NetworkType.GRE)

    def work(tx: Transaction) -> None:
        take, define = tx.allocations.acquire_any, tx.allocations.define
        assert take(one) is None
        define(NetworkType.VLAN, (Range(one, 5, 6), Range(two, 5, 5)))
        define(NetworkType.GRE, (Range(tunnels, 2**32 - 1, 2**32 - 1),))
        assert (take(one), take(two), take(two)) == (5, 5, None)
        assert tx.allocations.acquire(one, 4000)
        define(NetworkType.VLAN, (Range(one, 4, 5), Range(one, 4000, 4001)))
        assert [take(one) for _ in range(3)] == [4, 4001, None]
        assert take(two) is None
        tx.allocations.release(one, 6)
        tx.allocations.release(one, 4000)
        assert [take(one), take(one)] == [4000, None]
        assert take(tunnels) == 2**32 - 1

    database.transaction(work)


@pytest.mark.parametrize("backend", SERVER_PARAMETERS)
def test_transaction_that_waited_leaves_a_range_for_the_next(
    database_servers: DatabaseServers, backend: str
) -> None:
    with closing(Database(database_servers.filled(backend))) as database:
        whole = Interval(1, 1000)
        database.transaction(lambda tx: FreeRanges(tx.connection).define("x", whole, [whole]))
        assert acquire_both(database, waits=True) == (1, 2)
        assert acquire_both(database, waits=False) == (3, 67)
        rows = select(func.count()).select_from(FREE_RANGES)
        with database.reading.connect() as connection:
            assert connection.execute(rows).scalar_one() == 2


BLOCKED = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_lock_waits",
}


def count_blocked(database: Database) -> int:
    """Return how many transactions wait for a lock."""
    with database.reading.connect() as connection:
        statement = text(BLOCKED[connection.dialect.name])
        return int(connection.execute(statement).scalar_one())


def acquire_both(database: Database, *, waits: bool) -> tuple[int, int]:
    """Acquire an id in each of two transactions at once; whether the second *waits* is known."""
    acquired, release = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> int:
        (number,) = FreeRanges(tx.connection).acquire_any("x")
        acquired.set()
        assert release.wait(60)
        return number

    def follow(tx: Transaction) -> int:
        (number,) = FreeRanges(tx.connection).acquire_any("x")
        return number

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(database.transaction, hold)
        assert acquired.wait(60)
        second = pool.submit(database.transaction, follow)
        while waits and not count_blocked(database):
            time.sleep(0.2)  # InnoDB shows former waits to who asks again within 0.1 s
        if waits:
            release.set()
        number = second.result(60)
        release.set()
        return first.result(60), number


@pytest.mark.spec("ML2-11")
def test_a_pool_that_is_redefined_keeps_ids_that_another_transaction_splits_off(
    database: Database,
) -> None:
    redefined = threading.Event()

    def define(tx: Transaction) -> None:
        redefined.set()
        FreeRanges(tx.connection).define("p", Interval(1, 10), [Interval(1, 8)])

    def split(tx: Transaction) -> None:
        assert FreeRanges(tx.connection).acquire("p", 5)
        if not thread.is_alive() and not redefined.is_set():
            thread.start()
        redefined.wait(0.5)
        time.sleep(0.2)  # the other transaction meets the lock meanwhile, or comes later

    database.transaction(
        lambda tx: FreeRanges(tx.connection).define("p", Interval(1, 10), [Interval(1, 10)])
    )
    thread = threading.Thread(target=database.transaction, args=(define,))
    database.transaction(split)
    thread.join(30)
    taken = database.transaction(lambda tx: FreeRanges(tx.connection).acquire_any("p", 10))
    assert taken == (1, 2, 3, 4, 6, 7, 8)
    assert database.transaction(lambda tx: FreeRanges(tx.connection).acquire("p", 9))


def release_while(database: Database, other: Callable[[Transaction], object]) -> None:
    """Release 10.0.0.10, all whose neighbours are taken, while *other* runs in a transaction that
    begins later."""
    block, address = subnet(), ip_address("10.0.0.10")

    def take(tx: Transaction) -> None:
        tx.addresses.define(block)
        tx.addresses.take_some(block, 20)

    def release(tx: Transaction) -> None:
        tx.addresses.release(block.id, address)
        later.append(pool.submit(database.transaction, other))
        while not later[-1].done() and not count_blocked(database):
            time.sleep(0.2)  # InnoDB shows former waits to who asks again within 0.1 s

    database.transaction(take)
    later: list[Future[object]] = []
    with ThreadPoolExecutor(1) as pool:
        database.transaction(release)
        later[-1].result(60)


@pytest.mark.spec("ML2-09")
@pytest.mark.parametrize("backend", SERVER_PARAMETERS)
def test_an_address_released_while_pools_shrink_is_not_allocated_automatically(
    database_servers: DatabaseServers, backend: str
) -> None:
    smaller = subnet(last="10.0.0.5")
    with closing(Database(database_servers.filled(backend))) as database:
        release_while(database, lambda tx: tx.addresses.define(smaller))
        assert database.transaction(lambda tx: tx.addresses.acquire_any(smaller)) is None


@pytest.mark.spec("ML2-09")
@pytest.mark.parametrize("backend", SERVER_PARAMETERS)
def test_an_address_released_while_the_subnet_is_renumbered_is_gone(
    database_servers: DatabaseServers, backend: str
) -> None:
    pools = (AllocationPool(start="10.1.0.2", end="10.1.0.5"),)
    renumbered = subnet(cidr="10.1.0.0/16", gateway="10.1.0.1", allocation_pools=pools)

    def renumber(tx: Transaction) -> None:
        tx.addresses.drop(renumbered.id)
        tx.addresses.define(renumbered)

    with closing(Database(database_servers.filled(backend))) as database:
        release_while(database, renumber)
        found = database.transaction(lambda tx: tx.addresses.acquire_any(renumbered))
        assert found == ip_address("10.1.0.2")
