"""How a network is served from this host, beside what dnsmasq is told.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_interface

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPlace, ServerPort
from netfw.errors import InvalidInput
from netfw.linux.process.program import OnDeath, Program
from netfw.linux.station.values import Station
from netfw.model.address import IpAddress, IpInterface
from netfw.model.device import dhcp_namespace
from netfw.model.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.files import Files
from netfw_drivers.dnsmasq.rendering import NetworkText
from netfw_drivers.dnsmasq.settings import Settings

METADATA = {4: ip_interface("169.254.169.254/32"), 6: ip_interface("fe80::a9fe:a9fe/128")}
ADDRESSES = "NETFW_ADDRESSES"
"""Environment variable of the process: what it listens at, which its command line does not say."""


@frozen(kw_only=True)
class Terms:
    """What the driver was given: settings, names of devices, and what follows a death."""

    settings: Settings
    device_name: Callable[[PortId], str]
    on_death: OnDeath = OnDeath.RESPAWN

    def files(self, network: NetworkId) -> Files:
        return Files(self.settings.confs, network)

    def place(self, network: NetworkId, server: ServerPort) -> DhcpPlace:
        return DhcpPlace(netns=dhcp_namespace(network), device=self.device_name(server.id))

    def station(self, id: NetworkId, network: DhcpNetwork) -> Station:
        """Where the network is served from.

        :raises InvalidInput: no machine can have it so.
        """
        place = self.place(id, network.server)
        try:
            return Station(
                netns=place.netns,
                port=network.server.id,
                device=place.device,
                mac=network.server.mac,
                mtu=network.mtu,
                addresses=(*network.server.addresses, *_metadata(network)),
                gateways=tuple(_gateways(network)),
                fill_checksums=True,
            )
        except ValueError as error:
            raise InvalidInput({"server": str(error)}) from error

    def program(self, id: NetworkId, network: DhcpNetwork, text: NetworkText) -> Program:
        """What runs; another address of the server needs another process, too."""
        addresses = " ".join(map(str, network.server.addresses))
        return Program(
            argv=text.argv,
            namespace=dhcp_namespace(id),
            environment={ADDRESSES: addresses},
            pid_file=self.files(id).pid,
            on_death=self.on_death,
        )


def _metadata(network: DhcpNetwork) -> Iterator[IpInterface]:
    """The metadata service's own addresses, of the families that the network has."""
    if network.metadata_for:
        families = {4, *(subnet.ip_version for subnet in network.subnets)}
        yield from (METADATA[family] for family in sorted(families))


def _gateways(network: DhcpNetwork) -> Iterator[IpAddress]:
    """Of each family the gateway of the first subnet that is served and has one."""
    for family in (4, 6):
        served = (s for s in network.subnets if s.enable_dhcp and s.ip_version == family)
        yield from [subnet.gateway for subnet in served if subnet.gateway is not None][:1]
