"""The tiny driver keeps netfw's contract, with real clients on a real switch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_dhcp.driver import TinyDhcpDriver

from netfw.drivers.base import Host
from netfw.testing.conformance.dhcp import DhcpDriverConformance
from netfw.testing.conformance.dhcp_lab import LabGround


class TinyGround(LabGround):
    def make_dhcp(self, host: Host, directory: Path) -> TinyDhcpDriver:
        return TinyDhcpDriver.from_conf({"directory": str(directory), "lease": 600}, host)


class TestTinyDhcpDriver(DhcpDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_ground(cls) -> Iterator[TinyGround]:
        with TinyGround() as ground:
            yield ground
