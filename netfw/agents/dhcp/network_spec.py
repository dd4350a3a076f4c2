"""The desired service of a network, as a value for a worker thread.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_interface

from attrs import frozen

from netfw.agents.common.jobs.jobs import Job
from netfw.agents.dhcp.metadata_proxy import ProxySpec
from netfw.drivers.dhcp import DhcpKey, DhcpNetwork, DhcpPort, ServerPort
from netfw.drivers.values.agent_requests import EnsureDhcpPort
from netfw.model.port import FixedIp, Port
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpInterface
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import NetworkId


@frozen(kw_only=True)
class NetworkSpec:
    """The desired service of a network, without the port that it is served from."""

    request: EnsureDhcpPort
    """The request for a server port, sent to the source unless *own* is set."""
    own: ServerPort | None = None
    """The server port, if the source published it already."""
    subnets: tuple[Subnet, ...]
    mtu: int
    dns_domain: str = ""
    options: tuple[DhcpOption, ...] = ()
    peers: tuple[IpInterface, ...] = ()
    gateways: bool = False
    """Serve from the gateways' addresses."""
    proxy: ProxySpec | None = None

    @property
    def served(self) -> tuple[Subnet, ...]:
        """The subnets with DHCP."""
        return tuple(subnet for subnet in self.subnets if subnet.enable_dhcp)

    def server(self, port: Port) -> ServerPort:
        """Return the server port of the network, made from *port*."""
        return ServerPort(id=port.id, mac=port.mac, addresses=self._addresses(port))

    def value(self, server: ServerPort) -> DhcpNetwork:
        """Return the driver's value of the network, served from *server*."""
        return DhcpNetwork(
            server=server,
            subnets=self.subnets,
            mtu=self.mtu,
            dns_domain=self.dns_domain,
            options=self.options,
            peers=self.peers,
            metadata_for=frozenset() if self.proxy is None else self.proxy.subnets,
        )

    def _addresses(self, port: Port) -> tuple[IpInterface, ...]:
        if not self.gateways:
            return on_subnets(port.fixed_ips, self.served)
        return tuple(
            ip_interface(f"{subnet.gateway}/{subnet.cidr.prefixlen}")
            for subnet in self.served
            if subnet.gateway is not None
        )


DhcpJob = Job[NetworkId, DhcpKey, NetworkSpec | DhcpPort]
"""The changes of one network: the network itself, some of its ports, or both."""


def on_subnets(fixed_ips: Iterable[FixedIp], subnets: Iterable[Subnet]) -> tuple[IpInterface, ...]:
    """Return the addresses on *subnets*, with their prefix lengths."""
    lengths = {subnet.id: subnet.cidr.prefixlen for subnet in subnets}
    return tuple(
        ip_interface(f"{fixed.address}/{lengths[fixed.subnet_id]}")
        for fixed in fixed_ips
        if fixed.subnet_id in lengths
    )
