"""A keepalived that does not answer: reloads that take long."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netfw.errors import BackendUnavailable
from netfw.model.values.route import Route
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from netfw_drivers.linux_router.runtime import keepalived_runner
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
)
from tests.lab.backends.linux_router.ha_instances import (
    Pair,
    addresses,
    bring_active,
    pids,
)


@contextmanager
def suspended_child(environment: LinuxRouterEnvironment, site: Site) -> Iterator[None]:
    """Suspend the VRRP process of an instance, out of sight of the supervisor."""
    child = pids(site)[-1]
    pid_file = environment.router_confs / "keepalived" / f"{site.router}.conf.vrrp.pid"
    assert int(pid_file.read_text()) == child
    pid_file.unlink()
    os.kill(child, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(child, signal.SIGCONT)


@pytest.mark.spec("L3-40")
@pytest.mark.parametrize("restarted", [False, True])
def test_floating_ip_is_not_done_before_keepalived_has_its_address(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    *,
    restarted: bool,
) -> None:
    # A driver that is started meanwhile does not report it either.
    monkeypatch.setattr(keepalived_runner, "RELOAD_TIMEOUT", 0.5)
    driver, site = make_driver(), pair[0]
    bring_active(driver, site)
    bring(driver, site)
    present = site.floating(50, site.nets[0].address(9))
    bring(driver, site, present)
    floating = site.floating(51, site.nets[0].address(10))
    update = Update(put=site.wanted(present, floating))
    running = pids(site)
    with suspended_child(environment, site):
        for attempt in range(2):
            if restarted and attempt:
                driver = make_driver()
            outcome = driver.converge(update)
            assert outcome.done == {present.key}
            assert outcome.failed.keys() == {site.key, floating.key}
            for error in outcome.failed.values():
                assert isinstance(error, BackendUnavailable)
                assert f"{floating.address}/32" in str(error)
        assert str(floating.address) not in addresses(environment, site)
    bring(driver, site, present, floating)
    assert f" {floating.address}/32 " in addresses(environment, site)
    assert pids(site) == running


@pytest.mark.spec("L3-40")
def test_router_is_not_done_before_keepalived_has_read_a_new_route(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keepalived_runner, "RELOAD_TIMEOUT", 0.5)
    driver, site = make_driver(), pair[0]
    bring_active(driver, site)
    bring(driver, site)
    route = Route(destination="198.51.100.0/24", nexthop=site.nets[0].address(9))
    routed = site.with_state(routes=(route,))
    with suspended_child(environment, site):
        for _ in range(2):
            outcome = driver.converge(Update(put=routed.wanted()))
            error = outcome.failed[site.key]
            assert isinstance(error, BackendUnavailable)
            assert str(route.destination) in str(error)
    bring(driver, routed)
    assert str(route.destination) in {each["dst"] for each in environment.routes(site.router)}


@pytest.mark.spec("L3-40")
def test_router_is_not_done_before_keepalived_has_removed_a_route(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, site = make_driver(), pair[0]
    bring_active(driver, site)
    routes = tuple(
        Route(destination=to, nexthop=site.nets[0].address(9))
        for to in ("198.51.100.0/25", "198.51.100.128/25")
    )
    bring(driver, site.with_state(routes=routes))
    monkeypatch.setattr(keepalived_runner, "RELOAD_TIMEOUT", 0.5)
    kept = site.with_state(routes=routes[1:])
    with suspended_child(environment, site):
        for _ in range(2):
            error = driver.converge(Update(put=kept.wanted())).failed[site.key]
            assert isinstance(error, BackendUnavailable)
            assert f"not applied the removal of {routes[0].destination} yet" in str(error)
    monkeypatch.undo()
    bring(driver, kept)
    present = {each["dst"] for each in environment.routes(site.router)}
    assert str(routes[0].destination) not in present
    assert str(routes[1].destination) in present
