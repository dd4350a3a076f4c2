"""Pages of rows that a rule selects."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.query import Body, Query
from netfw.errors import NotFound
from netfw.server.api.pagination import AT_ONCE, find_selected


class Table:
    """Rows in the order of their ids, of which every hundredth is selected."""

    def __init__(self, count: int) -> None:
        self.ids = [UUID(int=number) for number in range(count)]
        self.largest = 0
        self.deleted: set[UUID] = set()

    def find(self, query: Query) -> Sequence[Body]:
        ids = [id for id in self.ids if id not in self.deleted]
        if query.marker is not None:
            if query.marker not in ids:
                raise NotFound("no such marker")
            at = ids.index(query.marker)
            ids = ids[:at] if query.backwards else ids[at + 1 :]
        if query.limit is not None:
            ids = ids[-query.limit :] if query.backwards else ids[: query.limit]
        self.largest = max(self.largest, len(ids))
        return [{"id": str(id)} for id in ids]

    @staticmethod
    def select(rows: Sequence[Body]) -> Sequence[Body]:
        return [row for row in rows if UUID(str(row["id"])).int % 100 == 0]


def numbers(rows: Sequence[Body]) -> list[int]:
    return [UUID(str(row["id"])).int for row in rows]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_page_is_filled_from_a_bounded_number_of_rows_at_a_time(backwards: bool) -> None:
    table = Table(20 * AT_ONCE)
    query = Query(limit=30, backwards=backwards)
    found = numbers(find_selected(table.find, table.select, query))
    every = list(range(0, 20 * AT_ONCE, 100))
    assert found == (every[-30:] if backwards else every[:30])
    assert table.largest == AT_ONCE


def test_a_page_of_selected_rows_alone_reads_no_more_than_its_limit() -> None:
    table = Table(100)
    find_selected(table.find, lambda rows: rows, Query(limit=3))
    assert table.largest == 3


def test_the_last_page_ends_with_the_rows() -> None:
    table = Table(1050)
    query = Query(limit=5, marker=UUID(int=800))
    assert numbers(find_selected(table.find, table.select, query)) == [900, 1000]
    assert numbers(find_selected(table.find, table.select, Query(limit=50))) == [
        *range(0, 1050, 100)
    ]
    assert numbers(find_selected(table.find, table.select, Query())) == [*range(0, 1050, 100)]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_plugin_without_pages_is_read_twice_at_most(backwards: bool) -> None:
    rows = [{"id": str(UUID(int=number))} for number in range(AT_ONCE + 1)]
    found: list[Query] = []

    def find(query: Query) -> Sequence[Body]:
        found.append(query)
        assert len(found) < 3
        return rows

    assert find_selected(find, lambda _: [], Query(limit=1, backwards=backwards)) == []


def test_rows_that_are_deleted_meanwhile_end_no_page() -> None:
    table = Table(3 * AT_ONCE)

    def find(query: Query) -> Sequence[Body]:
        rows = table.find(query)
        if query.marker is None:
            table.deleted |= {UUID(str(row["id"])) for row in rows[-3:]}
        return rows

    found = numbers(find_selected(find, table.select, Query(limit=12)))
    assert found == [*range(0, 1200, 100)]
    with pytest.raises(NotFound):
        find_selected(find, table.select, evolve(Query(limit=1), marker=UUID(int=11)))
