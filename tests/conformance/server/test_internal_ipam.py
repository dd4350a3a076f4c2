"""Address management in the server's own database passes the suite that all drivers pass."""

from __future__ import annotations

import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.ipam import IpamDriver
from netfw.testing.conformance.server.ipam import IpamDriverConformance

pytestmark = pytest.mark.fakes


class TestInternalIpam(IpamDriverConformance):
    def make_driver(self) -> IpamDriver:
        return create(IpamDriver, "internal", {}, LocalHostResources())
