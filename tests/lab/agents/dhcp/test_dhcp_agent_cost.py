"""What one port more costs the DHCP agent and dnsmasq, on a small network and on a large one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

import pytest

from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Loop
from netfw.agents.common.status import AgentStatus
from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.drivers.values.subscription import Service
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.subnet import Subnet
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import NetworkId, PortId, SubnetId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.state.memory_source import Assignment, MemorySource
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver

NETWORK = Network(id=NetworkId(UUID(int=1)))
SUBNET = Subnet(id=SubnetId(UUID(int=2)), network_id=NETWORK.id, cidr="10.0.0.0/16")
TRIES = 7


def port(number: int) -> Port:
    address = ip_address(f"10.0.{number >> 8}.{number & 255}")
    return Port(
        id=PortId(UUID(int=1000 + number)),
        network_id=NETWORK.id,
        mac=f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}",
        fixed_ips=(FixedIp(subnet_id=SUBNET.id, address=address),),
    )


@pytest.fixture
def driver(ovs: PrivateOvs, tmp_path: Path) -> Iterator[DnsmasqDhcpDriver]:
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=5) as ovsdb:
        settings = Settings(confs=tmp_path / "dhcp", user="root")
        made = DnsmasqDhcpDriver(OvsInterfaceDriver(ovsdb, "br-int"), settings)
        yield made
        made.gc(())
        made.close()


def cost_of_one_more(driver: DnsmasqDhcpDriver, many: int) -> float:
    """Return the CPU seconds from the source to the report, at best."""
    assigned = Assignment(Service.DHCP, "here", ref(NETWORK))
    source = MemorySource(NETWORK, SUBNET, assigned, *map(port, range(10, 10 + many)))
    agent = DhcpAgent(DhcpAgentConfig(host="here"), source, driver)
    costs = []
    with run_in_thread(Loop(source, agent)) as loop:
        assert loop.wait_for(lambda status: status.ready, 60)
        for number in range(10 + many, 10 + many + TRIES):
            began = time.process_time()
            source.put(port(number))
            wanted = number - 10 + 1
            assert loop.wait_for(lambda status: _is_served(status, wanted), 30)  # noqa: B023
            costs.append(time.process_time() - began)
    report = source.status(ref(port(10 + many)), Service.DHCP)
    assert report is not None
    assert report.status is Status.ACTIVE
    agent.close()
    return min(costs)


def _is_served(status: AgentStatus, ports: int) -> bool:
    return status.ready and status.counts["ports"] == ports


@pytest.mark.spec("DHCP-80")
def test_one_port_more_costs_the_same_however_many_there_are(driver: DnsmasqDhcpDriver) -> None:
    few, many = cost_of_one_more(driver, 10), cost_of_one_more(driver, 1500)
    assert many < 3 * few + 0.005, f"{few:.4f} s with 10 ports, {many:.4f} s with 1500"
