"""The agent while people remove and make the bridges that it works with."""

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.agents.l2.environment import port_id


@pytest.fixture
def host(make_cloud):
    """Return a host whose agent wired two ports of a VXLAN network and one of a VLAN network."""
    cloud = make_cloud(1)
    (host,) = cloud.hosts.values()
    vlan = {"network_type": "vlan", "physical_network": "physnet1", "segmentation_id": 500}
    cloud.topology.network(0)
    cloud.topology.network(9, **vlan)
    for number in (1, 2, 3):
        cloud.topology.port(number, "host1")
    cloud.topology.port(20, "host1", network=9)
    cloud.topology.write()
    make_bridge(host)
    host.configure(
        f"tunnel_types = vxlan\nlocal_ip = {host.host.address.ip}\nbridge_mappings = physnet1:br-ex"
    )
    host.machines = [host.instance(1), host.instance(2), host.instance(20, network=9)]
    host.start_ready()
    wait_until(lambda: status(host, 20) == "ACTIVE")
    return host


def make_bridge(host) -> None:
    setting = ["--", "set", "bridge", "br-ex", "datapath_type=netdev"]
    host.host.run(["ovs-vsctl", "add-br", "br-ex", *setting])


def status(host, number: int) -> str | None:
    reports = {report["id"]: report for report in host.reported().get("resources", ())}
    return reports.get(port_id(number), {}).get("status")


@pytest.mark.spec("L2-03")
def test_a_physical_bridge_that_vanishes_concerns_its_networks_alone(host):
    before = host.flows("br-ex")
    host.host.run(["ovs-vsctl", "del-br", "br-ex"])
    wait_until(lambda: status(host, 20) == "DOWN")
    host.wait(lambda status: any("add-br br-ex" in why for why in status["waiting"].values()))
    third = host.instance(3)
    wait_until(lambda: status(host, 3) == "ACTIVE")
    assert third.ping("10.0.0.1").lost == 0
    host.host.run(["ovs-ofctl", "-OOpenFlow14", "del-flows", "br-int"])
    wait_until(lambda: third.ping("10.0.0.1", count=1, timeout=0.3).lost == 0)
    assert status(host, 1) == "ACTIVE"
    make_bridge(host)
    wait_until(lambda: status(host, 20) == "ACTIVE")
    assert host.flows("br-ex") == before
