"""How a network is served from this host, beside what dnsmasq is told.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from netfw.drivers.dhcp import DhcpLocation, DhcpNetwork, ServerPort
from netfw.errors import InvalidInput
from netfw.linux.process.program import OnDeath, Program
from netfw.linux.service_netns.values import ServiceNetns
from netfw.model.device_names import dhcp_namespace
from netfw.model.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import NetworkText, render_network
from netfw_drivers.dnsmasq.config.settings import Settings

ADDRESSES = "NETFW_ADDRESSES"
"""Environment variable of the process: what it listens at, which its command line does not say."""


@frozen
class ServiceSpec:
    """What is written for a network, and what runs."""

    text: NetworkText
    program: Program


@frozen(kw_only=True)
class DriverContext:
    """What the driver was given: settings, names of devices, and what follows a death."""

    settings: Settings
    device_name: Callable[[PortId], str]
    on_death: OnDeath = OnDeath.RESPAWN

    def files(self, network: NetworkId) -> NetworkPaths:
        return NetworkPaths(self.settings.confs, network)

    def place(self, network: NetworkId, server: ServerPort) -> DhcpLocation:
        return DhcpLocation(netns=dhcp_namespace(network), device=self.device_name(server.id))

    def station(self, id: NetworkId, network: DhcpNetwork) -> ServiceNetns:
        """Where the network is served from.

        :raises InvalidInput: no machine can have it so.
        """
        place = self.place(id, network.server)
        try:
            return ServiceNetns(
                netns=place.netns,
                port=network.server.id,
                device=place.device,
                mac=network.server.mac,
                mtu=network.mtu,
                addresses=network.addresses,
                gateways=network.gateways,
                fill_checksums=True,
            )
        except ValueError as error:
            raise InvalidInput({"server": str(error)}) from error

    def recipe(self, id: NetworkId, network: DhcpNetwork) -> ServiceSpec:
        """How the network is served; another address of the server needs another process, too.

        :raises InvalidInput: dnsmasq cannot be told so.
        """
        place = self.place(id, network.server)
        text = render_network(id, network, place, self.settings)
        addresses = " ".join(map(str, network.server.addresses))
        program = Program(
            argv=text.argv,
            namespace=place.netns,
            environment={ADDRESSES: addresses},
            pid_file=self.files(id).pid,
            on_death=self.on_death,
        )
        return ServiceSpec(text, program)
