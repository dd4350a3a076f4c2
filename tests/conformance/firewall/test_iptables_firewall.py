"""The firewall of Linux bridges keeps the contract, with real packets and both iptables."""

from functools import partial

import pytest

from netfw.linux.iptables import Backend
from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
from tests.conformance.firewall.iptables_environment import (
    IptablesEnvironment,
    IptablesHybridEnvironment,
)
from tests.conformance.firewall.kernel_environment import OnLabHost

FILTERS = pytest.mark.spec(
    "FW-01", "FW-02", "FW-03", "FW-04", "FW-05", "FW-06", "FW-07", "FW-08", "FW-09", "FW-10",
    "FW-11", "FW-12",
)  # fmt: skip


@FILTERS
class TestIptablesFirewall(OnLabHost, FirewallDriverConformance):
    make_environment = partial(IptablesEnvironment, backend=Backend.NFT)


class TestIptablesFirewallTargeted(OnLabHost, FirewallPropertyConformance):
    """The targeted examples, and one random example."""

    examples = 1
    make_environment = partial(IptablesEnvironment, backend=Backend.NFT)


@pytest.mark.nightly
@pytest.mark.spec("FW-01", "FW-02", "FW-03", "FW-04", "FW-05", "FW-12")
class TestIptablesFirewallProperty(OnLabHost, FirewallPropertyConformance):
    make_environment = partial(IptablesEnvironment, backend=Backend.NFT)


@pytest.mark.nightly
@FILTERS
class TestLegacyIptablesFirewall(TestIptablesFirewall):
    make_environment = partial(IptablesEnvironment, backend=Backend.LEGACY)


@pytest.mark.nightly
@FILTERS
class TestIptablesHybridFirewall(OnLabHost, FirewallDriverConformance):
    make_environment = IptablesHybridEnvironment
    NEEDS_SWITCH = True
