"""The Open vSwitch switch driver keeps the contract, with real packets between real hosts."""

from collections.abc import Iterator

import pytest

from netfw.drivers.values.switch_values import Endpoint
from netfw.testing.conformance.switch.cross_host import SwitchTunnelsConformance
from netfw.testing.conformance.switch.ovs_environment import (
    OvsSwitchConformance,
    OvsSwitchEnvironment,
    ovs_environment,
)
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver
from netfw_drivers.ovs.switch.plan.settings import tunnel_name


@pytest.mark.spec(
    "DRV-21",
    "L2-11",
    "L2-13",
    "L2-15",
    "L2-20",
    "L2-25",
    "L2-33",
    "L2-40",
    "L2-41",
    "L2-60",
    "L2-61",
)
class TestOvsSwitch(OvsSwitchConformance):
    """On an IPv4 underlay."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsSwitchEnvironment]:
        with ovs_environment(OvsSwitchDriver) as environment:
            yield environment

    def tunnel_name(self, endpoint: Endpoint) -> str:
        return tunnel_name(endpoint)


@pytest.mark.spec("L2-33")
class TestOvsSwitchOnIpv6(SwitchTunnelsConformance):
    """Tunnels on an IPv6 underlay."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsSwitchEnvironment]:
        with ovs_environment(OvsSwitchDriver, 6) as environment:
            yield environment
