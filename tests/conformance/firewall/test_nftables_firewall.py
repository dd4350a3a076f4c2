"""The nftables firewall keeps the contract, with real packets."""

from collections.abc import Iterator

import pytest

from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
from netfw.testing.lab.lab import Lab
from tests.conformance.firewall.nftables_environment import (
    NftablesEnvironment,
    NftablesHybridEnvironment,
)


@pytest.mark.spec("FW-15")
class TestNftablesFirewall(FirewallDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[NftablesEnvironment]:
        with Lab(1) as lab:
            (host,) = lab.hosts.values()
            yield NftablesEnvironment(host)


@pytest.mark.spec("FW-15")
class TestNftablesFirewallProperty(FirewallPropertyConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[NftablesEnvironment]:
        with Lab(1) as lab:
            (host,) = lab.hosts.values()
            yield NftablesEnvironment(host)


@pytest.mark.spec("FW-15")
class TestNftablesHybridFirewall(FirewallDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[NftablesHybridEnvironment]:
        with Lab(1) as lab:
            (host,) = lab.hosts.values()
            environment = NftablesHybridEnvironment(host)
            yield environment
            environment.end()
