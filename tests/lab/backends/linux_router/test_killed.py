"""A driver that is killed at any moment interrupts nothing, and its successor finishes its work."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve

from netfw.drivers.values.router_values import RouterDriverKey, RouterDriverValue
from netfw.model.values.route import Route
from netfw.plan import Update
from netfw.testing.conformance.dhcp.lab_host import BRIDGE
from netfw.testing.conformance.router.distributed_factories import (
    bring_entries,
    entries,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.factories import make_site
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router import driver_process
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, plan

pytestmark = [pytest.mark.services, pytest.mark.nightly]

KILLS = 12


@pytest.mark.spec("L3-11")
def test_a_killed_driver_interrupts_no_traffic(tmp_path: Path) -> None:
    chance = random.Random(13)
    with LinuxRouterEnvironment() as environment:
        site = make_site()
        environment.admit(site.ports)
        kept, moving = (site.floating(n, site.nets[0].address(n - 30)) for n in (50, 51))
        there = site.nets[0].address(22)
        routes = (Route(destination="198.51.100.0/24", nexthop=site.nets[0].address(20)),)
        gone = evolve(site, state=evolve(site.state, routes=routes)).with_full(
            interfaces=site.full.interfaces[:1]
        )
        updates: list[Update[RouterDriverKey, RouterDriverValue]] = [
            Update(put=site.wanted(kept, moving)),
            Update(put={moving.key: moving.to(there).value}),
            Update(put=gone.wanted(kept), drop=frozenset({moving.key})),
        ]
        driver = environment.make_driver()
        wait_until(lambda: driver.converge(updates[0]).ok, seconds=60)
        environment.killed(driver)
        outside = environment.machine(site.external.id, site.external.interfaces(1))
        net = site.nets[0]
        environment.machine(net.id, net.interfaces(20), net.gateways())
        wait_until(lambda: outside.reach(kept.address), seconds=60)
        job = tmp_path / "job"
        job.write_bytes(pickle.dumps(environment.job(BRIDGE, updates)))
        traffic = outside.traffic(kept.address)
        stream = wait_until(lambda: outside.connect(kept.address, 80))
        for _ in range(KILLS):
            kill_at_random(job, chance)
        driver = environment.make_driver()
        wait_until(lambda: driver.converge(updates[0]).ok, seconds=60)
        assert not driver.plan(updates[0], driver.observe(None))  # type: ignore[attr-defined]
        assert traffic.stop() == 0
        assert stream.stays_alive()
        stream.close()
        assert driver.gc(()).ok
        environment.killed(driver)


@pytest.mark.nightly
@pytest.mark.spec("L3-62")
def test_a_killed_driver_interrupts_no_floating_ip(tmp_path: Path) -> None:
    chance = random.Random(62)
    with LinuxRouterEnvironment() as environment:
        site = make_distributed()
        gateway = make_agent_gateway(site.external)
        environment.admit([*site.ports, gateway.value.port])
        net, external = site.nets[0], site.external
        kept, moving = (site.floating(n, net.address(n - 30)) for n in (50, 51))
        updates: list[Update[RouterDriverKey, RouterDriverValue]] = [
            Update(put=entries(site, gateways=[gateway], floating=[kept, moving])),
            Update(put={moving.key: moving.to(net.address(22)).value}),
            Update(
                put=entries(site.with_state(central=None), floating=[kept]),
                drop=frozenset({moving.key}),
            ),
        ]
        driver = environment.make_driver()
        bring_entries(driver, dict(updates[0].put))
        environment.killed(driver)
        outside = environment.machine(external.id, external.interfaces(1))
        environment.machine(net.id, net.interfaces(20), net.gateways())
        wait_until(lambda: outside.reach(kept.address), seconds=60)
        job = tmp_path / "job"
        job.write_bytes(pickle.dumps(environment.job(BRIDGE, updates)))
        traffic = outside.traffic(kept.address)
        stream = wait_until(lambda: outside.connect(kept.address, 80))
        for _ in range(KILLS):
            kill_at_random(job, chance)
        driver = environment.make_driver()
        bring_entries(driver, dict(updates[0].put))
        assert not plan(driver, updates[0])
        assert traffic.stop() == 0
        assert stream.stays_alive()
        stream.close()
        assert driver.gc(()).ok
        environment.killed(driver)


def kill_at_random(job: Path, chance: random.Random) -> None:
    command = [sys.executable, "-m", driver_process.__name__, str(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline().strip() == driver_process.READY
        time.sleep(chance.uniform(0.0, 1.5))
        assert victim.poll() is None, "it ended by itself"
        victim.kill()
