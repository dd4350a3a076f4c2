"""Delegated prefixes from a real server to an instance: API, agents, client, advertisements."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.prefix_server import PrefixServer
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import RoutedCloud, is_reached, routed_cloud, stays_reached
from tests.system.l3.test_l3_ipv6 import preferred_addresses

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
FIRST, SECOND = "2001:db8:1000::/48", "2001:db8:2000::/48"
OUTSIDE6 = "2001:db8:ff::/64"
SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
LONG = 120.0
"""Seconds after which nothing more is expected of a busy machine."""


class DelegatedSite:
    """A router with a delegated subnet, an instance behind it, and a provider outside."""

    def __init__(self, routed: RoutedCloud, directory: Path) -> None:
        self.routed, self.network = routed, routed.network
        network = self.network
        self.outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
        network.create_subnet(network_id=self.outside.id, cidr=OUTSIDE6, ip_version=6)
        blue = network.create_network(name="blue")
        self.subnet = network.create_subnet(
            network_id=blue.id, ip_version=6, subnet_pool_id="prefix_delegation", **SLAAC
        )
        self.router = network.create_router(
            name="edge", external_gateway_info={"network_id": self.outside.id}
        )
        network.add_interface_to_router(self.router, subnet=self.subnet.id)
        host = routed.hosts[0]
        self.port = network.create_port(
            network_id=blue.id, name="vm", binding_host_id=host.host.name,
            port_security_enabled=False, security_groups=[],
        )  # fmt: skip
        self.vm = host.plug_port(self.port, "vm", addressed=False)
        self.vm.configure([])
        _, world = routed.boot("world", self.outside, "203.0.113.200")
        world.configure(["203.0.113.200/24"])
        self.server = PrefixServer(world, OUTSIDE6, directory)

    def prefix(self) -> IPv6Network:
        return IPv6Network(self.network.get_subnet(self.subnet.id).cidr)

    def address(self) -> str:
        (fixed,) = self.network.get_port(self.port.id).fixed_ips
        return str(fixed["ip_address"])

    def await_prefix(self, pool: str) -> None:
        """Wait until the subnet and the instance have addresses of *pool*."""
        wait_until(lambda: self.prefix().subnet_of(IPv6Network(pool)), self.log, seconds=LONG)
        wait_until(
            lambda: preferred_addresses(self.vm) == {self.address()},
            lambda: f"{preferred_addresses(self.vm)}, not {self.address()}",
            seconds=LONG,
        )
        gateway = self.network.get_subnet(self.subnet.id).gateway_ip
        wait_until(lambda: is_reached(self.vm, gateway), seconds=LONG)

    def clients(self) -> list[int]:
        """Return the pids of the clients of the router."""
        host = self.routed.hosts[1].host
        found = host.attempt(["pgrep", "-f", f"^[^ ]*dhclient .*{self.router.id}"]).output
        return [int(pid) for pid in found.split()]

    def log(self) -> str:
        return self.routed.l3.log.read_text()[-4000:]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[DelegatedSite]:
    sandbox.require()
    with routed_cloud() as routed:
        made = DelegatedSite(routed, tmp_path)
        made.server.start(FIRST)
        try:
            yield made
        finally:
            made.server.stop()


@pytest.mark.spec("L3-27", "L3-32", "L3-33", "L3-34")
def test_an_instance_has_an_address_of_the_prefix_that_is_delegated(site: DelegatedSite) -> None:
    site.await_prefix(FIRST)
    _check_kills(site)
    site.server.start(SECOND)
    site.await_prefix(SECOND)
    site.network.update_router(site.router, external_gateway_info={})
    wait_until(lambda: site.prefix() == IPv6Network("::/64"), seconds=LONG)
    wait_until(lambda: not site.clients(), seconds=LONG)
    wait_until(lambda: not preferred_addresses(site.vm), seconds=LONG)


def _check_kills(site: DelegatedSite) -> None:
    """Check that the prefix survives kills of the agent and of the client."""
    before: Any = site.network.get_subnet(site.subnet.id)
    (client,) = site.clients()
    vm: Instance = site.vm
    site.routed.l3.kill()
    os.kill(client, signal.SIGKILL)
    assert stays_reached(vm, before.gateway_ip)
    site.routed.l3.start()
    wait_until(lambda: site.clients() not in ([], [client]), site.log, seconds=LONG)
    assert site.network.get_subnet(site.subnet.id).cidr == before.cidr
    assert stays_reached(vm, before.gateway_ip)
