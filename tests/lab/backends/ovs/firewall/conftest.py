"""Hosts that filter in the switch."""

from collections.abc import Iterator

import pytest

from netfw.plan import Update
from tests.lab.backends.ovs.firewall.environment import FilteredHost, network, wired


@pytest.fixture
def host(make_lab) -> Iterator[FilteredHost]:
    """Yield a host with a bridge and no instances."""
    (host,) = make_lab(hosts=1).hosts.values()
    made = FilteredHost(host)
    assert made.switch.converge(Update(put=network(1))).ok
    yield made
    made.close()


@pytest.fixture
def pair(host) -> FilteredHost:
    """Return a host with instances 1 and 2 on one network, wired as filtered, without a filter."""
    for number in (1, 2):
        host.instance(number)
    host.switch.observe(None)
    outcome = host.switch.converge(Update(put={**wired(1), **wired(2)}))
    assert outcome.ok, outcome
    return host
