"""The L2 agent on a real server: what the API says is what the hosts do.

Pings that must not lose anything go through a tunnel.  While they run, no device is made or removed
on the hosts: that costs a userspace switch packets by itself (see docs/lab.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from openstack.exceptions import BadRequestException

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.server.tenants import Tenant

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]

COUNTER = itertools.count()


@pytest.fixture(scope="module")
def served() -> Iterator[Cloud]:
    """Yield two hosts whose agents are connected to one server."""
    sandbox.require()
    with make_cloud() as cloud:
        cloud.server.start()
        for host in cloud.hosts:
            host.start()
        wait_until(lambda: len(list(cloud.network.agents())) == 2)
        yield cloud


class Spare:
    """An instance whose device is on the bridge, and is told later which port it is."""

    def __init__(self, host: Host) -> None:
        self.ovs = host.ovs
        self.device = f"spare{next(COUNTER)}"
        plug = Plug(bridge="br-int", device=self.device, mtu=1450)
        self.instance: Instance = host.instance(self.device, plug)

    def become(self, port: Any) -> Instance:
        self.instance.run(["ip", "link", "set", "eth0", "address", port.mac_address])
        self.instance.configure([f"{address(port)}/24"])
        ids = {"iface-id": port.id, "attached-mac": port.mac_address}
        written = [f'external_ids:{key}="{value}"' for key, value in ids.items()]
        self.ovs.vsctl("set", "Interface", self.device, *written)
        return self.instance

    def remove(self) -> None:
        self.ovs.vsctl("del-port", "br-int", self.device)


class Net:
    """A network with ports on both hosts, which goes with the test."""

    def __init__(self, cloud: Cloud, name: str, cidr: str) -> None:
        self.cloud = cloud
        self.network = cloud.network.create_network(name=name)
        cloud.network.create_subnet(network_id=self.network.id, cidr=cidr, ip_version=4)
        group = cloud.network.create_security_group(name=name)
        cloud.network.create_security_group_rule(
            security_group_id=group.id, direction="ingress", protocol="icmp"
        )
        self.group = group
        self.plugged: dict[str, tuple[Any, Any]] = {}
        self.spares: list[Spare] = []

    def port(self, name: str, host: int) -> Any:
        return self.cloud.network.create_port(
            network_id=self.network.id,
            name=name,
            security_group_ids=[self.group.id],
            binding_host_id=self.cloud.hosts[host].host.name,
        )

    def plug(self, port: Any, host: int) -> Any:
        """Plug an instance for it."""
        self.plugged[port.name] = port, self.cloud.hosts[host]
        return self.cloud.hosts[host].plug_port(port, f"vm{next(COUNTER)}")

    def spare(self, host: int) -> Spare:
        """Return a device that is there already, for a port that is not."""
        self.spares.append(Spare(self.cloud.hosts[host].host))
        return self.spares[-1]

    def unplug(self, port: Any) -> None:
        _, host = self.plugged.pop(port.name)
        host.unplug_port(port)

    def active(self, *names: str) -> bool:
        return all(self.cloud.status(name) == "ACTIVE" for name in names)

    def remove(self) -> None:
        for port, _ in list(self.plugged.values()):
            self.unplug(port)
        for spare in self.spares:
            spare.remove()
        for port in list(self.cloud.network.ports(network_id=self.network.id)):
            self.cloud.network.delete_port(port.id)
        self.cloud.network.delete_network(self.network.id)
        self.cloud.network.delete_security_group(self.group.id)


@pytest.fixture
def net(served: Cloud, request: pytest.FixtureRequest) -> Iterator[Net]:
    number = abs(hash(request.node.name)) % 200
    made = Net(served, f"n{number}", f"10.{number}.0.0/24")
    yield made
    made.remove()


def address(port: Any) -> str:
    return str(port.fixed_ips[0]["ip_address"])


def flows(cloud: Cloud, host: int) -> str:
    ovs = cloud.hosts[host].host.ovs
    return "".join(ovs.ofctl("dump-flows", ovs.management(b)) for b in ("br-int", "br-tun"))


@pytest.mark.spec("API-03", "ML2-04", "ML2-05", "ML2-07", "RPC-02", "RPC-03", "RPC-04")
def test_a_port_is_made_plugged_active_within_a_second_and_leaves_nothing(net: Net) -> None:
    cloud = net.cloud
    ports = [net.port("one", 0), net.port("two", 1)]
    assert [port.binding_vif_type for port in ports] == ["ovs", "ovs"]
    assert [port.status for port in ports] == ["DOWN", "DOWN"]
    one, _ = (net.plug(port, host) for host, port in enumerate(ports))
    wait_until(lambda: net.active("one", "two"))
    wait_until(lambda: one.ping(address(ports[1]), count=1, timeout=0.5).received)
    assert ports[0].mac_address in flows(cloud, 0)
    for port in ports:
        cloud.network.delete_port(port.id)
    for host, port in enumerate(ports):
        wait_until(lambda host=host, port=port: port.mac_address not in flows(cloud, host))
    assert one.ping(address(ports[1]), count=2, timeout=0.3).received == 0


@pytest.mark.spec("RPC-02", "ML2-07")
def test_what_is_changed_while_the_server_is_away_is_not_lost_and_no_packet_is(net: Net) -> None:
    cloud, spare = net.cloud, net.spare(0)
    ports = [net.port("one", 0), net.port("two", 1)]
    one, _ = (net.plug(port, host) for host, port in enumerate(ports))
    wait_until(lambda: net.active("one", "two"))
    wait_until(lambda: one.ping(address(ports[1]), count=1, timeout=0.5).received)
    with one.pinging(address(ports[1]), interval=0.01, timeout=TIMEOUT) as running:
        cloud.server.kill()
        cloud.hosts[0].stop()
        cloud.server.start()
        third = net.port("three", 0)
        cloud.hosts[0].start()
        three = spare.become(third)
        wait_until(lambda: net.active("one", "two", "three"))
        wait_until(lambda: three.ping(address(ports[1]), count=1, timeout=0.5).received)
        ping = running.stop()
    assert (ping.lost, ping.sent > 0) == (0, True)


@pytest.mark.spec("ML2-07", "RPC-03")
def test_a_device_that_is_unplugged_is_down_and_one_that_is_switched_off_too(net: Net) -> None:
    cloud = net.cloud
    port = net.port("one", 0)
    net.plug(port, 0)
    wait_until(lambda: net.active("one"))
    cloud.network.update_port(port.id, is_admin_state_up=False)
    wait_until(lambda: cloud.status("one") == "DOWN")
    cloud.network.update_port(port.id, is_admin_state_up=True)
    wait_until(lambda: net.active("one"))
    net.unplug(port)
    wait_until(lambda: cloud.status("one") == "DOWN")


@pytest.mark.spec("ML2-04", "RPC-03")
def test_a_port_moves_to_the_other_host(net: Net) -> None:
    cloud = net.cloud
    port = net.port("one", 0)
    net.plug(port, 0)
    net.unplug(port)
    moved = cloud.network.update_port(port.id, binding_host_id=cloud.hosts[1].host.name)
    assert (moved.binding_vif_type, moved.status) == ("ovs", "DOWN")
    net.plug(port, 1)
    wait_until(lambda: net.active("one"))
    wait_until(lambda: port.mac_address not in flows(cloud, 0).replace("dl_dst", ""))


@pytest.mark.spec("ML2-04")
def test_a_host_without_an_agent_binds_nothing_and_says_why(net: Net) -> None:
    cloud = net.cloud
    port = cloud.network.create_port(
        network_id=net.network.id, name="lost", binding_host_id="nowhere"
    )
    assert port.binding_vif_type == "binding_failed"
    _, answer = cloud.server.request("GET", f"/v2.0/ports/{port.id}")
    written = str(answer["port"])
    assert "nowhere" in written
    assert "agent" in written


@pytest.mark.spec("ML2-07", "RPC-03")
def test_a_port_that_its_host_cannot_wire_says_why_to_administrators_only(net: Net) -> None:
    cloud, device = net.cloud, "tap-missing"
    port = net.port("one", 0)

    def reason() -> str:
        _, answer = cloud.server.request("GET", f"/v2.0/ports/{port.id}")
        return str(answer["port"]["status_reason"])

    wait_until(lambda: reason() == "host1: it is not plugged on this host", reason)
    ids = {"iface-id": port.id, "attached-mac": port.mac_address}
    words = [f'external_ids:{key}="{value}"' for key, value in ids.items()]
    ovs = cloud.hosts[0].host.ovs
    ovs.vsctl("add-port", "br-int", device, "--", "set", "Interface", device, *words)
    wait_until(lambda: "could not open network device tap-missing" in reason(), reason)
    owner = Tenant(cloud.server, port.project_id)
    _, answer = owner.ask("GET", f"ports/{port.id}")
    assert answer["port"]["status"] == "DOWN"
    assert "status_reason" not in answer["port"]
    ovs.vsctl("del-port", "br-int", device)
    net.plug(port, 0)
    wait_until(lambda: net.active("one"))
    assert reason() == "None"


@pytest.mark.spec("RPC-03")
def test_the_server_has_the_agents_and_what_they_are(served: Cloud) -> None:
    agents = {agent.host: agent for agent in served.network.agents()}
    assert set(agents) == {"host1", "host2"}
    for host in served.hosts:
        agent = agents[host.host.name]
        assert agent.is_alive
        assert agent.configuration["tunneling_ip"] == str(host.host.address.ip)


def test_neither_server_nor_agents_met_a_fault_of_their_own(served: Cloud) -> None:
    logs = [served.server.log, *(host.agent.log for host in served.hosts)]
    for log in logs:
        assert "Traceback" not in log.read_text(), log


@pytest.mark.spec("API-06", "FW-01")
def test_rule_that_no_firewall_of_the_agents_enforces_is_refused_by_the_api(net: Net) -> None:
    rules = net.cloud.network
    ported = {"port_range_min": 7, "port_range_max": 9, "direction": "ingress"}
    for protocol in ("dccp", "udplite"):
        common = {"security_group_id": net.group.id, "protocol": protocol}
        with pytest.raises(BadRequestException, match="leave port_range_min"):
            rules.create_security_group_rule(**common, **ported)
        rules.create_security_group_rule(**common, direction="ingress")
    rules.create_security_group_rule(security_group_id=net.group.id, protocol="sctp", **ported)
