"""The driver that filters nothing lets everything pass, with real packets on Linux bridges."""

import pytest

from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.testing.conformance.firewall.lab_environment import BridgeEnvironment
from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
from netfw.testing.lab.host import Host
from netfw_drivers.null.firewall import NullFirewallDriver, NullFirewallState
from tests.conformance.firewall.kernel_environment import OnLabHost


class NullEnvironment(BridgeEnvironment):
    """There is nothing to look at but what the drivers of the host hold."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.resources = LocalHostResources()

    def make_driver(self) -> NullFirewallDriver:
        return NullFirewallDriver.from_conf({}, self.resources)

    def dump_state(self) -> frozenset[str]:
        firewall = self.resources.share(NullFirewallState, NullFirewallState)
        return frozenset(f"{key} {value}" for key, value in firewall.policy.items())

    def lose_state(self) -> None:
        self.resources.share(NullFirewallState, NullFirewallState).policy.clear()

    def make_foreign(self) -> None:
        """Create nothing: no other program has state there."""

    def foreign_is_intact(self) -> bool:
        return True


@pytest.mark.spec("DRV-03")
class TestNullFirewall(OnLabHost, FirewallDriverConformance):
    make_environment = NullEnvironment
