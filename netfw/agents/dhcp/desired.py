"""Desired: what this host should serve, worked out from what the source says.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from attrs import evolve, field, frozen

from netfw.agents.dhcp.jobs import NetworkSpec, on_subnets
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy, proxying
from netfw.agents.dhcp.resource_index import DhcpResourceIndex, is_special
from netfw.drivers.agent_requests import EnsureDhcpPort
from netfw.drivers.dhcp import DhcpKey, DhcpPort, ServerPort
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.model.address import IpInterface
from netfw.model.device_owner import is_dhcp
from netfw.model.ids import NetworkId, PortId
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.subnet import Subnet
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE


@frozen(kw_only=True)
class DhcpHostContext:
    """From where the wanted state is looked at."""

    host: str
    gateways: bool = False
    """The host's fabric routes: serve from the gateways' addresses."""
    metadata: MetadataPolicy = field(factory=MetadataPolicy)


class Desired:
    """What is wanted of each key.  One port more costs one port, however many there are.

    Served are networks that are up and have a subnet with DHCP.  Every port with an address on
    such a network is: whoever has one may ask for it, or for its name.  The DHCP servers' own are
    not.  *answers* are the servers' ports that were asked for: when the source comes to speak of
    one by itself, nothing else is wanted than before.
    """

    def __init__(
        self, view: DhcpHostContext, answers: Mapping[NetworkId, ServerPort] = MappingProxyType({})
    ) -> None:
        self._view = view
        self._answers = answers
        self._book = DhcpResourceIndex()
        self._wishes: dict[NetworkId, NetworkSpec] = {}
        self._ports: dict[PortId, DhcpPort] = {}
        self._changed: set[DhcpKey] = set()
        self._touched: set[PortId] = set()

    def learn(self, put: Iterable[Resource] = (), drop: Iterable[Ref] = ()) -> None:
        """Take over what the source says."""
        ports: set[PortId] = set()
        networks: set[NetworkId] = set()
        for key, resource in [*((key, None) for key in drop), *((ref(r), r) for r in put)]:
            where = {self._book.network_of(key)}
            former = self._book.put(key, resource)
            where.add(self._book.network_of(key))
            if key.kind is Kind.PORT:
                ports.add(PortId(key.id))
            if key.kind is not Kind.PORT or any(map(_is_special, (former, resource))):
                networks.update(network for network in where if network is not None)
        for network in networks:
            ports |= self._redo_network(network)
        for port in ports:
            self._redo_port(port)

    def take_changed(self) -> frozenset[DhcpKey]:
        """The keys of which something else is wanted since this was last asked."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def take_touched(self) -> frozenset[PortId]:
        """The ports of which anything changed since this was last asked, such as the revision."""
        touched, self._touched = frozenset(self._touched), set()
        return touched

    @property
    def networks(self) -> Mapping[NetworkId, NetworkSpec]:
        """The networks that are to be served."""
        return self._wishes

    @property
    def ports(self) -> Mapping[PortId, DhcpPort]:
        """The ports that are to be served."""
        return self._ports

    def all_keys(self) -> frozenset[DhcpKey]:
        """All that is wanted."""
        return frozenset([*map(NetworkKey, self._wishes), *map(PortKey, self._ports)])

    def port(self, id: PortId) -> Port | None:
        """A port, served or not."""
        return self._book.port(id)

    def ports_of(self, network: NetworkId) -> Set[PortId]:
        """The ports of a network, served or not."""
        return self._book.ports(network)

    def _redo_network(self, id: NetworkId) -> Set[PortId]:
        """Think again about a network; the ports that have to be thought about with it."""
        wish, former = self._wish(id), self._wishes.pop(id, None)
        if wish is not None:
            self._wishes[id] = wish
        if wish == former or self._is_answer(wish, former):
            return frozenset()
        self._changed.add(NetworkKey(id))
        toggled = (wish is None) != (former is None)
        return self._book.ports(id) if toggled else frozenset()

    def _is_answer(self, wish: NetworkSpec | None, former: NetworkSpec | None) -> bool:
        """Whether all that is new is that the source speaks of a port that it was asked for."""
        if wish is None or former is None or wish.own is None or former.own is not None:
            return False
        asked = self._answers.get(wish.request.network)
        return wish.own == asked and evolve(former, own=asked) == wish

    def _redo_port(self, id: PortId) -> None:
        self._touched.add(id)
        port, former = self._book.port(id), self._ports.pop(id, None)
        value = None
        if port is not None and port.network_id in self._wishes:
            value = dhcp_port(port)
        if value is not None:
            self._ports[id] = value
        if value != former:
            self._changed.add(PortKey(id))

    def _wish(self, id: NetworkId) -> NetworkSpec | None:
        network, subnets = self._book.network(id), self._book.subnets(id)
        served = [subnet for subnet in subnets if subnet.enable_dhcp]
        if network is None or not network.admin_up or not served:
            return None
        special = self._book.special_ports(id)
        needed = () if self._view.gateways else (subnet.id for subnet in served)
        request = EnsureDhcpPort(network=id, host=self._view.host, subnets=frozenset(needed))
        own = next((port for port in special if _answers(port, request)), None)
        wish = NetworkSpec(
            request=request,
            subnets=subnets,
            mtu=network.mtu,
            dns_domain=network.dns_domain,
            options=network.dhcp_options,
            peers=_peers(special, self._view.host, served),
            gateways=self._view.gateways,
            proxying=proxying(id, subnets, special, self._view.metadata),
        )
        return wish if own is None else evolve(wish, own=wish.server(own))


def _is_special(resource: Resource | None) -> bool:
    """Whether the service of its whole network depends on a port: DHCP servers and routers."""
    return isinstance(resource, Port) and is_special(resource)


def dhcp_port(port: Port) -> DhcpPort | None:
    """What is served to *port*; ``None``: it has no address, or is a DHCP server's own."""
    if not port.fixed_ips or is_dhcp(port.device_owner):
        return None
    hostname, domain = _name(port)
    return DhcpPort(
        network=port.network_id,
        mac=port.mac,
        fixed_ips=port.fixed_ips,
        hostname=hostname,
        domain=domain,
        options=port.dhcp_options,
    )


def _name(port: Port) -> tuple[str, str]:
    """Host name that all addresses of a port share, and a domain of its own; empty: none.

    The domain of an assigned name is not looked at: where the port says none itself, it is its
    network's, or what the source takes where neither says any.  The driver has its own word for
    that, and were it another one, every port would be served options of its own.  A source that
    assigns no names, such as a file, may say how a port is called all the same.
    """
    hostnames = {each.hostname for each in port.dns_assignment} or {port.dns_name}
    return hostnames.pop() if len(hostnames) == 1 else "", port.dns_domain


def _answers(port: Port, request: EnsureDhcpPort) -> bool:
    """Whether asking would give *port* as it is."""
    return (
        _serves(port)
        and port.binding.host == request.host
        and {fixed.subnet_id for fixed in port.fixed_ips} == request.subnets
    )


def _peers(ports: Iterable[Port], host: str, subnets: Iterable[Subnet]) -> tuple[IpInterface, ...]:
    """Where other hosts serve the network."""
    served = tuple(subnets)
    return tuple(
        address
        for port in ports
        if _serves(port) and port.binding.host != host
        for address in on_subnets(port.fixed_ips, served)
    )


def _serves(port: Port) -> bool:
    return is_dhcp(port.device_owner) and port.device_id != RESERVED_DHCP_DEVICE
