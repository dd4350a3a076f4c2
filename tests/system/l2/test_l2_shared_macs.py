"""A port on several hosts: one MAC, and an address that moves from host to host without agents.

Namespaces made by hand are the routers: the active one has the addresses, the standby has none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import frozen

from netfw.drivers.values.router_values import HA_PRIORITY
from netfw.linux.sockets.address_announcement import announce_addresses
from netfw.testing.lab.host import NIC
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.namespaces import NamespaceOwner
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.config.keepalived import VrrpSettings
from tests.nightly import nightly
from tests.system.captures import listening
from tests.system.l2.agent_host import MESH4, PHYSNET, POPULATED4, PROVIDER
from tests.system.l2.environment import SOON, Site
from tests.system.l2.topology import Port
from tests.system.pings import pinging_all

KINDS = ("vxlan", "vlan", "flat")
ROUTER_HOSTS = ("host1", "host2")
INTERVAL = 0.02
BURST = 200
ON_THE_WAY = 1.0
"""Seconds that an announcement may take on a busy machine."""
VRRP = VrrpSettings()
SKEW_TIME = VRRP.advert_int * (256 - HA_PRIORITY) / 256
"""Seconds without a router after a clean stop, with the default options."""
REPEAT_DELAY = VRRP.garp_master_delay
"""Seconds until the new router announces itself again.  Where the MAC is learned it needs that: a
switch that has cached a path may learn from packets of the old router once more, up to half a
second later, which is longer than the skew."""
MLD_DELAY = 3.0
"""Seconds until a kernel has sent all reports of multicast groups that it left."""

pytestmark = [pytest.mark.exclusive, pytest.mark.flavours(POPULATED4, nightly(MESH4))]


@frozen
class SharedRouter:
    """A router on two hosts, and an instance on each of three."""

    site: Site
    port: Port
    replicas: dict[str, Instance]
    """The namespace of the router on each of its hosts."""
    instances: dict[str, Instance]

    @classmethod
    def make(cls, site: Site, kind: str) -> SharedRouter:
        net = site.network(kind)
        owner = "network:ha_router_replicated_interface"
        body = {
            "binding:hosts": list(ROUTER_HOSTS), "device_owner": owner, "device_id": str(uuid4())
        }  # fmt: skip
        port = site.port(net, ROUTER_HOSTS[0], **body)
        ports = {host: site.port(net, host) for host in site.hosts}
        site.topology.write()
        replicas = {host: cls._plug(site, port, host) for host in ROUTER_HOSTS}
        instances = {host: site.plug(each) for host, each in ports.items()}
        return cls(site, port, replicas, instances)

    @staticmethod
    def _plug(site: Site, port: Port, host: str) -> Instance:
        """Plug the device of a router that has no address, not even a link-local one."""
        instance = site[host].host.instance(f"router{port.number}-{host}")
        instance.call(Path("/proc/sys/net/ipv6/conf/default/addr_gen_mode").write_text, "1")
        ids = {"attached-mac": port.mac, "iface-status": "active", "iface-id": port.id}
        mtu = site.topology.mtu(port.net)
        plug = Plug(bridge="br-int", device=port.device, mac=port.mac, mtu=mtu, external_ids=ids)
        instance.plug(plug)
        site[host].host.call(
            Path(f"/proc/sys/net/ipv6/conf/{port.device}/disable_ipv6").write_text, "1"
        )
        return instance

    @property
    def is_learned(self) -> bool:
        """Whether some switch learns from all frames alike on which host the MAC is."""
        return self.port.net.body["network_type"] != "vxlan" or not self.site.flavour.population

    def activate(self, host: str) -> None:
        """Give the addresses to the router of *host*, and announce them, as keepalived does."""
        self.replicas[host].configure((f"{self.port.v4}/16", f"{self.port.v6}/64"))
        self.announce(host)

    def announce(self, host: str) -> None:
        """Announce the addresses of the router from *host*."""
        replica = self.replicas[host]
        addresses = ip_address(self.port.v4), ip_address(self.port.v6)
        assert replica.device is not None
        replica.call(announce_addresses, replica.device, addresses, router=True)

    def deactivate(self, host: str) -> None:
        self.replicas[host].run(["ip", "addr", "flush", "dev", "eth0"])

    def await_reach(self) -> None:
        for name, instance in self.instances.items():
            for address in (self.port.v4, self.port.v6):
                wait_until(
                    lambda instance=instance, address=address: (
                        not instance.ping(address, timeout=SOON).lost
                    ),
                    lambda name=name, address=address: (name, address, self.describe()),
                )

    def describe(self) -> str:
        return "\n".join(
            f"{name} {bridge}: {host.ofctl('dump-flows', bridge)}"
            for name, host in self.site.hosts.items()
            for bridge in ("br-tun", PROVIDER)
        )

    def frames_sent(self, host: str) -> int:
        """Return how many frames *host* sent to others, over tunnels and its physical network."""
        return sum(frames_of(self.site[host].host, nic) for nic in (NIC, PHYSNET))


@contextmanager
def agents_stopped(site: Site) -> Iterator[None]:
    for host in site.hosts.values():
        host.stop()
    try:
        yield
    finally:
        site.start()


def frames_of(owner: NamespaceOwner, device: str) -> int:
    """Return how many frames a device has sent."""
    text = owner.run(["ip", "-s", "-o", "link", "show", "dev", device])
    found = re.search(r"TX: .*?\\\s+\d+ +(\d+)", text)
    assert found is not None, text
    return int(found[1])


def make_routers(site: Site) -> dict[str, SharedRouter]:
    """Make a router on each kind of network, active nowhere."""
    routers = {kind: SharedRouter.make(site, kind) for kind in KINDS}
    site.settle()
    return routers


@pytest.mark.nightly
@pytest.mark.spec("L2-61")
def test_instances_everywhere_reach_the_active_router_while_it_moves_without_agents(site: Site):
    routers = make_routers(site)
    with agents_stopped(site):
        for router in routers.values():
            router.activate("host1")
            router.await_reach()
        for router in routers.values():
            for old, new in (ROUTER_HOSTS, ROUTER_HOSTS[::-1]):
                move(router, old, new)


def move(router: SharedRouter, old: str, new: str) -> None:
    """Move the addresses of a router; nothing is lost after the new one has announced itself, the
    second time where the MAC is learned."""
    addresses = {"IPv4": router.port.v4, "IPv6": router.port.v6}
    targets = {
        f"{name} {version}": (instance, address)
        for name, instance in router.instances.items()
        for version, address in addresses.items()
    }
    with pinging_all(targets, INTERVAL) as pings, listening(*router.instances.values()) as captures:
        began = time.monotonic()
        router.deactivate(old)
        time.sleep(SKEW_TIME)
        router.activate(new)
        if router.is_learned:
            time.sleep(REPEAT_DELAY)
            router.announce(new)
        moved = time.monotonic() - began
        router.await_reach()
        wait_until(lambda: time.monotonic() > began + MLD_DELAY)
        results = pings.stop()
        reports = [frame for each in captures for frame in each.received() if frame.is_mld_report]
    late = {name: ping.outage for name, ping in results.items() if ping.outage > moved + ON_THE_WAY}
    assert not late, (moved, pings.report())
    # The former router leaves its multicast groups; a switch would learn the MAC from that.
    assert not [frame for frame in reports if frame.source == router.port.mac]


@pytest.mark.spec("L2-61")
def test_a_router_on_several_hosts_answers_once_and_costs_a_copy_from_its_own_host(site: Site):
    # Switches learn which host is active, but on that host the tunnel bridge does not.
    for kind, router in make_routers(site).items():
        router.activate("host1")
        router.await_reach()
        standby = frames_of(router.replicas["host2"], "eth0")
        for host in router.instances:
            expected = 0 if host == "host1" and kind != "vxlan" else 1
            wait_until(
                lambda router=router, host=host, expected=expected: (
                    frames_for_request(router, host) == expected
                ),
                f"{expected} frames from {host} for each request, {kind}",
            )
        assert frames_of(router.replicas["host2"], "eth0") == standby, kind


def frames_for_request(router: SharedRouter, host: str) -> int | None:
    """Send requests from *host*, each of which is answered once; return what left it for each.

    ``None``: one was lost, as on a machine that is too busy.
    """
    before = router.frames_sent(host)
    with listening(router.instances[host]) as (capture,):
        ping = router.instances[host].ping(router.port.v4, count=BURST, interval=0.005)
        if ping.lost:
            return None
        replies = [frame for frame in capture.received() if frame.is_echo_reply]
    assert len(replies) == BURST, host
    return round((router.frames_sent(host) - before) / BURST)
