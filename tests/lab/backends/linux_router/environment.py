"""A host with the Linux router driver on Open vSwitch, for tests here and of the contract."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from netfw.drivers.base import HostResources
from netfw.drivers.router import RouterDriver
from netfw.model.values.ids import RouterId
from netfw.plan import Plan, Update
from netfw.testing.conformance.dhcp.lab_host import ANSWER, BRIDGE
from netfw.testing.conformance.router.factories import Floating, Site
from netfw.testing.conformance.router.lab_environment import RouterLabEnvironment
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.driver import LinuxRouterDriver
from netfw_drivers.linux_router.plan.names import router_namespace

MakeDriver = Callable[[], RouterDriver]
VRRP = 112
"""The IP protocol of advertisements."""


class LinuxRouterEnvironment(RouterLabEnvironment):
    """A host with the driver on Open vSwitch."""

    election: ClassVar[float] = 5.0
    driver_class: ClassVar[type[LinuxRouterDriver]] = LinuxRouterDriver

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    def make_router(self, host: HostResources, directory: Path) -> LinuxRouterDriver:
        options = {option.dest: option.default for option in LinuxRouterDriver.OPTIONS}
        quick = {"ha_vrrp_advert_int": 1}
        own = {**options, **quick, **self._options, "router_confs": str(directory / "routers")}
        return self.driver_class.from_conf(own, host)

    @property
    def router_confs(self) -> Path:
        """Directory of the driver's files."""
        return self._site.directory / "routers"

    def job(self, bridge: str, updates: Sequence[object]) -> tuple[Any, ...]:
        """Return what a driver in another process needs to converge *updates* on this host."""
        interface = {
            "ovsdb_connection": self._ovs.remote,
            "ovsdb_timeout": ANSWER,
            "integration_bridge": bridge,
            "ovs_use_veth": False,
        }
        return interface, str(self._site.directory / "routers"), tuple(updates)

    def run(self, router: RouterId, words: Sequence[str]) -> str:
        """Run a command in the namespace of a router, and return its output."""
        command = ["ip", "netns", "exec", router_namespace(router), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    @contextmanager
    def stopped_switch(self) -> Iterator[None]:
        """Stop ovs-vswitchd, not its database."""
        self._ovs.stop_switch()
        try:
            yield
        finally:
            self._ovs.start_switch()

    @contextmanager
    def stopped_database(self) -> Iterator[None]:
        """Stop the database alone: devices stay, and nothing can be plugged."""
        self._ovs.stop_database()
        try:
            yield
        finally:
            self._ovs.start_database()

    @contextmanager
    def without_advertisements(self) -> Iterator[None]:
        """Drop the VRRP advertisements of all routers on the switch: each instance is alone."""
        vrrp = f"ip,nw_proto={VRRP}"
        self._ovs.ofctl("add-flow", BRIDGE, f"priority=100,{vrrp},actions=drop")
        try:
            yield
        finally:
            self._ovs.ofctl("del-flows", BRIDGE, vrrp)

    def routes(self, router: RouterId, family: str = "-4") -> list[dict[str, Any]]:
        """Return the routes of a router."""
        found: list[dict[str, Any]] = json.loads(
            self.run(router, ["ip", family, "-j", "route"]) or "[]"
        )
        return found


def bring(driver: RouterDriver, site: Site, *floating: Floating, complete: bool = False) -> None:
    """Converge a router with floating IPs until nothing waits for the switch."""
    update = Update(put=site.wanted(*floating), complete=complete)
    wait_until(lambda: driver.converge(update).ok, seconds=60)


def plan(driver: RouterDriver, update: Update[Any, Any]) -> Plan:
    """Return what is left to do."""
    assert isinstance(driver, LinuxRouterDriver)
    return driver.plan(update, driver.observe(update))
