"""What a driver reads again, and what it leaves alone after a restart."""

from __future__ import annotations

import pytest

from netfw.drivers.values.keys import RouterKey
from netfw.testing.conformance.router.factories import Floating, Site
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
)

pytestmark = pytest.mark.services


@pytest.fixture
def floating(site: Site) -> Floating:
    return site.floating(50, site.full.interfaces[0].addresses[0].ip + 20)


def rules(environment: LinuxRouterEnvironment, site: Site) -> list[str]:
    """Return the rules of a router without those of floating IPs."""
    saved = environment.run(site.router, ["iptables-save"]).splitlines()
    return [line for line in saved if line.startswith("-A") and "fip-" not in line]


@pytest.mark.spec("DRV-03")
def test_floating_ip_whose_rules_another_program_removed_is_not_present(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, floating: Floating
) -> None:
    driver = make_driver()
    bring(driver, site, floating)
    assert floating.key in driver.present()
    environment.run(site.router, ["iptables", "-t", "nat", "-F", "router-float-dnat"])
    assert floating.key not in driver.present()


@pytest.mark.spec("DRV-03")
def test_kept_router_loses_the_floating_ips_that_are_not_kept_and_nothing_else(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, floating: Floating
) -> None:
    bring(make_driver(), site, floating)
    before = rules(environment, site)
    driver = make_driver()
    driver.gc([RouterKey(site.router)])
    assert driver.present() == {RouterKey(site.router)}
    assert rules(environment, site) == before
