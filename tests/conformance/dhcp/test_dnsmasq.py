"""The dnsmasq driver keeps the contract, with real clients on a real switch."""

from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from netfw.drivers.base import HostResources
from netfw.testing.conformance.dhcp.factories import make_network
from netfw.testing.conformance.dhcp.lab_client import LabClientVm
from netfw.testing.conformance.dhcp.lab_environment import DhcpLabEnvironment
from netfw.testing.conformance.dhcp.persistence import DhcpPersistenceConformance
from netfw.testing.conformance.dhcp.suite import DhcpDriverConformance
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver

pytestmark = pytest.mark.services


class DnsmasqEnvironment(DhcpLabEnvironment):
    """A host on which each network has a dnsmasq."""

    def make_dhcp(self, host: HostResources, directory: Path) -> DnsmasqDhcpDriver:
        options = {option.dest: option.default for option in DnsmasqDhcpDriver.OPTIONS}
        return DnsmasqDhcpDriver.from_conf({**options, "dhcp_confs": str(directory)}, host)


@pytest.mark.spec(
    "DHCP-26", "DHCP-27", "DHCP-41", "DHCP-43", "DHCP-45", "DHCP-46", "DHCP-47", "DHCP-48",
    "DHCP-49",
)  # fmt: skip
class TestDnsmasq(DhcpDriverConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[DnsmasqEnvironment]:
        with DnsmasqEnvironment() as environment:
            yield environment

    @pytest.mark.spec("DHCP-42")
    def test_instances_are_found_by_name_while_they_are_there(self, driver: DnsmasqDhcpDriver):
        net = make_network()
        named, nameless = net.tenant(20, hostname="web1"), net.tenant(30)
        self.bring(driver, net, named, nameless)
        client, lease = self.leased(named)
        unnamed = "host-" + str(nameless.ip).replace(".", "-")
        addresses = {"web1": named.ip, f"{unnamed}.example.org": nameless.ip}
        for name, address in {**addresses, "web1.example.org": named.ip}.items():
            assert str(address) in requested(client, name, lease.server), name
        assert "web1.example.org" in requested(client, str(named.ip), lease.server)
        self.drop(driver, nameless)
        assert str(nameless.ip) not in requested(client, f"{unnamed}.example.org", lease.server)


class VethEnvironment(DnsmasqEnvironment):
    use_veth = True


@pytest.mark.spec("DHCP-22", "DHCP-23", "DHCP-26", "DHCP-27", "DHCP-49")
class TestDnsmasqOnVethPairs(DhcpPersistenceConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[VethEnvironment]:
        with VethEnvironment() as environment:
            yield environment


def requested(client: LabClientVm, name: str, server: IPv4Address) -> str:
    """Return the answer of the DNS server, without the lines about the server itself."""
    result = client.instance.attempt(["busybox", "nslookup", name, str(server)], timeout=20)
    return result.output.split("\n\n", 1)[-1]
