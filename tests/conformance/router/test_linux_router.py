"""The Linux router driver keeps the promises of its contract, with real packets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.drivers.base import HostResources
from netfw.drivers.router import RouterDriver
from netfw.testing.conformance import RouterDriverConformance
from netfw.testing.conformance.router.environment import RouterEnvironment
from netfw.testing.conformance.router.lab_environment import RouterLabEnvironment
from netfw_drivers.linux_router.driver import LinuxRouterDriver


class LinuxRouterEnvironment(RouterLabEnvironment):
    """A host with the driver on Open vSwitch."""

    def make_router(self, host: HostResources, directory: Path) -> RouterDriver:
        options = {option.dest: option.default for option in LinuxRouterDriver.OPTIONS}
        own = {**options, "router_confs": str(directory / "routers")}
        return LinuxRouterDriver.from_conf(own, host)


@pytest.mark.services
class TestLinuxRouterDriver(RouterDriverConformance):
    """The driver with the iptables that the system chose."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment() as environment:
            yield environment
