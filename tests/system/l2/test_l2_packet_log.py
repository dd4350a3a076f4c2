"""Packet logs of agents with the firewall in the switch: why each packet passed or was dropped."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.l2.agent_host import PHYSNET, AgentHost, Flavour
from tests.system.l2.environment import Site
from tests.system.l2.test_l2_firewall import OUT, allow, introduce_ports
from tests.system.l2.topology import Port
from tests.system.streams import connects

pytestmark = pytest.mark.spec("FW-14", "API-07")

LOGGING = Flavour(population=True, firewall="openflow", extensions="packet_log")
RATE, BURST, FLOOD = 10, 25, 3000


def lines(host: AgentHost, **wanted: str) -> list[str]:
    """Return the lines of the log that have all these pairs."""
    found = host.packets.read_text().splitlines() if host.packets.exists() else []
    pairs = [f" {name}={value} " for name, value in wanted.items()]
    return [line for line in found if all(pair in f"{line} " for pair in pairs)]


def await_line(host: AgentHost, **wanted: str) -> str:
    wait_until(lambda: lines(host, **wanted), lambda: (wanted, lines(host), host.last_words()))
    return lines(host, **wanted)[-1]


def reason(line: str) -> str:
    found = re.search(r'reason="(.*)"$', line)
    assert found, line
    return found[1]


def send(instance: Instance, target: str, port: int, count: int = 1, source: str = "") -> None:
    """Send UDP packets."""
    with instance.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sender:
        if source:
            sender.bind((source, 0))
        for _ in range(count):
            sender.sendto(b"?", (target, port))


class Pair:
    """A client and a server, on one host or two."""

    def __init__(self, site: Site, hosts: tuple[str, str], logs: list[dict[str, Any]]) -> None:
        self.site = site
        site.topology.groups["client"] = [*OUT]
        site.topology.groups["server"] = [
            *OUT,
            allow("tcp", 80),
            allow("udp", 6000, remote_group="server"),
        ]
        net = site.network("vxlan")
        self.ports: tuple[Port, Port] = (
            site.port(net, hosts[0], security_groups=["client"]),
            site.port(net, hosts[1], security_groups=["server"]),
        )
        names = [f"port{port.number}" for port in self.ports]
        site.topology.logs = [
            {**log, "target": names[int(log["target"])]} if "target" in log else log for log in logs
        ]
        site.topology.write()
        self.client, self.server = (site.plug(port) for port in self.ports)
        introduce_ports(self.client, self.server, self.ports)
        site.settle()
        self.hosts = site[hosts[0]], site[hosts[1]]

    def connects(self, port: int) -> bool:
        return connects(self.client, self.server, self.ports[1].v4, port)


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("logging"), LOGGING, agents=2)
        site.start()
        yield site


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    with whole_site.tidy():
        yield whole_site
        whole_site.topology.logs = []


@pytest.mark.parametrize(
    "hosts", [("host1", "host2"), nightly(("host1", "host1"))], ids=["two", "one"]
)
def test_accepted_and_dropped_packets_are_explained(site: Site, hosts: tuple[str, str]) -> None:
    pair = Pair(site, hosts, [{"name": "all", "target": "1", "resource_type": "security_group"}])
    port, peer = pair.ports[1], pair.ports[0]
    wait_until(lambda: pair.connects(80))
    logged = {"port": port.id, "direction": "ingress", "src": peer.v4, "dst": port.v4}
    accepted = await_line(pair.hosts[1], action="ACCEPT", protocol="tcp", dst_port="80", **logged)
    assert re.fullmatch(r"allowed by rule \S+ of group \S+", reason(accepted))
    assert not pair.connects(81)
    dropped = await_line(pair.hosts[1], action="DROP", protocol="tcp", dst_port="81", **logged)
    assert reason(dropped) == "no ingress rule of the port's groups allows it"
    send(pair.client, port.v4, 6000)
    missed = await_line(pair.hosts[1], action="DROP", protocol="udp", dst_port="6000", **logged)
    assert re.fullmatch(
        rf"no ingress rule of the port's groups allows it; rule \S+ of group \S+ would, "
        rf"if {re.escape(peer.v4)} were in security group \S+",
        reason(missed),
    )
    assert lines(pair.hosts[1], port=peer.id) == [], "only the port of the log is logged"
    group = re.search(r"groups=(\S+)", dropped)
    assert group
    assert f"of group {group[1]}" in accepted


def test_one_event_of_a_group_is_logged(site: Site) -> None:
    log = {"name": "drops", "resource": "client", "event": "DROP"}
    pair = Pair(site, ("host1", "host2"), [{**log, "resource_type": "security_group"}])
    client, server = pair.ports
    wait_until(lambda: pair.connects(80))
    pair.client.namespaces.ip("addr add 10.0.99.99/16 dev eth0")
    send(pair.client, server.v4, 7000, source="10.0.99.99")
    logged = {"action": "DROP", "direction": "egress", "port": client.id}
    dropped = await_line(pair.hosts[0], src="10.0.99.99", **logged)
    assert reason(dropped).startswith("its source MAC or IP address is not that of the port")
    send(pair.client, server.v4, 68)
    served = await_line(pair.hosts[0], dst_port="68", **logged)
    assert reason(served) == "only DHCP servers may send this"
    for host in pair.hosts:
        assert lines(host, action="ACCEPT", port=client.id) == []
        assert lines(host, port=server.id) == []


def test_a_flood_is_logged_at_a_bounded_rate(site: Site) -> None:
    logs = [{"name": "all", "target": "1", "resource_type": "security_group"}]
    pair = Pair(site, ("host1", "host2"), logs)
    server = pair.ports[1]
    began = time.monotonic()
    send(pair.client, server.v4, 9, count=FLOOD)
    wanted = {"action": "DROP", "port": server.id, "dst_port": "9"}
    await_line(pair.hosts[1], **wanted)
    elapsed = time.monotonic() - began
    assert len(lines(pair.hosts[1], **wanted)) <= 2 * BURST + RATE * (elapsed + 2) < FLOOD


def test_a_log_ends_when_it_is_disabled(site: Site) -> None:
    logs = [{"name": "all", "target": "1", "resource_type": "security_group"}]
    pair = Pair(site, ("host1", "host2"), logs)
    server = pair.ports[1]
    send(pair.client, server.v4, 9)
    await_line(pair.hosts[1], port=server.id, dst_port="9")
    site.topology.logs[0]["enabled"] = False
    site.settle()
    send(pair.client, server.v4, 10)
    site.topology.logs[0]["enabled"] = True
    site.settle()
    send(pair.client, server.v4, 11)
    await_line(pair.hosts[1], port=server.id, dst_port="11")
    assert lines(pair.hosts[1], port=server.id, dst_port="10") == []
