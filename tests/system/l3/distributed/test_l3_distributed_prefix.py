"""Prefixes that a provider delegates to the central part of a distributed router."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import pytest

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.services.prefix_server import PrefixServer
from netfw.testing.lab.wait import wait_until
from tests.system.l3.distributed.site import DistributedSite
from tests.system.l3.environment import is_reached
from tests.system.l3.routed_networks import WORLD6
from tests.system.l3.test_l3_ipv6 import preferred_addresses

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.parametrize("site", ["vlan"], indirect=True),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
FIRST, SECOND = IPv6Network("2001:db8:1000::/48"), IPv6Network("2001:db8:2000::/48")
PROVISIONAL = IPv6Network("::/64")
LONG = 120.0
"""Seconds after which nothing more is expected of a busy machine."""


class DelegatedSpread:
    """A distributed router with a delegated subnet, and an instance on each compute host."""

    def __init__(self, site: DistributedSite, directory: Path, **router: Any) -> None:
        self.site, self.network = site, site.network
        blue = site.network.create_network(name="delegated")
        slaac = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        self.subnet = site.network.create_subnet(
            network_id=blue.id, ip_version=6, subnet_pool_id="prefix_delegation", **slaac
        )
        self.router = site.network.create_router(
            name="delegated", is_distributed=True,
            external_gateway_info={"network_id": site.outside.network.id}, **router,
        )  # fmt: skip
        site.network.add_interface_to_router(self.router, subnet=self.subnet.id)
        self.guests = [self._boot(blue, host) for host in (site.first, site.second)]
        self.server = PrefixServer(site.world, str(site.outside.v6.cidr), directory)
        self._route_back()

    def _boot(self, network: Any, host: ServedHost) -> tuple[Any, Instance]:
        name = f"slaac-{host.host.name}"
        port = self.network.create_port(
            network_id=network.id, name=name, binding_host_id=host.host.name,
            device_id=name, device_owner="compute:nova",
            port_security_enabled=False, security_groups=[],
        )  # fmt: skip
        instance = host.plug_port(port, name, addressed=False)
        instance.configure([])
        return port, instance

    def _route_back(self) -> None:
        """Have the world route what the provider delegates to the router."""
        gateway = self.network.get_router(self.router.id).external_gateway_info
        addresses = (each["ip_address"] for each in gateway["external_fixed_ips"])
        (gateway6,) = (each for each in addresses if ":" in each)
        for pool in (FIRST, SECOND):
            self.site.world.namespaces.ip(f"route add {pool} via {gateway6}")

    def prefix(self) -> IPv6Network:
        return IPv6Network(self.network.get_subnet(self.subnet.id).cidr)

    def address(self, port: Any) -> str:
        (fixed,) = self.network.get_port(port.id).fixed_ips
        return str(fixed["ip_address"])

    def await_prefix(self, pool: IPv6Network) -> None:
        """Wait until subnet and instances have addresses of *pool*, and reach the world."""
        wait_until(lambda: self.prefix().subnet_of(pool), self.log, seconds=LONG)
        for port, instance in self.guests:
            wait_until(
                lambda p=port, i=instance: preferred_addresses(i) == {self.address(p)},
                lambda p=port, i=instance: f"{preferred_addresses(i)}, not {self.address(p)}",
                seconds=LONG,
            )
        self.await_reached()

    def await_reached(self) -> None:
        for _, instance in self.guests:
            wait_until(lambda i=instance: is_reached(i, WORLD6), self.log, seconds=LONG)
        (port, _), (_, other) = self.guests
        wait_until(lambda: is_reached(other, self.address(port)), seconds=LONG)

    def clients(self, host: ServedHost) -> list[int]:
        """Return the pids of the clients of the router on a host."""
        pattern = f"^[^ ]*dhclient .*{host.l3.directory}.*{self.router.id}"
        return [int(pid) for pid in host.host.attempt(["pgrep", "-f", pattern]).output.split()]

    def log(self) -> str:
        """Return what agent, clients and provider say, and the addresses of the clients."""
        central = self.site.central
        namespaces = central.host.run(["ip", "netns", "list"]).split()
        (namespace,) = (each for each in namespaces if each == f"snat-{self.router.id}")
        clients = [each.read_text() for each in central.l3.directory.rglob("dhclient/*.log")]
        addresses = central.host.run(["ip", "-n", namespace, "-6", "address"])
        agent = central.l3.log.read_text()[-3000:]
        return "\n".join([agent, *clients, str(self.clients(central)), addresses, self.server.log])

    def remove(self) -> None:
        """Remove all of it, by the API."""
        self.server.stop()
        for (port, _), host in zip(self.guests, (self.site.first, self.site.second), strict=True):
            self.network.delete_port(port.id)
            host.unplug_port(port)
        self.network.remove_interface_from_router(self.router, subnet=self.subnet.id)
        self.network.delete_router(self.router)
        self.network.delete_network(self.subnet.network_id)
        for pool in (FIRST, SECOND):
            self.site.world.namespaces.ip(f"route del {pool}")


@pytest.fixture
def spread(site: DistributedSite, tmp_path: Path) -> Iterator[DelegatedSpread]:
    made = DelegatedSpread(site, tmp_path)
    made.server.start(str(FIRST))
    try:
        yield made
    finally:
        made.remove()


@pytest.mark.spec("L3-27", "L3-32", "L3-33", "L3-63")
def test_instances_of_other_hosts_have_addresses_of_the_prefix_of_the_central_part(
    spread: DelegatedSpread,
) -> None:
    site = spread.site
    spread.await_prefix(FIRST)
    assert [len(spread.clients(host)) for host in site.hosts] == [0, 0, 1]
    _check_restarts(spread)
    spread.server.start(str(SECOND))
    spread.await_prefix(SECOND)
    spread.network.update_router(spread.router, external_gateway_info={})
    wait_until(lambda: spread.prefix() == PROVISIONAL, seconds=LONG)
    wait_until(lambda: not spread.clients(site.central), seconds=LONG)
    for _, instance in spread.guests:
        wait_until(lambda i=instance: not preferred_addresses(i), seconds=LONG)


def _check_restarts(spread: DelegatedSpread) -> None:
    """Check that the prefix survives a restart of the central agent, and a kill of both."""
    agent, before = spread.site.central.l3, spread.prefix()
    (client,) = spread.clients(spread.site.central)
    agent.stop()
    spread.await_reached()
    agent.start()
    assert spread.clients(spread.site.central) == [client], "it is adopted"
    agent.kill()
    os.kill(client, signal.SIGKILL)
    spread.await_reached()
    agent.start()
    wait_until(
        lambda: spread.clients(spread.site.central) not in ([], [client]), spread.log, seconds=LONG
    )
    assert spread.prefix() == before
    spread.await_reached()
