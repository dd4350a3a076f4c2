"""Address groups and packet logs from the API to the hosts: what is changed there is done here."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.server.test_agents_on_a_server import Net, address, flows

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]

UDP_PORT = 7777


@pytest.fixture(scope="module")
def served() -> Iterator[Cloud]:
    """Yield two hosts; the second one logs packets."""
    sandbox.require()
    with make_cloud() as cloud:
        cloud.server.start()
        options = cloud.hosts[1].agent.options
        options["agent"]["extensions"] = "packet_log"
        options["packet_log"] = {"path": str(_log(cloud))}
        for host in cloud.hosts:
            host.start()
        wait_until(lambda: len(list(cloud.network.agents())) == 2)
        yield cloud


def _log(cloud: Cloud) -> Path:
    return Path(cloud.hosts[1].agent.log).with_name("packets.log")


@pytest.fixture
def net(served: Cloud) -> Iterator[Net]:
    made = Net(served, "groups", "10.77.0.0/24")
    yield made
    made.remove()


class Pair:
    """An instance on each host; the second one is in the group of the network."""

    def __init__(self, net: Net) -> None:
        self.ports = [net.port("one", 0), net.port("two", 1)]
        self.one, self.two = (net.plug(port, host) for host, port in enumerate(self.ports))
        wait_until(lambda: net.active("one", "two"), "both ports are active")
        for instance, other in ((self.one, self.ports[1]), (self.two, self.ports[0])):
            _introduce(instance, other)

    def passes(self) -> bool:
        return bool(self.one.ping(address(self.ports[1]), count=1, timeout=0.5).received)

    def open_connection(self) -> None:
        """Send a datagram from a port of its own: the first one of a connection."""
        with self.one.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"?", (address(self.ports[1]), UDP_PORT))


def _introduce(instance: Instance, port: Any) -> None:
    instance.namespaces.ip(f"neigh replace {address(port)} lladdr {port.mac_address} dev eth0")


@pytest.mark.spec("API-07", "FW-03")
def test_a_change_of_an_address_group_is_in_force_without_a_change_of_rules(net: Net) -> None:
    api, pair = net.cloud.network, Pair(net)
    wait_until(pair.passes)
    office = api.create_address_group(name="office", addresses=["192.0.2.0/24"])
    rules = api.security_group_rules(security_group_id=net.group.id, direction="ingress")
    for rule in list(rules):
        api.delete_security_group_rule(rule)
    rule = api.create_security_group_rule(
        security_group_id=net.group.id,
        direction="ingress",
        protocol="icmp",
        remote_address_group_id=office.id,
    )
    wait_until(lambda: not pair.passes())
    own = f"{address(pair.ports[0])}/32"
    api.add_addresses_to_address_group(office, [own])
    wait_until(pair.passes)
    api.remove_addresses_from_address_group(office, [own])
    wait_until(lambda: not pair.passes())
    assert api.get_security_group_rule(rule.id).revision_number == rule.revision_number
    api.delete_security_group_rule(rule)
    api.delete_address_group(office)


@pytest.mark.spec("API-07", "FW-14")
def test_a_packet_log_of_the_api_is_written_on_the_host_of_the_port(net: Net) -> None:
    api, pair = net.cloud.network, Pair(net)
    client: Any = api

    def create(port: Any) -> Any:
        body = {"resource_type": "security_group", "target_id": port.id}
        return client.post("/log/logs", json={"log": body})

    refused = create(pair.ports[0])
    assert refused.status_code == 409
    assert "packet_log" in refused.json()["NeutronError"]["message"]
    made = create(pair.ports[1])
    assert made.status_code == 201, made.text

    def lines() -> list[str]:
        path = _log(net.cloud)
        return path.read_text().splitlines() if path.exists() else []

    def await_line(*words: str) -> None:
        def is_logged() -> bool:
            pair.open_connection()
            return any(all(word in line for word in words) for line in lines())

        wait_until(is_logged, lambda: (words, lines()[-5:], flows(net.cloud, 1)))

    port = f"port={pair.ports[1].id}"
    rule = api.create_security_group_rule(
        security_group_id=net.group.id,
        direction="ingress",
        protocol="udp",
        port_range_min=UDP_PORT,
        port_range_max=UDP_PORT,
    )
    await_line(port, "action=ACCEPT", "protocol=udp", f"allowed by rule {rule.id}")
    api.delete_security_group_rule(rule)
    await_line(port, "action=DROP", "protocol=udp", "no ingress rule")
    assert client.delete(f"/log/logs/{made.json()['log']['id']}").status_code == 204
