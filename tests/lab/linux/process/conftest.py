from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.linux import netns
from netfw.linux.process import Backoff, Supervisor, Timeouts
from netfw.testing.lab import sandbox


@pytest.fixture
def events() -> queue.Queue:
    return queue.Queue()


@pytest.fixture
def make_supervisor(tmp_path: Path, events: queue.Queue) -> Iterator[Callable[[], Supervisor]]:
    """Yield a function that makes supervisors over one directory, as restarts of an agent do."""
    sandbox.require()
    made: list[Supervisor] = []

    def make(**options: object) -> Supervisor:
        options.setdefault("backoff", Backoff(first=0.02, most=0.2))
        options.setdefault("timeouts", Timeouts(stop=1.0, kill=60.0, launch=60.0))
        sink = options.pop("sink", events.put)
        made.append(Supervisor(tmp_path / "pids", sink, **options))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.close()  # or it would start again what the last one stops
    with make() as last:
        for key in last.present():
            last.stop(key)


@pytest.fixture
def supervisor(make_supervisor: Callable[[], Supervisor]) -> Supervisor:
    return make_supervisor()


@pytest.fixture
def served() -> Iterator[str]:
    name = "served"
    netns.create(name)
    try:
        yield name
    finally:
        netns.delete(name)
