"""Hosts that run the L2 agent."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.agents.l2.environment import Cloud


@pytest.fixture
def make_cloud(make_lab: Any, tmp_path: Path) -> Iterator[Callable[..., Cloud]]:
    """Yield a function that makes hosts with agents; they end with the test."""
    clouds: list[Cloud] = []

    def make(hosts: int = 1, **options: Any) -> Cloud:
        lab = make_lab(hosts=hosts, bridges=["br-int"], **options)
        clouds.append(Cloud(list(lab.hosts.values()), tmp_path))
        return clouds[-1]

    yield make
    for cloud in clouds:
        for host in cloud.hosts.values():
            if host.process is not None and host.process.poll() is None:
                host.kill()
