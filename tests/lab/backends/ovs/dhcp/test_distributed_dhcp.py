"""Distributed DHCP in the real agent: real clients on a real switch, no namespace, no dnsmasq."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.dhcp_client import Dhclient6, Udhcpc
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.dhcp.plan.flows import BURST, RATE

PORTS = {number: str(UUID(int=number)) for number in (11, 12, 13, 21)}
"""Ports of the first network, and one of the second."""

FLOOD = """
import socket
frame = bytes.fromhex("ffffffffffff" "fa163e000012" "0800") + bytes.fromhex(
    "45000110" "00000000" "40110000" "00000000" "ffffffff" "00440043" "00fc0000"
) + bytes.fromhex("01010600") + bytes(24) + bytes.fromhex("fa163e000012") + bytes(202)
frame += bytes.fromhex("63825363" "350101" "ff")
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("eth0", 0))
while True:
    try:
        link.send(frame)
    except OSError:
        pass
"""
"""A program that sends DISCOVER as fast as it can."""
FLOODED = 20000


def mac_of(number: int) -> str:
    return f"fa:16:3e:00:00:{number}"


class DhcpHost:
    """A host whose agent answers DHCP; two networks have the same addresses."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host, self.topology = host, directory / "topology.json"
        self.changes: dict[int, dict[str, Any]] = {}
        self.server = True
        self.write()
        options = {
            "agent": {"extensions": "dhcp", "firewall_driver": "openflow"},
            "file": {"path": self.topology, "poll": 0.05, "debounce": 0},
            "openvswitch": {"datapath_type": "netdev", "ovsdb_connection": host.ovs.remote},
        }
        self.agent = PrivateAgent(host, directory / "l2", "netfw.cli.agents.l2", options)

    def write(self) -> None:
        content = {
            "hosts": {self.host.name: {}},
            "networks": [
                {"name": "one", "network_type": "local", "mtu": 1400, "dns_domain": "one.example"},
                {"name": "two", "network_type": "local", "mtu": 1300},
            ],
            "subnets": [subnet("one"), subnet("two"), subnet6("one")],
            "ports": [
                *(self._port(number) for number in PORTS),
                *(dhcp_port(name) for name in ("one", "two") if self.server),
            ],
        }
        new = self.topology.with_suffix(".new")
        new.write_text(json.dumps(content))
        new.rename(self.topology)

    def _port(self, number: int) -> dict[str, Any]:
        network = "one" if number < 20 else "two"
        addresses = [f"10.0.0.{number}", *([f"fd00::{number}"] if network == "one" else [])]
        return {
            "name": f"p{number}", "id": PORTS[number], "network": network,
            "host": self.host.name, "mac_address": mac_of(number), "fixed_ips": addresses,
            **self.changes.get(number, {}),
        }  # fmt: skip

    def instance(self, number: int) -> Instance:
        ids = {"iface-id": PORTS[number]}
        plug = Plug(bridge="br-int", device=f"tap{number}", mac=mac_of(number), external_ids=ids)
        return self.host.instance(f"vm{number}", plug)

    def flows(self, ofport_of: str) -> list[str]:
        dump = ["ovs-ofctl", "-O", "OpenFlow14", "dump-flows", "br-int", "table=100"]
        number = self.host.ovs.vsctl("get", "Interface", ofport_of, "ofport").strip()
        return [line for line in self.host.run(dump).splitlines() if f"in_port={number}," in line]

    def requests(self, device: str) -> int:
        """Return how many packets the busiest flow of a port has had."""
        counts = re.findall(r"n_packets=([0-9]+)", "".join(self.flows(device)))
        return max(map(int, counts), default=0)

    def replies(self, device: str) -> int:
        """Return how many packets a port was sent."""
        counts = self.host.ovs.ofctl("dump-ports", self.host.ovs.management("br-int"), device)
        (sent,) = re.findall(r"tx pkts=([0-9]+)", counts)
        return int(sent)


def subnet(network: str) -> dict[str, Any]:
    return {
        "name": f"{network}4", "network": network, "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1",
        "dns_nameservers": ["192.0.2.53"],
        "host_routes": [{"destination": "198.51.100.0/24", "nexthop": "10.0.0.9"}],
    }  # fmt: skip


def subnet6(network: str) -> dict[str, Any]:
    modes = dict.fromkeys(("ipv6_address_mode", "ipv6_ra_mode"), "dhcpv6-stateful")
    return {
        "name": f"{network}6", "network": network, "cidr": "fd00::/64", "gateway_ip": "fd00::1",
        "dns_nameservers": ["2001:db8::53"], **modes,
    }  # fmt: skip


def dhcp_port(network: str) -> dict[str, Any]:
    last = {"one": 2, "two": 3}[network]
    addresses = [f"10.0.0.{last}", *(["fd00::2"] if network == "one" else [])]
    return {
        "name": f"dhcp-{network}", "network": network, "mac_address": f"fa:16:3e:ff:00:0{last}",
        "fixed_ips": addresses, "device_owner": "network:dhcp",
        "device_id": DISTRIBUTED_DHCP_DEVICE, "port_security_enabled": False,
    }  # fmt: skip


@pytest.fixture
def dhcp(make_lab: Any, tmp_path: Path) -> Iterator[DhcpHost]:
    lab = make_lab(hosts=1, bridges=["br-int"])
    dhcp = DhcpHost(lab.hosts["host1"], tmp_path)
    dhcp.agent.start()
    yield dhcp
    dhcp.agent.kill()


