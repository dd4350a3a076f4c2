"""Hosts with a switch driver."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from netfw.testing.lab.host import Host
from tests.lab.backends.ovs.switch.environment import SwitchHost
from tests.lab.backends.ovs.switch.routed_site import ONE_ROUTER, RoutedSite, Router


@pytest.fixture
def hosts() -> Iterator[Callable[..., SwitchHost]]:
    """Yield a function that makes hosts with a switch driver out of hosts of a lab."""
    made: list[SwitchHost] = []

    def make(host: Host, **options: Any) -> SwitchHost:
        made.append(SwitchHost(host, **options))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def one(make_lab, hosts) -> SwitchHost:
    """Return one host without tunnels or physical networks."""
    (host,) = make_lab(hosts=1).hosts.values()
    return hosts(host)


@pytest.fixture
def make_site(make_lab, hosts) -> Iterator[Callable[..., RoutedSite]]:
    """Yield a function that makes sites with distributed routers, and networks of one type."""
    with ExitStack() as stack:

        def make(
            kind: str, count: int = 2, routers: tuple[Router, ...] = ONE_ROUTER, **more: Any
        ) -> RoutedSite:
            nets = sorted({net for router in routers for net in router.networks})
            provider = {"flat": [f"phys{net}" for net in nets], "vlan": ["phys1"]}
            lab = make_lab(hosts=count, provider=provider.get(kind, []))
            site = RoutedSite(lab, hosts, kind, routers, **more)
            stack.callback(site.close)
            site.prepare()
            return site

        yield make
