"""A distributed router on three hosts: two compute hosts, and one with its central part.

The external network is a VLAN or flat; the networks of the router are VLANs or VXLANs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netfw.cli.demo.agents import PHYSICAL
from netfw.cli.demo.server import Cloud, ServedHost, make_cloud
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.captures import Capture, TunnelCapture
from tests.system.l3.environment import is_reached, prefer_switch, running
from tests.system.l3.routed_networks import VLAN_OPTIONS, WORLD4, Guest, RoutedNetworks, Segment

PORT = 9700
"""The port of the API: other sites have others."""
Targets = dict[str, tuple[Instance, str]]


class DistributedSite(RoutedNetworks):
    """The router *spread* between two networks, with machines on the compute hosts."""

    def __init__(self, cloud: Cloud, network_type: str, external_type: str) -> None:
        self.cloud, self.network, self.hosts = cloud, cloud.network, cloud.hosts
        self.network_type, self.external_type = network_type, external_type
        self.first, self.second, self.central = cloud.hosts
        for each in self.hosts:
            each.agent.options["agent"] |= {"report_interval": 1, "l2_population": True}
            each.agent.options["agent"]["enable_distributed_routing"] = True
            mode = "dvr_snat" if each is self.central else "dvr"
            options = {"report_interval": 1, "retry_interval": 0.1, "agent_mode": mode}
            each.l3.options["agent"] |= {"audit_interval": 86400, **options}
            each.l3.options["linux"] = {"ha_vrrp_advert_int": 1}

    @property
    def agents(self) -> tuple[PrivateAgent, ...]:
        return tuple(a for each in self.hosts for a in (each.agent, each.metadata, each.l3))

    def build(self) -> None:
        """Make networks, router, machines and a floating IP, and wait until all is reached."""
        network = self.network
        self.blue, self.green = self.segment("blue", 1), self.segment("green", 2)
        self.outside = self.make_outside()
        gateway = {"network_id": self.outside.network.id}
        self.router = network.create_router(
            name="spread", is_distributed=True, external_gateway_info=gateway
        )
        self.connect(self.router, self.blue)
        self.connect(self.router, self.green)
        self.blue1 = self.guest("blue1", self.blue, self.first)
        self.blue2 = self.guest("blue2", self.blue, self.second)
        self.green1 = self.guest("green1", self.green, self.first)
        self.green2 = self.guest("green2", self.green, self.second)
        self.world = self.make_world(self.router, self.outside, self.first)
        self.floating_ip = self.make_floating_ip(self.green2)
        self.await_reached({**self.east_west(), **self.north_south()})

    def _make_network(self, name: str) -> Any:
        if self.network_type == "vlan":
            return super()._make_network(name)
        return self.network.create_network(name=name, provider_network_type=self.network_type)

    def _make_external(self, name: str) -> Any:
        if self.external_type == "vlan":
            return super()._make_external(name)
        return self.network.create_network(
            name=name, is_router_external=True, provider_network_type=self.external_type,
            provider_physical_network=PHYSICAL,
        )  # fmt: skip

    def second_outside(self) -> Segment:
        """Create one more external network, a VLAN."""
        network = self._make_vlan("beyond", is_router_external=True)
        return Segment(
            network=network,
            v4=self._make_subnet(network, "198.51.100.0/24"),
            v6=self._make_subnet(network, "2001:db8:fe::/64"),
        )

    def make_floating_ip(self, guest: Guest, outside: Segment | None = None) -> Any:
        """Create a floating IP, and wait until it is ACTIVE."""
        network = (outside or self.outside).network
        made = self.network.create_ip(floating_network_id=network.id, port_id=guest.port.id)
        wait_until(lambda: self.network.get_ip(made.id).status == "ACTIVE")
        return made

    def east_west(self) -> Targets:
        """Return the flows between the networks, within a host and between two."""
        pairs = {
            "same host": (self.blue1, self.green1),
            "other host": (self.blue1, self.green2),
            "back": (self.green1, self.blue2),
        }
        return {
            f"{name} IPv{version}": (sender.instance, receiver.address(version))
            for name, (sender, receiver) in pairs.items()
            for version in (4, 6)
        }

    def north_south(self) -> Targets:
        """Return the flows between a network and the world, by the central part and by the host."""
        return {
            "SNAT": (self.blue1.instance, WORLD4),
            "gateway IPv6": (self.world, self.blue1.address(6)),
            **self.by_floating_ip(),
        }

    def by_floating_ip(self) -> Targets:
        """Return the flows by the floating IP, in and out."""
        return {
            "floating IP in": (self.world, str(self.floating_ip.floating_ip_address)),
            "floating IP out": (self.green2.instance, WORLD4),
        }

    def await_reached(self, targets: Targets) -> None:
        """Wait until every flow passes."""
        for name, (instance, address) in targets.items():
            wait_until(lambda i=instance, a=address: is_reached(i, a), name)

    def interface_macs(self, router: Any = None) -> set[str]:
        """Return the MAC addresses of the interfaces of a router."""
        owner = "network:router_interface_distributed"
        ports = self.network.ports(device_id=(router or self.router).id, device_owner=owner)
        return {str(port.mac_address) for port in ports}

    def routing_mac(self, host: ServedHost) -> str:
        """Return the MAC address that routed frames of a host carry."""
        agents = self.network.agents(host=host.host.name, agent_type="Open vSwitch agent")
        (agent,) = agents
        return str(agent.configuration["routing_mac"])

    @contextmanager
    def wire(self, host: ServedHost) -> Iterator[Capture]:
        """Capture what a host sends by the networks of the router, also inside tunnels."""
        lab, name = self.cloud.lab, host.host.name
        capture = (
            TunnelCapture(lab.fabric.namespaces, name)
            if self.network_type == "vxlan"
            else Capture(lab.provider[PHYSICAL].namespaces, name)
        )
        try:
            yield capture
        finally:
            capture.close()


@contextmanager
def distributed_site(
    network_type: str, options: Groups | None = None, *, external_type: str = "vlan"
) -> Iterator[DistributedSite]:
    """Run a server with more *options*, three hosts and the router on networks of a type."""
    flat: Groups = {"flat": {"flat_networks": PHYSICAL}}
    with make_cloud({**VLAN_OPTIONS, **flat, **(options or {})}, hosts=3, port=PORT) as cloud:
        cloud.server.start()
        site = DistributedSite(cloud, network_type, external_type)
        for each in site.hosts:
            prefer_switch(each.host)
            each.service.start()
        with running(*site.agents):
            wait_until(lambda: len(list(site.network.agents(agent_type="L3 agent"))) == 3)
            site.build()
            yield site
        assert "Traceback" not in cloud.server.log.read_text()
