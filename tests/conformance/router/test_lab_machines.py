"""Machines of the lab see real packets as a router that was made by hand forwards them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from netfw.drivers.interface import Attachment, InterfaceDriver
from netfw.drivers.registry import loader
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.model.values.address import Mac
from netfw.plan import Update
from netfw.testing.conformance.dhcp.lab_host import BRIDGE
from netfw.testing.conformance.router.environment import TCP, UDP
from netfw.testing.conformance.router.factories import Site, make_net, make_site
from netfw.testing.conformance.router.lab_environment import RouterLabEnvironment
from netfw.testing.lab.wait import wait_until

pytestmark = pytest.mark.services
NETNS = "handmade"
STALE = Mac("fa:16:3e:de:ad:01")


class HandMadeRouter:
    """A router by the tools themselves: what a driver would make."""

    def __init__(self, environment: RouterLabEnvironment, site: Site) -> None:
        self.environment, self.site = environment, site
        self.namespaces = environment._namespaces
        self.host = LocalHostResources()
        options = {
            "ovsdb_connection": environment._ovs.remote, "ovsdb_timeout": 5.0,
            "integration_bridge": BRIDGE, "ovs_use_veth": False,
        }  # fmt: skip
        self.interface = loader.create(InterfaceDriver, "openvswitch", options, self.host)

    def make(self) -> None:
        self.namespaces.ip(f"netns add {NETNS}")
        self.environment.admit(self.site.ports)
        put = {
            port.id: Attachment(
                device=self.interface.device_name(port.id, "qr-"), mac=port.mac, mtu=port.mtu,
                netns=NETNS,
            )
            for port in self.site.ports
        }  # fmt: skip
        assert self.interface.converge(Update(put=put)).ok
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for port in self.site.ports:
            device = put[port.id].device
            self.run("sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0")
            for address in port.addresses:
                self.run("ip", "address", "add", str(address), "dev", device, "nodad")
        self.gateway = put[self.site.gateway.port.id].device
        wait_until(lambda: all(each.wired for each in self.interface.devices().values()))

    def run(self, *words: str) -> str:
        return self.namespaces.run(["ip", "netns", "exec", NETNS, *words])

    def nat(self, *words: str) -> None:
        self.run("iptables", "-t", "nat", *words)

    def remove(self) -> None:
        self.interface.gc(())
        self.host.close()
        self.namespaces.ip(f"netns delete {NETNS}")


@pytest.fixture(scope="module")
def environment() -> Iterator[RouterLabEnvironment]:
    with RouterLabEnvironment() as lab:
        yield lab


@pytest.fixture
def router(environment: RouterLabEnvironment) -> Iterator[HandMadeRouter]:
    made = HandMadeRouter(environment, make_site(make_net(1), make_net(2, mtu=1400)))
    made.make()
    yield made
    environment.dismiss()
    made.remove()


def machines(router: HandMadeRouter):
    site, lab = router.site, router.environment
    inside = [
        lab.machine(net.id, net.interfaces(20), net.gateways(), mtu=net.mtu) for net in site.nets
    ]
    outside = lab.machine(site.external.id, site.external.interfaces(1))
    return (*inside, outside)


def arrival(machine, address, *request):
    return wait_until(lambda: machine.reach(address, *request), f"{machine.name} to {address}")


@pytest.mark.parametrize("version", [4, 6])
def test_a_forwarded_packet_shows_its_receiver_source_and_hops(router, version) -> None:
    one, two, _ = machines(router)
    first, second = (net.address(20, version) for net in router.site.nets)
    seen = arrival(one, second)
    assert (seen.at, seen.source, seen.hops) == (two.name, first, 1)
    for request in ((TCP, 80, 40001), (UDP, 8080, 40002)):
        seen = arrival(one, second, *request)
        assert (seen.at, seen.source, seen.source_port) == (two.name, first, request[2])
    assert arrival(one, router.site.nets[0].address(1, version)).at == "router"
    assert one.reach(ip_address("192.0.2.77" if version == 4 else "2001:db8:77::1")) is None


@pytest.mark.parametrize("version", [4, 6])
def test_a_packet_that_is_too_big_is_answered(router, version) -> None:
    one, _, _ = machines(router)
    target = router.site.nets[1].address(20, version)
    arrival(one, target)
    assert one.path_mtu(target, 1450) == 1400
    assert one.path_mtu(target, 1400) is None


def test_translations_are_seen_and_streams_end_with_them(router) -> None:
    one, _, outside = machines(router)
    site, gateway = router.site, router.gateway
    address, inside = site.external.address(50), str(site.nets[0].address(20))
    floating = str(address)
    router.nat("-A", "POSTROUTING", "-o", router.gateway, "-j", "SNAT", "--to", "203.0.113.10")
    assert arrival(one, site.external.address(1)).source == site.outside_address
    router.nat("-I", "PREROUTING", "-d", floating, "-j", "DNAT", "--to", inside)
    router.nat("-I", "POSTROUTING", "-s", inside, "-o", gateway, "-j", "SNAT", "--to", floating)
    announcement = outside.announced(
        address, Mac("fa:16:3e:de:ad:01"), lambda: announce(router, floating)
    )
    assert announcement[0] == site.gateway.port.mac
    assert announcement[1] is not None
    assert arrival(outside, address).at == one.name
    traffic, stream = (
        outside.traffic(address),
        wait_until(lambda: outside.connect(address, 80)),
    )
    assert stream.stays_alive()
    assert router.environment.connections(address, site.nets[0].address(20)) > 0
    assert traffic.stop() == 0
    router.nat("-F")
    router.run("conntrack", "-F")
    router.run("ip", "address", "delete", f"{floating}/32", "dev", router.gateway)
    assert not stream.is_alive()
    stream.close()


def announce(router: HandMadeRouter, floating: str) -> None:
    router.run("ip", "address", "add", f"{floating}/32", "dev", router.gateway)
    router.run("arping", "-U", "-c", "2", "-I", router.gateway, floating)


def test_the_environment_finds_what_a_router_has(router) -> None:
    site, lab = router.site, router.environment
    found = lab.found(site.router, site.ports)
    assert found is not None
    for port in site.ports:
        assert found.addresses[port.id] == set(port.addresses)
        assert (found.macs[port.id], found.mtus[port.id]) == (port.mac, port.mtu)
    assert lab.found(site.router, ()) is None
    assert any(NETNS in line for line in lab.dump_state())


def test_refused_rules_are_refused_and_others_are_not(router) -> None:
    rules = "*nat\n-A POSTROUTING -s 10.9.9.9/32 -j ACCEPT\nCOMMIT\n"
    words = ["ip", "netns", "exec", NETNS, "iptables-restore", "--noflush"]
    with router.environment.refuse_rules(ip_address("10.9.9.9")):
        assert router.namespaces.attempt(words, input=rules).status != 0
        assert router.namespaces.attempt(words, input=rules.replace("9.9.9", "9.9.8")).status == 0
    assert router.namespaces.attempt(words, input=rules).status == 0
    assert router.environment.contains("10.9.9.9")


def test_metadata_arrives_at_its_listener_alone(router) -> None:
    one, _, _ = machines(router)
    router.environment.listen_metadata(router.site.router, router.site.state)
    target = ip_address("169.254.169.254")
    assert one.metadata(target) is None
    router.nat(
        "-A", "PREROUTING", "-d", "169.254.169.254/32", "-p", "tcp", "--dport", "80",
        "-j", "REDIRECT", "--to-ports", "9697",
    )  # fmt: skip
    assert wait_until(lambda: one.metadata(target)) == router.site.nets[0].address(20)
