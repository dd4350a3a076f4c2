"""Hosts with a switch driver."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from switch_host import SwitchHost

from netfw.testing.lab.host import Host


@pytest.fixture
def hosts() -> Iterator[Callable[..., SwitchHost]]:
    """Makes hosts with a switch driver out of hosts of a lab."""
    made: list[SwitchHost] = []

    def make(host: Host, **options: Any) -> SwitchHost:
        made.append(SwitchHost(host, **options))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def one(make_lab, hosts) -> SwitchHost:
    """One host without tunnels or physical networks."""
    (host,) = make_lab(hosts=1).hosts.values()
    return hosts(host)


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait for a condition, with a deadline."""

    def wait(condition: Callable[[], object], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.005)

    return wait
