"""Routes of highly available routers that the kernel refuses."""

from __future__ import annotations

import pytest

from netfw.drivers.router import RouterDriver
from netfw.errors import PartlyInvalid
from netfw.model.router import HaRole
from netfw.model.values.address import as_address
from netfw.model.values.route import Route
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.runtime import daemon_runner
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
)
from tests.lab.backends.linux_router.ha_instances import (
    Pair,
    bring_active,
    pids,
    role,
)

NEAR, OTHER, CONNECTED = "fd00:1::20", "fd00:1::21", "fd00:1::/64"
REFUSED = ("2001:db8:77::/48", "2001:db8:78::/48")
POSSIBLE = "2001:db8:79::/48"


def with_routes(site: Site) -> Site:
    pairs = (*((to, NEAR) for to in REFUSED), (POSSIBLE, OTHER))
    return site.with_state(routes=tuple(Route(destination=to, nexthop=hop) for to, hop in pairs))


def left_out(driver: RouterDriver, site: Site) -> dict[str, str]:
    outcome = driver.converge(Update(put=site.wanted()))
    if outcome.ok:
        return {}
    error = outcome.failed[site.key]
    assert isinstance(error, PartlyInvalid), error
    return dict(error.problems)


def wait_left_out(driver: RouterDriver, site: Site) -> dict[str, str]:
    """Return what is left out, as soon as keepalived has tried to add the routes."""
    return wait_until(lambda: left_out(driver, site))


def destinations(environment: LinuxRouterEnvironment, site: Site) -> set[str]:
    return {each["dst"] for each in environment.routes(site.router, "-6")}


def hide_next_hop(environment: LinuxRouterEnvironment, site: Site) -> None:
    """Add a route of a routing daemon, as soon as keepalived has added the network of its hop."""
    wait_until(lambda: CONNECTED in destinations(environment, site))
    environment.run(site.router, f"ip -6 route add {NEAR}/128 via {OTHER} proto bird".split())


@pytest.mark.spec("L3-25")
def test_refused_routes_of_the_active_instance_are_left_out(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, pair: Pair
) -> None:
    # A route of a routing daemon hides the next hop; a standby has no routes to be refused.
    driver, (site, standby) = make_driver(), pair
    bring_active(driver, site)
    bring(driver, standby)
    wait_until(lambda: role(driver, standby) is HaRole.STANDBY, seconds=60)
    running = pids(site)
    hide_next_hop(environment, site)
    texts = {f"route to {to} via {NEAR}" for to in REFUSED}
    for restarted in (False, True):
        driver = make_driver() if restarted else driver
        problems = wait_left_out(driver, with_routes(site))
        assert problems.keys() == texts
        assert all("No route to host" in why for why in problems.values()), problems
        assert left_out(driver, with_routes(standby)) == {}
    wait_until(lambda: POSSIBLE in destinations(environment, site))
    environment.run(site.router, ["ip", "-6", "route", "delete", f"{NEAR}/128"])
    assert left_out(driver, site) == {}
    assert left_out(driver, with_routes(site)) == {}
    wait_until(lambda: {*REFUSED, POSSIBLE} <= destinations(environment, site))
    assert pids(site) == running
    assert role(driver, site) is HaRole.ACTIVE


@pytest.mark.spec("L3-25")
def test_refused_default_routes_of_the_active_instance_are_left_out(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, pair: Pair
) -> None:
    driver, site = make_driver(), pair[0]
    bring_active(driver, site)
    bad = (site.external.blocks[0].broadcast_address, as_address("ff02::7"))
    problems = wait_left_out(driver, site.with_gateway(next_hops=bad))
    assert problems.keys() == {f"default route via {hop}" for hop in bad}
    assert left_out(driver, site) == {}


@pytest.mark.spec("L3-25")
def test_refused_routes_stay_known_when_the_log_was_trimmed(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, site = make_driver(), pair[0]
    bring_active(driver, site)
    hide_next_hop(environment, site)
    problems = wait_left_out(driver, with_routes(site))
    log = environment.router_confs / "keepalived" / f"{site.router}.log"
    assert log.stat().st_size
    monkeypatch.setattr(daemon_runner, "LOG_LIMIT", 0)
    for _ in range(2):
        assert left_out(driver, with_routes(site)) == problems
    assert not log.stat().st_size
    environment.run(site.router, ["ip", "-6", "route", "delete", f"{NEAR}/128"])
    assert left_out(driver, site) == {}
    assert left_out(driver, with_routes(site)) == {}
