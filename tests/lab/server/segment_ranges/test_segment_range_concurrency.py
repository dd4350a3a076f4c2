"""Several servers on one database: ranges never overlap, and no number is given twice or lost."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations

import pytest

from netfw.errors import Exhausted
from netfw.server.db import Database
from tests.lab.server.db.processes import at_once
from tests.lab.server.segment_ranges.processes import (
    come_and_go,
    make_overlapping,
    start_server,
    take_numbers,
    use_or_delete,
)
from tests.server.segment_ranges.environment import SegmentRanges

pytestmark = pytest.mark.spec("API-07", "ML2-11")

WORKERS = 3


def test_projects_share_what_is_shared_and_nothing_else(url: str, database: Database) -> None:
    server = SegmentRanges(database)
    server.make(2, 4, "project0")
    server.make(20, 22, "project1")
    kept = [tuple(each) for part in at_once(WORKERS, take_numbers, url) for each in part]
    owners = {number: project for project, number in kept}
    assert len(owners) == len(kept)
    for number in (2, 3, 4):
        assert owners.get(number, "project0") == "project0"
    for number in (20, 21, 22):
        assert owners.get(number, "project1") == "project1"
    for project in ("project0", "project1", "project2"):
        with suppress(Exhausted):
            while True:
                (number,) = server.numbers(project, 1)
                assert owners.setdefault(number, project) == project
    assert owners.keys() == {*range(1, 11), 20, 21, 22}


@pytest.mark.parametrize("kind", ["vxlan", "gre"])
def test_ranges_of_several_servers_never_overlap(url: str, database: Database, kind: str) -> None:
    assert sum(at_once(WORKERS, make_overlapping, url, kind))
    stored = [each for each in SegmentRanges(database).all() if not each["default"]]
    for one, other in combinations(stored, 2):
        assert one["maximum"] < other["minimum"] or other["maximum"] < one["minimum"]


def test_a_range_is_deleted_only_without_networks(url: str, database: Database) -> None:
    server = SegmentRanges(database)
    made = server.make(20, 29, "alice")["id"]
    parts = at_once(WORKERS, use_or_delete, url, made)
    left = {each["id"] for each in server.all()}
    last = [part[-1] for part in parts if part]
    assert len(set(last)) == len(last)
    if made not in left:
        assert all(number <= 10 for number in last)


def test_numbers_are_never_lost_while_ranges_come_and_go(url: str, database: Database) -> None:
    server = SegmentRanges(database)
    at_once(WORKERS, come_and_go, url)
    for each in server.all():  # those that had a network when they were to be deleted
        if not each["default"]:
            server.delete(each["id"])
    assert sorted(server.numbers("bob", 10)) == list(range(1, 11))


def test_servers_that_start_at_once_store_default_ranges_once(url: str, database: Database) -> None:
    assert at_once(WORKERS, start_server, url) == [2] * WORKERS
