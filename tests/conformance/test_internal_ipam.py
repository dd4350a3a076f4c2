"""Address management in the server's own database passes the suite that all drivers pass."""

from __future__ import annotations

from netfw.drivers.host import LocalHost
from netfw.drivers.ipam import IpamDriver
from netfw.drivers.loader import create
from netfw.testing.conformance.ipam import IpamDriverConformance


class TestInternalIpam(IpamDriverConformance):
    def make_driver(self) -> IpamDriver:
        return create(IpamDriver, "internal", {}, LocalHost())
