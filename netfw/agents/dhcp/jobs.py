"""Orders: what is to be done for one network, as values that a thread can take away.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_interface

from attrs import evolve, field, frozen

from netfw.agents.dhcp.metadata_proxy import ProxySpec
from netfw.drivers.agent_requests import EnsureDhcpPort
from netfw.drivers.dhcp import DhcpKey, DhcpNetwork, DhcpPort, ServerPort
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.model.address import IpInterface
from netfw.model.dhcp_option import DhcpOption
from netfw.model.ids import NetworkId
from netfw.model.port import FixedIp, Port
from netfw.model.subnet import Subnet


@frozen(kw_only=True)
class NetworkSpec:
    """A network that is to be served here, but for the port that it is served from."""

    request: EnsureDhcpPort
    """What to ask the source for, where *own* is not there."""
    own: ServerPort | None = None
    """The answer, as far as the source has given it by itself."""
    subnets: tuple[Subnet, ...]
    mtu: int
    dns_domain: str = ""
    options: tuple[DhcpOption, ...] = ()
    peers: tuple[IpInterface, ...] = ()
    gateways: bool = False
    """Serve from the gateways' addresses."""
    proxying: ProxySpec | None = None

    @property
    def served(self) -> tuple[Subnet, ...]:
        """The subnets with DHCP."""
        return tuple(subnet for subnet in self.subnets if subnet.enable_dhcp)

    def server(self, port: Port) -> ServerPort:
        """*port* as the network is served from it."""
        return ServerPort(id=port.id, mac=port.mac, addresses=self._addresses(port))

    def value(self, server: ServerPort) -> DhcpNetwork:
        """The network as it is served from *server*."""
        return DhcpNetwork(
            server=server,
            subnets=self.subnets,
            mtu=self.mtu,
            dns_domain=self.dns_domain,
            options=self.options,
            peers=self.peers,
            metadata_for=frozenset() if self.proxying is None else self.proxying.subnets,
        )

    def _addresses(self, port: Port) -> tuple[IpInterface, ...]:
        if not self.gateways:
            return on_subnets(port.fixed_ips, self.served)
        return tuple(
            ip_interface(f"{subnet.gateway}/{subnet.cidr.prefixlen}")
            for subnet in self.served
            if subnet.gateway is not None
        )


@frozen
class RemoveNetwork:
    """A network that is not to be served here."""


@frozen(kw_only=True)
class Job:
    """What is to be done for one network: a part of it, or all."""

    network: NetworkId
    wish: NetworkSpec | RemoveNetwork | None = None
    """``None``: the network itself is not in question."""
    put: Mapping[PortKey, DhcpPort] = field(factory=dict)
    drop: frozenset[PortKey] = frozenset()
    serials: Mapping[DhcpKey, int] = field(factory=dict)
    """Which order of its agent each key is from."""

    def __iter__(self) -> Iterator[DhcpKey]:
        """The keys in question."""
        if self.wish is not None:
            yield NetworkKey(self.network)
        yield from self.put
        yield from self.drop

    def then(self, newer: Job) -> Job:
        """Both at once: what *newer* says, and what it does not speak of."""
        put = {key: value for key, value in self.put.items() if key not in newer.drop}
        return evolve(
            newer,
            wish=self.wish if newer.wish is None else newer.wish,
            put={**put, **newer.put},
            drop=(self.drop - newer.put.keys()) | newer.drop,
            serials={**self.serials, **newer.serials},
        )


def on_subnets(fixed_ips: Iterable[FixedIp], subnets: Iterable[Subnet]) -> tuple[IpInterface, ...]:
    """The addresses that are on *subnets*, with their prefixes."""
    lengths = {subnet.id: subnet.cidr.prefixlen for subnet in subnets}
    return tuple(
        ip_interface(f"{fixed.address}/{lengths[fixed.subnet_id]}")
        for fixed in fixed_ips
        if fixed.subnet_id in lengths
    )
