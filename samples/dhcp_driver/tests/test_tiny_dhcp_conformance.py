"""The conformance suite of netfw for tiny-dhcp, with real clients on a real switch."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_dhcp.driver import TinyDhcpDriver

from netfw.drivers.base import HostResources
from netfw.drivers.dhcp import DhcpDriver
from netfw.drivers.values.events import Event, KeysChanged
from netfw.testing.conformance.dhcp.factories import make_network
from netfw.testing.conformance.dhcp.lab_environment import DhcpLabEnvironment
from netfw.testing.conformance.dhcp.suite import DhcpDriverConformance


class TinyEnvironment(DhcpLabEnvironment):
    def make_dhcp(self, host: HostResources, directory: Path) -> TinyDhcpDriver:
        return TinyDhcpDriver.from_conf({"directory": str(directory), "lease": 600}, host)


class TestTinyDhcpDriver(DhcpDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[TinyEnvironment]:
        with TinyEnvironment() as environment:
            yield environment

    def test_a_network_whose_device_vanished_is_reported(self, driver: DhcpDriver) -> None:
        events: list[Event] = []
        driver.watch(events.append)
        net = make_network()
        self.bring(driver, net)
        events.clear()
        self.environment.vanish(net.id, net.value)
        deadline = time.monotonic() + self.environment.timeout
        while KeysChanged("their devices changed", [net.key]) not in events:
            assert time.monotonic() < deadline, f"no converge was requested: {events}"
            time.sleep(0.01)
        self.bring(driver, net)
