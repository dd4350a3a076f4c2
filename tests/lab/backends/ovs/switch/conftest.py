"""Hosts with a switch driver."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netfw.testing.lab.host import Host
from tests.lab.backends.ovs.switch.environment import SwitchHost


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
