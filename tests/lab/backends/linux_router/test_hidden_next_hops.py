"""IPv6 routes that hide the next hops of others: no state of the kernel stops a router."""

from __future__ import annotations

import random

import pytest

from netfw.drivers.router import RouterDriver
from netfw.errors import PartlyInvalid
from netfw.model.route import Route
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
    plan,
)

pytestmark = pytest.mark.services

NEAR, OTHER, PROVIDER = "fd00:1::20", "fd00:2::20", "2001:db8:ff::1"
FAR = "2001:db8:77::/48"


def with_routes(site: Site, *pairs: tuple[str, str]) -> Site:
    return site.with_state(routes=tuple(Route(destination=to, nexthop=hop) for to, hop in pairs))


def converge(driver: RouterDriver, site: Site) -> None:
    """Converge once: it succeeds, and nothing is left to do."""
    update = Update(put={site.key: site.state})
    outcome = driver.converge(update)
    assert outcome.ok, outcome
    assert not plan(driver, update)


def gateways(environment: LinuxRouterEnvironment, site: Site) -> dict[str, str]:
    """Return the next hop of each IPv6 route that has one."""
    return {
        each["dst"]: each["gateway"]
        for each in environment.routes(site.router, "-6")
        if "gateway" in each
    }


@pytest.mark.spec("L3-25")
def test_routes_that_hide_the_provider_can_be_removed(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    driver = make_driver()
    bring(driver, site)
    host = (f"{PROVIDER}/128", PROVIDER)
    converge(driver, with_routes(site, host))
    converge(driver, with_routes(site, host, ("::/0", NEAR)))
    assert gateways(environment, site)["default"] == NEAR
    converge(driver, site)
    assert gateways(environment, site) == {"default": PROVIDER}


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize("hop", [NEAR, OTHER])
def test_a_route_that_hides_a_next_hop_is_exchanged_for_one_that_needs_it(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, hop: str
) -> None:
    driver = make_driver()
    bring(driver, site)
    converge(driver, with_routes(site, (f"{NEAR}/128", hop)))
    converge(driver, with_routes(site, (FAR, NEAR)))
    assert gateways(environment, site) == {"default": PROVIDER, FAR: NEAR}
    converge(driver, with_routes(site, (FAR, NEAR), (f"{NEAR}/128", hop)))
    other = OTHER if hop == NEAR else NEAR
    converge(driver, with_routes(site, (FAR, NEAR), (f"{NEAR}/128", other)))
    assert gateways(environment, site) == {"default": PROVIDER, FAR: NEAR, NEAR: other}


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize(
    ("pairs", "lost"),
    [
        ([(f"{NEAR}/128", OTHER), (FAR, NEAR)], FAR),
        ([(f"{NEAR}/128", NEAR), (FAR, NEAR)], FAR),
        ([(f"{PROVIDER}/128", PROVIDER)], "default"),
        ([(f"{PROVIDER}/128", NEAR)], "default"),
    ],
)
def test_a_lost_route_whose_next_hop_is_hidden_is_repaired(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: Site,
    pairs: list[tuple[str, str]],
    lost: str,
) -> None:
    driver = make_driver()
    wanted = with_routes(site, *pairs)
    bring(driver, wanted)
    before = gateways(environment, site)
    environment.run(site.router, ["ip", "-6", "route", "delete", lost])
    assert lost not in gateways(environment, site)
    converge(driver, wanted)
    assert gateways(environment, site) == before


@pytest.mark.spec("L3-25")
def test_no_sequence_of_routes_is_refused(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    """The same routes give the same result, whichever were there before."""
    driver = make_driver()
    bring(driver, site)
    destinations = [
        "::/0",
        FAR,
        "fd00:1::/80",
        f"{NEAR}/128",
        f"{OTHER}/128",
        f"{PROVIDER}/128",
        "2001:db8:ff::/80",
        "2000::/3",
    ]
    hops = [NEAR, "fd00:1::21", OTHER, PROVIDER]
    choose = random.Random(7)
    for _ in range(60):
        pairs = [
            (choose.choice(destinations), choose.choice(hops)) for _ in range(choose.randint(0, 5))
        ]
        wanted = with_routes(site, *dict.fromkeys(pairs))
        update = Update(put={site.key: wanted.state})
        outcome = driver.converge(update)
        assert all(isinstance(each, PartlyInvalid) for each in outcome.failed.values()), outcome
        assert not plan(driver, update), pairs
    converge(driver, site)
