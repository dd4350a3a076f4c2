"""The firewall inside Open vSwitch keeps the contract, with real packets."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
from netfw.testing.lab.lab import Lab
from tests.conformance.firewall.ovs_environment import OvsEnvironment


@contextmanager
def ovs_environment() -> Iterator[OvsEnvironment]:
    with Lab(1) as lab:
        (host,) = lab.hosts.values()
        environment = OvsEnvironment(host)
        yield environment
        environment.end()


@pytest.mark.spec(
    "FW-01", "FW-02", "FW-03", "FW-04", "FW-05", "FW-06", "FW-07", "FW-08", "FW-09", "FW-10",
    "FW-11", "FW-12",
)  # fmt: skip
class TestOvsFirewall(FirewallDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsEnvironment]:
        with ovs_environment() as environment:
            yield environment


@pytest.mark.spec("FW-01", "FW-02", "FW-03", "FW-04", "FW-05", "FW-12")
class TestOvsFirewallProperty(FirewallPropertyConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsEnvironment]:
        with ovs_environment() as environment:
            yield environment
