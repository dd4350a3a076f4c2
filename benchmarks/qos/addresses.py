"""Bandwidth of a limited floating IP, by the Linux router driver, against its limit.

The limit counts IP packets; iperf3 counts payload, of which a full packet of TCP has 97 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from benchmarks.figure import Figure
from benchmarks.iperf import bandwidth, deviation
from netfw.drivers.base import HostResources
from netfw.drivers.values.router_contribution import AddressQos, RouterContribution
from netfw.model.qos import BandwidthLimit
from netfw.model.security_group import Direction
from netfw.model.values.ids import QosRuleId
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Floating, Site, make_site
from netfw.testing.conformance.router.lab_environment import RouterLabEnvironment
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.driver import LinuxRouterDriver

LIMITS = (10, 100)
"""Megabits a second."""


class _Environment(RouterLabEnvironment):
    def make_router(self, host: HostResources, directory: Path) -> LinuxRouterDriver:
        options = {option.dest: option.default for option in LinuxRouterDriver.OPTIONS}
        return LinuxRouterDriver.from_conf({**options, "router_confs": str(directory)}, host)


def figures() -> Iterator[Figure]:
    """Yield the figures of this file."""
    with _Environment() as environment:
        driver, site = environment.make_driver(), make_site()
        floating = site.floating(50, site.nets[0].address(20))
        environment.admit(site.ports)
        net, external = site.nets[0], site.external
        inside = environment.machine(net.id, net.interfaces(20), net.gateways())
        outside = environment.machine(external.id, external.interfaces(1))
        assert isinstance(inside, LabMachine)
        assert isinstance(outside, LabMachine)
        for limit in LIMITS:
            wanted = _limited(site, floating, limit).wanted(floating)
            wait_until(lambda: driver.converge(Update(put=wanted)).ok)  # noqa: B023
            address = str(floating.address)
            wait_until(lambda: not outside.instance.ping(address).lost)  # noqa: B023
            for udp in (False, True):
                for reverse in (False, True):
                    rate = bandwidth(
                        outside.instance, inside.instance, address,
                        udp=udp, reverse=reverse, limit=limit,
                    )  # fmt: skip
                    way = f"{'UDP' if udp else 'TCP'} {'from' if reverse else 'to'} it"
                    yield deviation(f"qos: floating IP, {limit} Mbit/s, {way}", rate, limit)
        environment.killed(driver)


def _limited(site: Site, floating: Floating, limit: int) -> Site:
    rules = tuple(
        BandwidthLimit(id=QosRuleId(UUID(int=number)), max_kbps=limit * 1000, direction=direction)
        for number, direction in enumerate(Direction)
    )
    fixed = floating.value.fixed_address
    qos = AddressQos(address=floating.address, fixed_address=fixed, rules=rules)
    return site.with_state(contributions=(RouterContribution(owner="fip_qos", qos=(qos,)),))
