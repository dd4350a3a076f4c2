"""Trunks by the public API, with real agents and real frames under VLAN tags."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from ipaddress import IPv4Address
from typing import Any

import pytest
from openstack.exceptions import ConflictException

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.model.values.address import Mac
from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import BackgroundPing
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.server.tagged_ping import TaggedHost

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
    pytest.mark.spec("API-07", "L2-81"),
]
TAGS = {"red": 100, "blue": 200}
NAMES = itertools.count()


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


class Trunk:
    """A parent port on host 1, sub-ports of two networks, and a neighbour of each on host 2."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.api = cloud, cloud.network
        self.networks = {name: self._network(name) for name in ("plain", *TAGS)}
        self.group = self.api.create_security_group(name="open")
        for protocol in ("icmp",):
            self.api.create_security_group_rule(
                security_group_id=self.group.id, direction="ingress", protocol=protocol
            )
        self.parent_port = self.port("plain", host=0)
        self.parent = self.plug(self.parent_port, 0)
        self.subs = {name: self.port(name) for name in TAGS}
        peers = {name: self.port(name, host=1) for name in self.networks}
        self.peers = {name: self.plug(port, 1) for name, port in peers.items()}
        self.addresses = {name: _address(port) for name, port in peers.items()}
        first = _sub_port(self.subs["red"], TAGS["red"])
        self.trunk = self.api.create_trunk(port_id=self.parent_port.id, sub_ports=[first])

    def _network(self, name: str) -> Any:
        made = self.api.create_network(name=f"{name}-{next(NAMES)}")
        cidr = f"10.{sorted(('plain', *TAGS)).index(name) + 60}.0.0/24"
        self.api.create_subnet(network_id=made.id, cidr=cidr, ip_version=4)
        return made

    def port(self, network: str, host: int | None = None) -> Any:
        place = {} if host is None else {"binding_host_id": self.cloud.hosts[host].host.name}
        return self.api.create_port(
            network_id=self.networks[network].id,
            name=f"{network}-{next(NAMES)}",
            security_group_ids=[self.group.id],
            **place,
        )

    def plug(self, port: Any, host: int) -> Instance:
        return self.cloud.hosts[host].plug_port(port)

    def tagged(self, name: str) -> TaggedHost:
        port = self.subs[name]
        return TaggedHost(
            instance=self.parent,
            tag=TAGS[name],
            mac=Mac(port.mac_address),
            address=IPv4Address(_address(port)),
        )

    def status(self) -> str:
        return str(self.api.get_trunk(self.trunk.id).status)

    def port_status(self, name: str) -> str:
        return str(self.api.get_port(self.subs[name].id).status)

    def reaches(self, name: str) -> bool:
        return self.tagged(name).ping(self.addresses[name])

    def pinging_parent(self) -> AbstractContextManager[BackgroundPing]:
        """Ping from the parent port while the block runs."""
        return self.parent.pinging(self.addresses["plain"], interval=0.01, timeout=TIMEOUT)

    def add(self, name: str) -> None:
        self.api.add_trunk_subports(self.trunk, [_sub_port(self.subs[name], TAGS[name])])

    def remove(self, name: str) -> None:
        self.api.delete_trunk_subports(self.trunk, [{"port_id": self.subs[name].id}])


def _sub_port(port: Any, tag: int) -> dict[str, Any]:
    return {"port_id": port.id, "segmentation_type": "vlan", "segmentation_id": tag}


def _address(port: Any) -> str:
    return str(port.fixed_ips[0]["ip_address"])


@pytest.fixture(scope="module")
def trunk(served: Cloud) -> Trunk:
    made = Trunk(served)
    wait_until(lambda: made.status() == "ACTIVE", made.status)
    return made


def test_a_sub_port_is_wired_on_the_host_of_its_parent(trunk: Trunk) -> None:
    sub = trunk.api.get_port(trunk.subs["red"].id)
    assert (sub.status, sub.device_owner) == ("ACTIVE", "trunk:subport")
    assert sub.binding_host_id == trunk.parent_port.binding_host_id
    wait_until(lambda: trunk.reaches("red"))
    assert trunk.parent.ping(trunk.addresses["plain"], count=1, timeout=5).received
    assert not trunk.reaches("blue"), "that tag has no sub-port"
    assert not trunk.tagged("red").ping(trunk.addresses["red"], nested=100)
    details = trunk.api.get_port(trunk.parent_port.id).trunk_details
    assert [each["segmentation_id"] for each in details["sub_ports"]] == [100]
    with pytest.raises(ConflictException):
        trunk.api.delete_port(sub.id)


def test_a_sub_port_sends_from_its_own_addresses_only(trunk: Trunk) -> None:
    own = trunk.tagged("red")
    wait_until(lambda: trunk.reaches("red"))
    parent = Mac(trunk.parent_port.mac_address)
    stolen = TaggedHost(instance=own.instance, tag=own.tag, mac=parent, address=own.address)
    assert not stolen.ping(trunk.addresses["red"])
    other = TaggedHost(instance=own.instance, tag=own.tag, mac=own.mac, address=own.address + 99)
    assert not other.ping(trunk.addresses["red"])


