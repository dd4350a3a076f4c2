"""The Open vSwitch switch driver keeps its promises on physical networks behind veths, too."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from netfw.drivers.switch import SwitchDriver
from netfw.testing.conformance.switch.cross_host import SwitchProviderConformance
from netfw.testing.conformance.switch.ovs_environment import OvsSwitchEnvironment
from netfw.testing.lab.lab import Lab
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver
from netfw_drivers.ovs.switch.veth_links import shared_links


class OvsVethEnvironment(OvsSwitchEnvironment):
    """Hosts whose physical bridges are joined by veths."""

    def _driver(self, host: int, options: Mapping[str, Any]) -> SwitchDriver:
        driver = super()._driver(host, {**options, "use_veth_interconnection": True})
        # From there on it works on the host's devices, whoever calls it.
        self.hosts[host].call(shared_links(self._resources[driver]).read, ["lo"])
        return driver


@pytest.mark.spec("L2-01", "L2-03")
class TestOvsSwitchByVeth(SwitchProviderConformance):
    """With ``use_veth_interconnection``."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsVethEnvironment]:
        with Lab(2, provider=["physnet1"]) as lab:
            environment = OvsVethEnvironment(lab, OvsSwitchDriver)
            yield environment
            kinds = environment.hosts[0].run(["ip", "-details", "link", "show", "int-br-ex"])
            assert "veth" in kinds
            environment.clear()
