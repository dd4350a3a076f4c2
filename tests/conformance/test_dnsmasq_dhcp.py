"""The dnsmasq driver keeps the contract, with real clients on a real switch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.drivers.base import Host
from netfw.testing.conformance.dhcp import DhcpDriverConformance
from netfw.testing.conformance.dhcp_lab import LabGround
from netfw_drivers.dnsmasq.dhcp import DnsmasqDhcpDriver


class DnsmasqGround(LabGround):
    """A host on which each network has a dnsmasq."""

    def make_dhcp(self, host: Host, directory: Path) -> DnsmasqDhcpDriver:
        options = {option.dest: option.default for option in DnsmasqDhcpDriver.OPTIONS}
        return DnsmasqDhcpDriver.from_conf({**options, "dhcp_confs": str(directory)}, host)


@pytest.mark.spec("DHCP-41", "DHCP-43", "DHCP-44", "DHCP-45", "DHCP-46", "DHCP-48", "DHCP-49")
class TestDnsmasq(DhcpDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_ground(cls) -> Iterator[DnsmasqGround]:
        with DnsmasqGround() as ground:
            yield ground
