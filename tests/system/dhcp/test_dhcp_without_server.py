"""The agents of two hosts on one file, without a server: the sample of the documentation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest

from netfw.cli.demo.agents import reached
from netfw.cli.demo.dhcp import fetch, use_routes
from netfw.testing.lab.dhcp_client import Dhclient6, Udhcpc
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests import ROOT
from tests.system.dhcp.environment import Clouds
from tests.system.dhcp.renewals import Renewals
from tests.system.file_hosts import FileHost, TopologyFile, start_all, stop_all

pytestmark = pytest.mark.timeout(300)

SAMPLE = ROOT / "samples/topologies/dhcp.yaml"


class FileSite(TopologyFile):
    """Two hosts whose agents read a file, the file, and the clients of instances."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        super().__init__(directory / "topology.yaml", SAMPLE)
        for host in lab.hosts.values():
            self.content["hosts"][host.name]["local_ip"] = str(host.address.ip)
        for number, port in enumerate(self.content["ports"], 1):
            port |= {"id": str(UUID(int=number)), "device_id": f"vm-{port['name']}"}
        self.write()
        source: Groups = {"agent": {"state_source": "file"}, "file": {"path": self.path}}
        self.hosts = {
            name: FileHost(host, directory / name, source, "dhcp", enable_isolated_metadata=True)
            for name, host in lab.hosts.items()
        }
        self.stack = ExitStack()

    def boot(self, name: str) -> Udhcpc:
        """Start an instance without an address behind a port of the file, and return its client."""
        port = self.port(name)
        plug = Plug(
            bridge="br-int",
            device=f"tap-{name}",
            mac=port["mac_address"],
            mtu=1450,
            external_ids={"iface-id": port["id"], "attached-mac": port["mac_address"]},
        )
        instance = self.hosts[port["host"]].host.instance(name, plug)
        client = Udhcpc(instance, timeout=40)
        self.stack.callback(client.close)
        return client


@pytest.fixture
def site(clouds: Clouds) -> Iterator[FileSite]:
    clouds.close()
    with Lab(hosts=2) as lab, tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        made = FileSite(lab, Path(name))
        for host in made.hosts.values():
            host.service.start()
        agents = [agent for host in made.hosts.values() for agent in host.agents]
        start_all(*agents)
        try:
            yield made
        finally:
            made.stack.close()
            stop_all(*agents)
        for agent in agents:
            assert "Traceback" not in agent.log.read_text()


@pytest.mark.spec("DHCP-01", "DHCP-05", "DHCP-49", "DHCP-60", "MD-01", "MD-10")
def test_instances_of_a_file_get_all_that_it_says(site: FileSite) -> None:
    clients = {name: site.boot(name) for name in ("web1", "web2")}
    for number, (name, client) in enumerate(clients.items(), 11):
        lease = client.lease()
        assert lease is not None
        assert str(lease.ip) == f"10.0.0.{number}"
        assert [str(each) for each in lease.dns] == ["192.0.2.53"]
        assert "198.51.100.0/24" in {str(route.destination) for route in lease.routes}
        use_routes(client.instance, lease)
        assert fetch(client.instance) == f"vm-{name} 10.0.0.{number}\n"
        site.stack.callback((six := Dhclient6(client.instance, timeout=40)).close)
        lease6 = six.lease()
        assert lease6 is not None
        assert {str(each) for each in lease6.addresses} == {f"2001:db8:1::{number}"}
    assert reached(clients["web1"].instance, "10.0.0.12")
    _check_hand_over(site, clients["web2"])


def _check_hand_over(site: FileSite, client: Udhcpc) -> None:
    """Check that no lease is lost when the file gives the network to the other host."""
    one, two = site.hosts.values()
    mac = site.port("web2")["mac_address"]
    lease = client.renew()
    assert lease is not None
    with Renewals(client.instance, mac, lease.ip) as renewals:
        one.serving.kill()
        one.serving.start()
        renewals.check()
        assert renewals.longest_silence < 3
        site.port("blue-dhcp")["host"] = two.host.name
        site.content["assignments"][0]["host"] = two.host.name
        site.write()
        wait_until(lambda: _namespaces(two) and not _namespaces(one), "it is handed over")
        renewals.check()
    assert client.renew() == lease


def _namespaces(host: FileHost) -> list[str]:
    return [name for name in host.host.run(["ip", "netns"]).split() if name.startswith("qdhcp-")]
