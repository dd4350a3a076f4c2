"""Namespace and process that serve a network.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from netfw.drivers.dhcp import DhcpLocation, DhcpNetwork, ServerPort
from netfw.errors import InvalidInput
from netfw.linux.process.supervised_program import OnDeath, Program
from netfw.linux.service_netns.values import ServiceNetns
from netfw.model.values.device_names import dhcp_namespace
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import NetworkText, render_network
from netfw_drivers.dnsmasq.config.settings import Settings

ADDRESSES = "NETFW_ADDRESSES"
"""Environment variable of the process: the addresses that it listens on, which its command line
lacks."""


@frozen
class ServiceSpec:
    """Text and program of a network."""

    text: NetworkText
    program: Program


@frozen(kw_only=True)
class DriverContext:
    """Settings, device names, and the action when a process dies."""

    settings: Settings
    device_name: Callable[[PortId], str]
    on_death: OnDeath = OnDeath.RESPAWN

    def files(self, network: NetworkId) -> NetworkPaths:
        return NetworkPaths(self.settings.confs, network)

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation:
        return DhcpLocation(netns=dhcp_namespace(network), device=self.device_name(server.id))

    def service_netns(self, id: NetworkId, network: DhcpNetwork) -> ServiceNetns:
        """Build the namespace that the network is served from.

        :raises InvalidInput: the namespace is impossible.
        """
        location = self.location(id, network.server)
        try:
            return ServiceNetns(
                netns=location.netns,
                port=network.server.id,
                device=location.device,
                mac=network.server.mac,
                mtu=network.mtu,
                addresses=network.addresses,
                gateways=network.gateways,
                fill_checksums=True,
            )
        except ValueError as error:
            raise InvalidInput({"server": str(error)}) from error

    def service_spec(self, id: NetworkId, network: DhcpNetwork) -> ServiceSpec:
        """Render the network; a changed server address changes the program, too.

        :raises InvalidInput: dnsmasq cannot express it.
        """
        location = self.location(id, network.server)
        text = render_network(id, network, location, self.settings)
        addresses = " ".join(map(str, network.server.addresses))
        program = Program(
            argv=text.argv,
            namespace=location.netns,
            environment={ADDRESSES: addresses},
            pid_file=self.files(id).pid,
            on_death=self.on_death,
        )
        return ServiceSpec(text, program)
