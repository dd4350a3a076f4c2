"""Drivers that are killed while they converge distributed routers."""

from __future__ import annotations

import pytest

from netfw.drivers.values.router_values import RouterDriverKey, RouterDriverValue
from netfw.plan import Stage, Update
from netfw.testing.conformance.router.distributed_factories import (
    bring_entries,
    entries,
    make_agent_gateway,
    make_distributed,
)
from netfw_drivers.linux_router.driver import LinuxRouterDriver
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    plan,
)

pytestmark = pytest.mark.services

Entries = dict[RouterDriverKey, RouterDriverValue]


class Killed(Exception):
    """The driver ends here."""


def converge_killed(driver: LinuxRouterDriver, update: Update, stages: int) -> bool:
    """Apply an update up to a number of stages; return whether there were more."""
    done: list[Stage] = []

    def checkpoint(stage: Stage) -> None:
        done.append(stage)
        if len(done) == stages:
            raise Killed

    try:
        driver.apply(driver.plan(update, driver.observe(update)), checkpoint)
    except Killed:
        return True
    return False


@pytest.mark.spec("L3-62", "L3-66")
def test_a_driver_that_is_killed_at_any_stage_leaves_what_the_next_one_repairs(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> None:
    site = make_distributed()
    gateway = make_agent_gateway(site.external)
    environment.admit([*site.ports, gateway.value.port])
    floating = site.floating(50, site.nets[0].address(20))
    bring_entries(make_driver(), Entries(), complete=True)
    before = environment.dump_state()
    wanted = entries(site, gateways=[gateway], floating=[floating])
    put, drop = Update(put=wanted, complete=True), Update(complete=True)
    stages, more = 1, True
    while more:
        more = False
        for update, rest in ((put, wanted), (drop, Entries())):
            driver = make_driver()
            assert isinstance(driver, LinuxRouterDriver)
            more |= converge_killed(driver, update, stages)
            bring_entries(make_driver(), rest, complete=True)
            assert not plan(make_driver(), update)
        assert environment.dump_state() <= before
        stages += 1
    assert stages > 10
