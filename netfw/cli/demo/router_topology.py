"""The networks and machines around the routers of the demo."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from attrs import define

from netfw.cli.demo.agents import PHYSICAL, PHYSICAL_BRIDGE, becomes_true
from netfw.cli.demo.server import Cloud
from netfw.cli.demo.tcp import arrives
from netfw.testing.lab.instance import Instance, Plug

WEB = 80
WORLD = "203.0.113.1"
NAMES = ("amber", "violet")


@define
class RoutedSite:
    """Two networks with an instance each, a router, and a machine outside the cloud.

    All three machines listen at port 80.
    """

    cloud: Cloud
    router: Any
    world: Instance
    amber: Instance
    violet: Instance
    listeners: dict[str, socket.socket]

    @property
    def gateway(self) -> str:
        """The address of the router on the outside network."""
        fixed_ips = self.router.external_gateway_info["external_fixed_ips"]
        return str(fixed_ips[0]["ip_address"])

    def reaches(self, address: str, name: str) -> bool:
        """Return whether the world soon reaches instance *name* at *address*."""
        return becomes_true(lambda: arrives(self.world, address, self.listeners[name]))


def make_world(cloud: Cloud) -> Instance:
    """Plug a machine outside the cloud into the provider network, on the first host."""
    plug = Plug(bridge=PHYSICAL_BRIDGE, device="tap-world", addresses=[f"{WORLD}/24"])
    return cloud.hosts[0].host.instance("world", plug)


def make_outside(cloud: Cloud) -> Any:
    """Make the external network."""
    network, _ = _make_network(
        cloud,
        "outside",
        "203.0.113.0/24",
        is_router_external=True,
        provider_network_type="flat",
        provider_physical_network=PHYSICAL,
    )
    return network


def connect_instances(cloud: Cloud, router: Any, cidrs: Sequence[str]) -> list[Instance]:
    """Make a network for each of *cidrs* behind *router*, with an instance on a host of its own."""
    group = _make_group(cloud)
    instances = []
    for host, name, cidr in zip(cloud.hosts, NAMES, cidrs, strict=False):
        network, subnet = _make_network(cloud, name, cidr)
        cloud.network.add_interface_to_router(router, subnet_id=subnet.id)
        port = cloud.network.create_port(
            network_id=network.id,
            name=f"{name}1",
            binding_host_id=host.host.name,
            security_group_ids=[group.id],
        )
        instances.append(host.plug_port(port))
        instances[-1].configure([], [subnet.gateway_ip])
    return instances


def _make_network(cloud: Cloud, name: str, cidr: str, **more: Any) -> tuple[Any, Any]:
    """Make a network with a subnet, without DHCP."""
    network = cloud.network.create_network(name=name, **more)
    subnet = cloud.network.create_subnet(
        network_id=network.id, cidr=cidr, ip_version=4, is_dhcp_enabled=False
    )
    return network, subnet


def _make_group(cloud: Cloud) -> Any:
    """Make a security group that admits pings and connections to port 80."""
    group = cloud.network.create_security_group(name="site")
    tcp = {"protocol": "tcp", "port_range_min": WEB, "port_range_max": WEB}
    for rule in ({"protocol": "icmp"}, tcp):
        cloud.network.create_security_group_rule(
            security_group_id=group.id, direction="ingress", **rule
        )
    return group
