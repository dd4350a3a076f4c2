"""The nftables firewall keeps the contract, with real packets."""

import pytest

from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
from tests.conformance.firewall.kernel_environment import OnLabHost
from tests.conformance.firewall.nftables_environment import (
    NftablesEnvironment,
    NftablesHybridEnvironment,
)

pytestmark = pytest.mark.spec("FW-15")


class TestNftablesFirewall(OnLabHost, FirewallDriverConformance):
    make_environment = NftablesEnvironment


class TestNftablesFirewallTargeted(OnLabHost, FirewallPropertyConformance):
    """The targeted examples, and one random example."""

    examples = 1
    make_environment = NftablesEnvironment


@pytest.mark.nightly
class TestNftablesFirewallProperty(OnLabHost, FirewallPropertyConformance):
    make_environment = NftablesEnvironment


@pytest.mark.nightly
class TestNftablesHybridFirewall(OnLabHost, FirewallDriverConformance):
    make_environment = NftablesHybridEnvironment
    NEEDS_SWITCH = True
