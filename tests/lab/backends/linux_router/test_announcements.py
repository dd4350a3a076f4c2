"""Announcements of the Linux router driver, as instances receive them."""

from __future__ import annotations

import pytest

from netfw.plan import Update
from netfw.testing.conformance.router.factories import make_site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = pytest.mark.services


@pytest.mark.spec("L3-29")
def test_addresses_of_interfaces_are_announced_from_time_to_time() -> None:
    with LinuxRouterEnvironment(announce_interval=1, announce_count=1) as environment:
        site = make_site()
        environment.admit(site.ports)
        driver = environment.make_driver()
        update = Update(put=site.wanted())
        wait_until(lambda: driver.converge(update).ok, seconds=60)
        net = site.nets[0]
        instance = environment.machine(net.id, net.interfaces(20))
        assert isinstance(instance, LabMachine)
        seen = instance.instance.run(
            ["timeout", "20", "tcpdump", "-lnc", "2", "-i", "eth0", f"arp and src {net.address(1)}"]
        )
        assert len([line for line in seen.splitlines() if "Request" in line]) >= 1
        assert driver.gc(()).ok
        environment.killed(driver)
