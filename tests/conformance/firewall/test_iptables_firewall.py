"""The firewall of Linux bridges keeps the contract, with real packets and both iptables."""

from collections.abc import Iterator

import pytest

from netfw.linux.iptables import Backend
from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
from netfw.testing.lab.lab import Lab
from tests.conformance.firewall.iptables_environment import HybridEnvironment, IptablesEnvironment

FILTERS = pytest.mark.spec(
    "FW-01", "FW-02", "FW-03", "FW-04", "FW-05", "FW-06", "FW-07", "FW-08", "FW-09", "FW-10",
    "FW-11", "FW-12",
)  # fmt: skip


@FILTERS
class TestIptablesFirewall(FirewallDriverConformance):
    backend = Backend.NFT

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[IptablesEnvironment]:
        with Lab(1) as lab:
            (host,) = lab.hosts.values()
            yield IptablesEnvironment(host, cls.backend)


@pytest.mark.spec("FW-01", "FW-02", "FW-03", "FW-04", "FW-05", "FW-12")
class TestIptablesFirewallProperty(FirewallPropertyConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[IptablesEnvironment]:
        with Lab(1) as lab:
            (host,) = lab.hosts.values()
            yield IptablesEnvironment(host, Backend.NFT)


@FILTERS
class TestLegacyIptablesFirewall(TestIptablesFirewall):
    backend = Backend.LEGACY


@FILTERS
class TestIptablesHybridFirewall(FirewallDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[HybridEnvironment]:
        with Lab(1) as lab:
            (host,) = lab.hosts.values()
            environment = HybridEnvironment(host)
            yield environment
            environment.end()