@pytest.mark.spec("DHCP-81")
def test_an_instance_is_answered_by_its_own_host(dhcp: DhcpHost) -> None:
    client = Udhcpc(dhcp.instance(11), timeout=30.0)
    lease = client.lease()
    assert lease is not None
    assert (str(lease.ip), str(lease.server)) == ("10.0.0.11", "10.0.0.2")
    assert lease.gateways == (IPv4Address("10.0.0.1"),)
    assert lease.dns == (IPv4Address("192.0.2.53"),)
    assert (lease.mtu, lease.domain) == (1400, "one.example")
    assert {str(route.destination) for route in lease.routes} == {"198.51.100.0/24", "0.0.0.0/0"}
    assert client.renew() == lease
    assert "qdhcp" not in dhcp.host.run(["ip", "netns"])
    client.close()


@pytest.mark.spec("DHCP-81")
def test_the_address_of_the_server_has_its_mac_for_renewals(dhcp: DhcpHost) -> None:
    instance = dhcp.instance(11)
    client = Udhcpc(instance, timeout=30.0)
    assert client.lease() is not None

    def neighbours() -> str:
        instance.attempt(["ping", "-c", "1", "-W", "1", "10.0.0.2"])
        return instance.run(["ip", "neighbour", "show", "10.0.0.2"])

    wait_until(lambda: "fa:16:3e:ff:00:02" in neighbours())
    client.close()


@pytest.mark.spec("DHCP-81")
def test_networks_with_equal_addresses_do_not_mix(dhcp: DhcpHost) -> None:
    one, two = (Udhcpc(dhcp.instance(number), timeout=30.0) for number in (11, 21))
    first, second = one.lease(), two.lease()
    assert first is not None
    assert second is not None
    assert (str(first.server), first.mtu) == ("10.0.0.2", 1400)
    assert (str(second.server), second.mtu) == ("10.0.0.3", 1300)
    one.close()
    two.close()


@pytest.mark.spec("DHCP-81")
def test_an_instance_gets_its_ipv6_address(dhcp: DhcpHost) -> None:
    client = Dhclient6(dhcp.instance(11), timeout=30.0)
    lease = client.lease()
    assert lease is not None
    assert lease.addresses == (IPv6Address("fd00::11"),)
    assert lease.dns == (IPv6Address("2001:db8::53"),)
    assert client.renew() == lease
    client.close()


@pytest.mark.spec("DHCP-81")
def test_a_new_agent_answers_from_the_flows_that_it_finds(dhcp: DhcpHost) -> None:
    client = Udhcpc(dhcp.instance(11), timeout=30.0)
    lease = client.lease()
    assert lease is not None
    flows = dhcp.flows("tap11")
    dhcp.agent.kill()
    assert len(dhcp.flows("tap11")) == len(flows) > 0
    assert client.renew(timeout=2.0) is None
    dhcp.agent.start()
    assert client.lease() == lease
    client.close()


@pytest.mark.spec("DHCP-81")
def test_changes_reach_clients_with_their_next_request(dhcp: DhcpHost) -> None:
    client = Udhcpc(dhcp.instance(11), timeout=30.0)
    assert client.lease() is not None
    option = {"opt_name": "mtu", "opt_value": "1234"}
    dhcp.changes[11] = {"extra_dhcp_opts": [option]}
    dhcp.write()

    def renewed_mtu() -> int | None:
        lease = client.renew()
        return None if lease is None else lease.mtu

    wait_until(lambda: renewed_mtu() == 1234)
    dhcp.server = False
    dhcp.write()
    wait_until(lambda: dhcp.flows("tap11") == [])
    assert client.lease(timeout=2.0) is None
    client.close()


@pytest.mark.spec("DHCP-81")
def test_a_port_that_floods_requests_does_not_keep_others_from_theirs(dhcp: DhcpHost) -> None:
    flooding = dhcp.instance(12)
    first = Udhcpc(flooding, timeout=30.0)
    assert first.lease() is not None
    first.leave()
    before, since = dhcp.replies("tap12"), time.monotonic()
    flood = flooding.spawn([sys.executable, "-c", FLOOD])
    wait_until(lambda: dhcp.requests("tap12") > FLOODED, seconds=120.0)
    replies, seconds = dhcp.replies("tap12") - before, time.monotonic() - since
    assert 0 < replies <= 2 * (BURST + RATE * seconds), "the switch drops what exceeds the limit"
    client = Udhcpc(dhcp.instance(11), timeout=60.0)
    lease = client.lease()
    assert lease is not None
    assert str(lease.ip) == "10.0.0.11"
    assert flood.poll() is None, "it ended early"
    flood.kill()
    flood.wait()
    first.close()
    client.close()


@pytest.mark.spec("DHCP-81")
def test_a_client_with_another_mac_gets_nothing(dhcp: DhcpHost) -> None:
    dhcp.changes[12] = {"port_security_enabled": False}
    dhcp.write()
    known, other = dhcp.instance(11), dhcp.instance(12)
    client = Udhcpc(known, timeout=30.0)
    assert client.lease() is not None
    other.namespaces.ip(
        "link set eth0 down", f"link set eth0 address {mac_of(11)}", "link set eth0 up"
    )
    wait_until(lambda: dhcp.flows("tap12") != [])
    stranger = Udhcpc(other, timeout=30.0)
    assert stranger.lease(timeout=3.0) is None
    stranger.close()
    client.close()
