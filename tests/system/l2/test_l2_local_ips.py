"""Local IPs with real packets, by agents with the extension ``local_ip`` and each firewall."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.system.l2.agent_host import PHYSNET, AgentHost, Flavour
from tests.system.l2.environment import SOON, Site
from tests.system.l2.test_l2_firewall import OUT, allow
from tests.system.l2.topology import Port
from tests.system.streams import connects, streaming

pytestmark = pytest.mark.spec("API-07")

UDP, DENIED, WEB, STEADY = 6000, 6001, 80, 6003
LOCAL_IP = "5e11ab1e-0000-4000-8000-000000000001"


class Speaker:
    """A UDP service of an instance that answers with its name."""

    def __init__(self, instance: Instance, address: str, port: int, name: str) -> None:
        self._name = name.encode()
        self._socket = instance.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, port))
        self._socket.settimeout(0.05)
        self._ended = threading.Event()
        self.heard: list[str] = []
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while not self._ended.is_set():
            try:
                _, sender = self._socket.recvfrom(100)
            except TimeoutError:
                continue
            self.heard.append(sender[0])
            self._socket.sendto(self._name, sender)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()


def ask(instance: Instance, address: str, port: int = UDP, source: int = 0) -> str:
    """Return the answer from *address*, empty if there is none."""
    with instance.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("0.0.0.0", source))
        sender.settimeout(SOON)
        sender.connect((address, port))  # an answer from another address is not received
        try:
            sender.send(b"?")
            return sender.recv(100).decode()
        except (TimeoutError, OSError):
            return ""


class LocalIpSite:
    """Clients on two hosts, a server on the first, and the owner of the address on the second."""

    def __init__(self, site: Site) -> None:
        self.site, self.host = site, site["host1"]
        site.topology.groups["client"] = [*OUT]
        site.topology.groups["server"] = [*OUT, allow("udp", UDP), allow("tcp", WEB)]
        net = site.network("vxlan")
        hosts = {"client": "host1", "server": "host1", "far": "host2", "owner": "host2"}
        groups = {"client": "client", "server": "server", "far": "client", "owner": "server"}
        self.ports: dict[str, Port] = {
            name: site.port(net, host, security_groups=[groups[name]])
            for name, host in hosts.items()
        }
        self.other = self.ports["other"] = site.port(net, "host1")
        site.topology.write()
        self.instances = {name: site.plug(port) for name, port in self.ports.items()}
        self.bystander = self.instances["other"]
        self.address = self.ports["owner"].v4
        self.speakers = [
            Speaker(self.instances[name], self.ports[name].v4, port, name)
            for name in ("server", "owner")
            for port in (UDP, DENIED)
        ]
        site.settle()

    def associate(self, mode: str | None = "translate", port: str = "server") -> None:
        """Lead the address to a port, or to none."""
        for each in self.ports.values():
            each.more.pop("local_ips", None)
        if mode is not None:
            found = self.ports[port]
            found.more["local_ips"] = [
                {
                    "local_ip_id": LOCAL_IP, "local_ip_address": self.address,
                    "local_mac_address": self.ports["owner"].mac,
                    "fixed_ip": found.v4, "ip_mode": mode,
                }
            ]  # fmt: skip
        self.site.settle()

    def answers(self) -> dict[str, str]:
        """Return, for each of the others, which instance answers from the address."""
        askers = ("client", "server", "far")
        return {name: ask(self.instances[name], self.address) for name in askers}

    def await_answers(self, **wanted: str) -> None:
        wait_until(lambda: self.answers() == wanted, lambda: (self.answers(), self.explain()))

    def explain(self) -> str:
        return self.host.ofctl("dump-flows", "br-int") + self.host.last_words()

    def close(self) -> None:
        for each in self.speakers:
            each.close()


ORDINARY = {"client": "owner", "server": "owner", "far": "owner"}
LOCAL = {"client": "server", "server": "owner", "far": "owner"}
FLAVOURS = {
    "unfiltered": Flavour(extensions="local_ip"),
    "openflow": Flavour(extensions="packet_log,local_ip,qos", firewall="openflow"),
    "hybrid": Flavour(extensions="local_ip", firewall="iptables_hybrid", hybrid=True),
}


@contextmanager
def make_site(directory: Any, flavour: Flavour) -> Iterator[LocalIpSite]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, directory, flavour, agents=2)
        for host in site.hosts.values():
            host.configure(agent="audit_interval = 2")
        site.start()
        made = LocalIpSite(site)
        yield made
        made.close()


@pytest.fixture(scope="module", params=FLAVOURS)
def whole(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIpSite]:
    with make_site(tmp_path_factory.mktemp("local"), FLAVOURS[request.param]) as made:
        yield made


@pytest.fixture
def local(whole: LocalIpSite) -> Iterator[LocalIpSite]:
    """Yield a site without an association, and remove that of the test afterwards."""
    yield whole
    whole.associate(None)
    whole.await_answers(**ORDINARY)


def test_the_address_leads_to_the_port_of_the_host(local: LocalIpSite) -> None:
    local.await_answers(**ORDINARY)
    local.associate()
    local.await_answers(**LOCAL)
    assert not local.instances["client"].ping(local.address).lost or local.site.flavour.firewall
    client, server = local.instances["client"], local.instances["server"]
    wait_until(lambda: connects(client, server, local.address, WEB), local.explain)
    assert local.ports["client"].v4 in local.speakers[0].heard


def test_the_server_is_filtered_by_its_groups(local: LocalIpSite) -> None:
    local.associate()
    local.await_answers(**LOCAL)
    client = local.instances["client"]
    if local.site.flavour.firewall:
        assert ask(client, local.address, DENIED) == ""
    else:
        wait_until(lambda: ask(client, local.address, DENIED) == "server", local.explain)
    direct = local.ports["server"].v4
    wait_until(lambda: ask(client, direct) == "server", local.explain)


def test_packets_pass_unchanged_in_mode_passthrough(local: LocalIpSite) -> None:
    server = local.instances["server"]
    server.namespaces.ip(f"addr add {local.address}/32 dev lo")
    own = Speaker(server, local.address, UDP, "unchanged")
    try:
        local.associate("passthrough")
        wait_until(
            lambda: ask(local.instances["client"], local.address) == "unchanged", local.explain
        )
        wait_until(lambda: ask(local.instances["far"], local.address) == "owner", local.explain)
    finally:
        own.close()
        server.namespaces.ip(f"addr del {local.address}/32 dev lo")


def test_changes_interrupt_no_other_traffic(local: LocalIpSite) -> None:
    local.await_answers(**ORDINARY)
    client, bystander = local.instances["client"], local.bystander
    wait_until(lambda: not client.ping(local.other.v4, timeout=SOON).lost)
    with streaming(client, bystander, local.other.v4, STEADY) as stream:
        stream.await_passing()
        for _ in range(2):
            local.associate()
            local.await_answers(**LOCAL)
            local.associate(None)
            local.await_answers(**ORDINARY)
        stream.stop()
        assert stream.lost == 0


def test_another_port_takes_a_connection_over(local: LocalIpSite) -> None:
    client = local.instances["client"]
    other = Speaker(local.bystander, local.other.v4, UDP, "other")
    try:
        for port, name in (("server", "server"), ("other", "other"), ("server", "server")):
            local.associate(port=port)
            wait_until(
                lambda name=name: ask(client, local.address, source=5000) == name, local.explain
            )
    finally:
        other.close()


def test_restarts_and_drift_are_survived(local: LocalIpSite) -> None:
    local.associate()
    local.await_answers(**LOCAL)
    before = local.host.flows()
    local.host.restart()
    assert local.host.flows().keys() == before.keys()
    local.await_answers(**LOCAL)
    local.host.host.restart_switch()
    local.site.settle()
    local.await_answers(**LOCAL)
    before = local.host.flows()
    local.host.restart(AgentHost.kill)
    local.host.ofctl("del-flows", "br-int", f"arp,arp_tpa={local.address}")
    local.host.ofctl("del-flows", "br-int", f"ip,nw_dst={local.address}")
    wait_until(lambda: local.host.flows().keys() == before.keys(), local.explain)
    local.await_answers(**LOCAL)


def test_of_two_ports_of_a_host_one_is_served(local: LocalIpSite) -> None:
    local.associate()
    extra = local.ports["client"]
    extra.more["local_ips"] = local.ports["server"].more["local_ips"]
    local.site.settle()
    assert extra.id < local.ports["server"].id
    wait_until(lambda: ask(local.instances["client"], local.address) == "owner", local.explain)
    wait_until(
        lambda: local.ports["server"].id in local.host.status()["warnings"].get("local IPs", ""),
        local.host.status,
    )
