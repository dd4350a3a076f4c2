"""IPv6 routes that hide the next hops of others: no state of the kernel stops a router."""

from __future__ import annotations

import random

import pytest

from netfw.drivers.router import RouterDriver
from netfw.errors import PartlyInvalid
from netfw.model.values.route import Route
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
    update = Update(put=site.wanted())
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
    # The same routes give the same result, whichever were there before.
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
        update = Update(put=wanted.wanted())
        outcome = driver.converge(update)
        assert all(isinstance(each, PartlyInvalid) for each in outcome.failed.values()), outcome
        assert not plan(driver, update), pairs
    converge(driver, site)


@pytest.mark.spec("L3-25")
def test_routes_that_the_kernel_refuses_are_left_out(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    # A route of a routing daemon hides the next hop; netfw leaves such routes alone.
    driver, floating = make_driver(), site.floating(50, site.nets[0].address(20))
    bring(driver, site, floating)
    words = f"ip -6 route add {NEAR}/128 via fd00:1::21 proto bird".split()
    environment.run(site.router, words)
    refused = {FAR: NEAR, "2001:db8:78::/48": NEAR}
    wanted = with_routes(site, *refused.items(), ("2001:db8:79::/48", OTHER), ("::/1", "fe80::7"))
    update = Update(put=wanted.wanted(floating))
    outcome = driver.converge(update)
    assert outcome.done == {floating.key}, outcome
    error = outcome.failed[site.key]
    assert isinstance(error, PartlyInvalid)
    texts = {f"route to {to} via {hop}" for to, hop in refused.items()}
    assert error.problems.keys() == {*texts, "route to ::/1 via fe80::7"}
    assert gateways(environment, site) == {
        "default": PROVIDER,
        NEAR: "fd00:1::21",
        "2001:db8:79::/48": OTHER,
    }
    environment.run(site.router, ["ip", "-6", "route", "delete", f"{NEAR}/128"])
    error = driver.converge(update).failed[site.key]
    assert isinstance(error, PartlyInvalid)
    assert error.problems.keys() == {"route to ::/1 via fe80::7"}
    assert refused.items() <= gateways(environment, site).items()