def test_security_groups_filter_a_sub_port(trunk: Trunk) -> None:
    sub = trunk.subs["red"]
    closed = trunk.api.create_security_group(name="closed")
    for rule in list(trunk.api.security_group_rules(security_group_id=closed.id)):
        trunk.api.delete_security_group_rule(rule.id)
    trunk.api.update_port(sub.id, security_group_ids=[closed.id])
    wait_until(lambda: not trunk.reaches("red"))
    trunk.api.update_port(sub.id, security_group_ids=[trunk.group.id])
    wait_until(lambda: trunk.reaches("red"))


def test_sub_ports_come_and_go_without_loss_for_the_parent(trunk: Trunk) -> None:
    wait_until(lambda: trunk.parent.ping(trunk.addresses["plain"], count=1, timeout=1).received)
    with trunk.pinging_parent() as running:
        trunk.add("blue")
        wait_until(lambda: trunk.port_status("blue") == "ACTIVE")
        wait_until(lambda: trunk.reaches("blue"))
        wait_until(lambda: trunk.reaches("red"))
        trunk.remove("blue")
        wait_until(lambda: trunk.port_status("blue") == "DOWN")
        wait_until(lambda: not trunk.reaches("blue"))
        ping = running.stop()
    assert (ping.lost, ping.sent > 0) == (0, True)
    ovs = trunk.cloud.hosts[0].host.ovs
    wait_until(lambda: ("\n" + ovs.vsctl("list-ports", "br-int")).count("\nsub") == 1)


def test_sub_ports_outlive_the_agent_and_the_switch(trunk: Trunk) -> None:
    host = trunk.cloud.hosts[0]
    wait_until(lambda: trunk.reaches("red"))
    with trunk.pinging_parent() as running:
        host.stop()
        wait_until(lambda: trunk.reaches("red"))
        host.start()
        wait_until(lambda: trunk.status() == "ACTIVE", trunk.status)
        wait_until(lambda: trunk.reaches("red"))
        ping = running.stop()
    assert ping.lost == 0
    host.host.restart_switch()
    wait_until(lambda: trunk.reaches("red"))


@pytest.mark.spec("ML2-08")
def test_sub_ports_migrate_with_their_parent(trunk: Trunk) -> None:
    api, port = trunk.api, trunk.parent_port
    api.update_port(port.id, device_owner="compute:nova")
    body = {"binding": {"host": trunk.cloud.hosts[1].host.name}}
    answer = api.post(f"/ports/{port.id}/bindings", json=body)
    assert answer.status_code == 201, answer.text
    there = trunk.cloud.hosts[1].plug_port(port, "migrated")
    ovs = trunk.cloud.hosts[1].host.ovs
    wait_until(lambda: "\nsub" in "\n" + ovs.vsctl("list-ports", "br-int"))
    wait_until(lambda: trunk.reaches("red"))
    own = trunk.tagged("red")
    moved = TaggedHost(instance=there, tag=own.tag, mac=own.mac, address=own.address)
    assert not moved.ping(trunk.addresses["red"]), "it is not activated there"
    host = trunk.cloud.hosts[1].host.name
    assert api.put(f"/ports/{port.id}/bindings/{host}/activate", json={}).status_code == 200
    wait_until(lambda: moved.ping(trunk.addresses["red"]))
    assert api.get_port(trunk.subs["red"].id).binding_host_id == host
    assert not trunk.reaches("red")
    wait_until(lambda: trunk.status() == "ACTIVE", trunk.status)
    former = trunk.cloud.hosts[0].host.name
    assert api.put(f"/ports/{port.id}/bindings/{former}/activate", json={}).status_code == 200
    trunk.cloud.hosts[1].unplug_port(port)
    assert api.delete(f"/ports/{port.id}/bindings/{host}").status_code == 204
    wait_until(lambda: trunk.reaches("red"))
    wait_until(lambda: "\nsub" not in "\n" + ovs.vsctl("list-ports", "br-int"))


def test_a_trunk_is_down_without_the_device_of_its_parent(trunk: Trunk) -> None:
    trunk.cloud.hosts[0].unplug_port(trunk.parent_port)
    wait_until(lambda: trunk.status() == "DOWN", trunk.status)
    wait_until(lambda: trunk.port_status("red") == "DOWN")
    ovs = trunk.cloud.hosts[0].host.ovs
    wait_until(lambda: "\nsub" not in "\n" + ovs.vsctl("list-ports", "br-int"))


def test_neither_server_nor_agents_met_a_fault_of_their_own(trunk: Trunk) -> None:
    for log in (trunk.cloud.server.log, *(host.agent.log for host in trunk.cloud.hosts)):
        assert "Traceback" not in log.read_text(), log
