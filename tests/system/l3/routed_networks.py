"""Networks of both IP versions behind a router and outside, and machines on them.

Networks are VLANs, since userspace tunnels lose packets whenever a device appears on a host.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from attrs import frozen

from netfw.cli.demo.agents import PHYSICAL
from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.instance import Instance

WORLD4, WORLD6 = "203.0.113.200", "2001:db8:ff::200"
VLAN_OPTIONS: dict[str, dict[str, object]] = {
    "vlan": {"network_vlan_ranges": f"{PHYSICAL}:100:199"}
}


@frozen(kw_only=True)
class Guest:
    """An instance with its port of the API."""

    port: Any
    instance: Instance

    def address(self, version: int) -> str:
        """Return the address of the port in that IP version."""
        found = (str(each["ip_address"]) for each in self.port.fixed_ips)
        return next(each for each in found if ip_address(each).version == version)


@frozen(kw_only=True)
class Segment:
    """A network with a subnet per IP version."""

    network: Any
    v4: Any
    v6: Any


class RoutedNetworks:
    """Makes networks, subnets, ports and their instances by the API."""

    network: Any
    """The client of the network API."""

    def segment(self, name: str, number: int) -> Segment:
        """Create a network of a project."""
        network = self._make_network(name)
        slaac = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        return Segment(
            network=network,
            v4=self._make_subnet(network, f"10.0.{number}.0/24"),
            v6=self._make_subnet(network, f"fd00:{number:x}::/64", **slaac),
        )

    def connect(self, router: Any, segment: Segment) -> None:
        """Add interfaces on both subnets to a router."""
        for subnet in (segment.v4, segment.v6):
            self.network.add_interface_to_router(router, subnet=subnet.id)

    def disconnect(self, router: Any, segment: Segment) -> None:
        for subnet in (segment.v6, segment.v4):
            self.network.remove_interface_from_router(router, subnet=subnet.id)

    def guest(self, name: str, segment: Segment, host: ServedHost, **more: Any) -> Guest:
        """Create an instance with its addresses and routes, unfiltered unless *more* has groups."""
        unfiltered = {"port_security_enabled": False, "security_groups": []}
        port = self.network.create_port(
            network_id=segment.network.id, name=name, binding_host_id=host.host.name,
            device_id=f"vm-{name}", device_owner="compute:nova", **{**unfiltered, **more},
        )  # fmt: skip
        made = Guest(port=port, instance=host.plug_port(port, name, addressed=False))
        addresses = [f"{made.address(4)}/24", f"{made.address(6)}/64"]
        made.instance.configure(addresses, [segment.v4.gateway_ip, segment.v6.gateway_ip])
        return made

    def _make_network(self, name: str) -> Any:
        return self._make_vlan(name)

    def _make_vlan(self, name: str, **more: Any) -> Any:
        kind = {"provider_network_type": "vlan", "provider_physical_network": PHYSICAL}
        return self.network.create_network(name=name, **kind, **more)

    def _make_subnet(self, network: Any, cidr: str, **more: Any) -> Any:
        version = 6 if ":" in cidr else 4
        return self.network.create_subnet(
            network_id=network.id, cidr=cidr, ip_version=version, **more
        )

    def make_outside(self) -> Segment:
        """Create an external network."""
        network = self._make_external("outside")
        return Segment(
            network=network,
            v4=self._make_subnet(network, "203.0.113.0/24"),
            v6=self._make_subnet(network, "2001:db8:ff::/64"),
        )

    def _make_external(self, name: str) -> Any:
        return self._make_vlan(name, is_router_external=True)

    def make_world(self, router: Any, outside: Segment, host: ServedHost) -> Instance:
        """Create a machine on the external network with a route to networks behind *router*."""
        fixed_ips = [{"ip_address": WORLD4}, {"ip_address": WORLD6}]
        port = self.network.create_port(
            network_id=outside.network.id, name="world", fixed_ips=fixed_ips,
            binding_host_id=host.host.name, port_security_enabled=False, security_groups=[],
        )  # fmt: skip
        world = host.plug_port(port, "world", addressed=False)
        world.configure([f"{WORLD4}/24", f"{WORLD6}/64"])
        inside = self.network.get_router(router.id).external_gateway_info
        (gateway6,) = (
            each["ip_address"] for each in inside["external_fixed_ips"] if ":" in each["ip_address"]
        )
        world.namespaces.ip(f"route add fd00::/16 via {gateway6}")
        return world
