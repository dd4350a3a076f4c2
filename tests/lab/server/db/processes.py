"""What several processes do to one database at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from uuid import UUID, uuid4

from netfw.drivers.server.type_driver import Pool
from netfw.errors import Conflict
from netfw.model import NetworkType
from netfw.model.subnet import Subnet
from netfw.server.db import Database, Transaction
from tests.lab.server.db.samples import group, random_port, subnet
from tests.lab.server.forkserver import CONTEXT

VLANS = Pool(NetworkType.VLAN, "physnet1")


def at_once(workers: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return the results of *work* in several processes; an error of one is raised."""
    with ProcessPoolExecutor(workers, CONTEXT) as pool:
        running = [pool.submit(work, *arguments, seed) for seed in range(workers)]
        return [each.result(timeout=60) for each in running]


def make_port(tx: Transaction, of: Subnet, limit: int = -1) -> str | None:
    """Make a port with all that belongs to it; ``None`` when there is no address left."""
    address = tx.addresses.acquire_any(of)
    if address is None:
        return None
    made = random_port(address)
    tx.resources.insert(made)
    tx.quotas.use("p", "port", 1, limit)
    return str(address)


def make_ports(url: str, last: str, seed: int) -> list[str]:
    """Make ports until there is no address left."""
    database, of, made = Database(url), subnet(last=last), []
    while address := database.transaction(lambda tx: make_port(tx, of)):
        made.append(address)
    database.close()
    return made


def make_ports_for_ever(url: str) -> None:
    """Make ports until the process is killed."""
    database, of = Database(url), subnet(last="10.0.255.254")
    while True:
        database.transaction(lambda tx: make_port(tx, of))


def stop_in_the_middle(url: str, reached: Any) -> None:
    """Make half a port, say so, and wait to be killed."""

    def work(tx: Transaction) -> None:
        make_port(tx, subnet())
        tx.resources.insert(group(77))
        tx.journal.write()
        reached.set()
        time.sleep(60)

    Database(url).transaction(work)


def take_numbers(url: str, seed: int) -> list[int]:
    """Take all numbers that are left, giving some back on the way; those that are kept."""
    database, chance, kept = Database(url), random.Random(seed), []
    while (
        number := database.transaction(lambda tx: tx.allocations.acquire_any(VLANS))
    ) is not None:
        kept.append(number)
        if chance.random() < 0.3:
            back = kept.pop(chance.randrange(len(kept)))
            database.transaction(lambda tx, back=back: tx.allocations.release(VLANS, back))
    database.close()
    return kept


def take_these(url: str, numbers: list[int], seed: int) -> list[int]:
    """Take *numbers*, in an order of one's own; those that were free."""
    database = Database(url)
    random.Random(seed).shuffle(numbers)

    def take(number: int) -> bool:
        return database.transaction(lambda tx: tx.allocations.acquire(VLANS, number))

    mine = list(filter(take, numbers))
    database.close()
    return mine


def give_back_these(url: str, numbers: list[int], seed: int) -> None:
    """Give *numbers* back, in an order of one's own, as others do with the same ones."""
    database = Database(url)
    random.Random(seed).shuffle(numbers)
    for number in numbers:
        database.transaction(lambda tx, n=number: tx.allocations.release(VLANS, n))
    database.close()


def use_quota(url: str, limit: int, seed: int) -> int:
    """Use the quota one by one until it is exhausted, and return how often that succeeded."""
    database, count = Database(url), 0
    try:
        while True:
            database.transaction(lambda tx: tx.quotas.use("p", "port", 1, limit))
            count += 1
    except Conflict:
        return count
    finally:
        database.close()


def default_group(url: str, seed: int) -> UUID:
    """Return the default group of the project; it is made where there is none."""
    database = Database(url)

    def work(tx: Transaction) -> UUID:
        known = tx.default_groups.of("p")
        if known is not None:
            return known
        (made,) = tx.resources.insert(group(id=uuid4()))
        tx.default_groups.set("p", made.id)
        return made.id

    try:
        return database.transaction(work)
    finally:
        database.close()
