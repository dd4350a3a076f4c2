"""Distributed routers: every host routes for its own instances."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.routed_site import (
    RoutedSite,
    Router,
    address,
    neighbour,
)

ONE_ROUTER = (Router(0, (1, 2)),)
KINDS = ("vxlan", "geneve", "vlan", "flat")


@pytest.fixture
def make_site(make_lab, hosts) -> Iterator[Callable[..., RoutedSite]]:
    with ExitStack() as stack:

        def make(kind: str, count: int = 2, routers=ONE_ROUTER, **more) -> RoutedSite:
            nets = {net for router in routers for net in router.networks}
            provider = {"flat": [f"phys{n}" for n in sorted(nets)], "vlan": ["phys1"]}
            lab = make_lab(hosts=count, provider=provider.get(kind, []))
            site = RoutedSite(lab, hosts, kind, routers, **more)
            stack.callback(site.close)
            site.prepare()
            return site

        yield make


def reaches(instance, target: str) -> None:
    wait_until(lambda: instance.ping(target, count=1).received, f"an answer of {target}")


@pytest.mark.spec("L2-60")
@pytest.mark.parametrize("kind", KINDS)
def test_instances_of_two_hosts_reach_each_other_by_the_routers_of_their_hosts(make_site, kind):
    site = make_site(kind)
    a, b = site.place(0, 1, 10), site.place(1, 2, 20)
    site.bring()
    for version in (4, 6):
        reaches(a, address(2, 20, version))
        reaches(b, address(1, 10, version))
        assert neighbour(a, address(1, 1, version)) == site.routers[0].interface(1).mac
