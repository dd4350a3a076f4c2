"""Floating IPs of a driver that has just started."""

from __future__ import annotations

from contextlib import suppress

import pytest

from netfw.errors import BackendUnavailable
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
    plan,
)

pytestmark = pytest.mark.services


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    """Make the first call of a method fail, as on a machine without memory; return the calls."""
    works, calls = getattr(owner, name), list[object]()

    def fail(self: object, *args: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise BackendUnavailable("no memory")
        return works(self, *args)

    monkeypatch.setattr(owner, name, fail)
    return calls


def test_a_floating_ip_is_changed_by_a_driver_that_never_saw_its_router(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site
) -> None:
    bring(make_driver(), site)
    floating = site.floating(50, site.nets[0].address(20))
    driver = make_driver()
    assert driver.converge(Update(put={floating.key: floating.value})).ok
    assert floating.key in driver.present()
    outside = environment.machine(site.external.id, site.external.interfaces(1))
    inside = environment.machine(
        site.nets[0].id, site.nets[0].interfaces(20), site.nets[0].gateways()
    )
    wait_until(lambda: outside.reach(floating.address), seconds=60)
    wait_until(lambda: inside.reach(site.external.address(1)))
    driver = make_driver()
    assert driver.converge(Update(drop=frozenset({floating.key}))).ok
    assert floating.key not in driver.present()
    assert not plan(driver, Update(put=site.wanted()))


def test_a_first_read_that_fails_hides_no_floating_ip(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    floating = site.floating(50, site.nets[0].address(20))
    bring(make_driver(), site, floating)
    driver = make_driver()
    attempts = fail_once(monkeypatch, RouterNetnsExecutor, "read_filters")
    with suppress(BackendUnavailable):
        driver.converge(Update(drop=frozenset({floating.key})))
    assert len(attempts) == 1
    assert driver.converge(Update(drop=frozenset({floating.key}))).ok
    assert floating.key not in make_driver().present()
