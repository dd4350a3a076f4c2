"""What several server processes do with network segment ranges at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netfw.errors import Conflict, Exhausted, NotFound
from netfw.server.db import Database
from tests.server.segment_ranges.environment import SegmentRanges

NUMBER = "provider:segmentation_id"


@contextmanager
def server_at(url: str) -> Iterator[SegmentRanges]:
    """Yield a server of this process on the database."""
    database = Database(url)
    try:
        yield SegmentRanges(database)
    finally:
        database.close()


def take_numbers(url: str, seed: int) -> list[tuple[str, int]]:
    """Make networks of one's own project until no number is left; delete some on the way."""
    chance, project = random.Random(seed), f"project{seed}"
    kept: list[dict[str, Any]] = []
    with server_at(url) as server:
        try:
            while True:
                kept.append(server.network(project))
                if chance.random() < 0.3:
                    server.drop_network(kept.pop(chance.randrange(len(kept)))["id"])
        except Exhausted:
            return [(project, each[NUMBER]) for each in kept]


def make_overlapping(url: str, kind: str, seed: int) -> int:
    """Make ranges that overlap with those of the other processes; how many could be."""
    made = 0
    with server_at(url) as server:
        for at in random.Random(seed).sample(range(8), 8):
            try:
                server.make(100 + 10 * at, 112 + 10 * at, f"project{seed}", network_type=kind)
            except Conflict:
                continue
            made += 1
    return made


def use_or_delete(url: str, id: str, seed: int) -> list[int]:
    """Make networks of alice, or delete her range as soon as it can be."""
    numbers: list[int] = []
    with server_at(url) as server:
        for _ in range(6):
            try:
                if seed:
                    made = server.network("alice")
                    numbers.append(made[NUMBER])
                    server.drop_network(made["id"])
                else:
                    server.delete(id)
            except (Conflict, NotFound):
                continue
        if seed:
            numbers.append(server.network("alice")[NUMBER])
    return numbers


def come_and_go(url: str, seed: int) -> int:
    """Make and delete ranges, or networks with and without ranges of their own; how often."""
    done = 0
    with server_at(url) as server:
        for at in range(10):
            try:
                if seed == 0:
                    server.delete(server.make(2 + at % 5, 6 + at % 3, "project1")["id"])
                else:
                    server.drop_network(server.network(f"project{seed}")["id"])
                done += 1
            except Conflict:
                continue
    return done


def start_server(url: str, seed: int) -> int:
    """Start a server; how many ranges it finds."""
    with server_at(url) as server:
        return len(server.all())
