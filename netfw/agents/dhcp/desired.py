"""The desired DHCP service of this host, computed from the resources of the source.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import evolve, field, frozen

from netfw.agents.common.grouped_state import GroupedState
from netfw.agents.common.resource_index import ResourceChange
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy, plan_proxy
from netfw.agents.dhcp.network_spec import NetworkSpec, on_subnets
from netfw.agents.dhcp.port_names import (
    HostnameKey,
    hostname_keys,
    served_name,
    served_options,
    sole_project,
)
from netfw.agents.dhcp.resource_index import DhcpResourceIndex, is_service_port
from netfw.drivers.dhcp import DhcpKey, DhcpPort, ServerPort
from netfw.drivers.values.agent_requests import EnsureDhcpPort
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind
from netfw.model.subnet import PROVISIONAL_PREFIX, Subnet
from netfw.model.values.address import IpInterface
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE, is_dhcp
from netfw.model.values.ids import NetworkId, PortId
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE


@frozen(kw_only=True)
class DhcpHostContext:
    """The host and the settings that the desired state depends on."""

    host: str
    gateways: bool = False
    """The host's fabric routes: serve from the gateways' addresses."""
    metadata: MetadataPolicy = field(factory=MetadataPolicy)


class DesiredDhcp(GroupedState[NetworkId, DhcpKey, NetworkSpec | DhcpPort]):
    """The desired state of each key.  One more port costs one port, however many there are.

    A network is served if it is up and has a subnet with DHCP, and so is every port with an
    address on it, except the ports of DHCP servers.  *answers* holds the server ports that the
    source returned on request: when the source publishes such a port later, nothing changes.
    """

    def __init__(
        self,
        view: DhcpHostContext,
        index: DhcpResourceIndex,
        answers: Mapping[NetworkId, ServerPort] = MappingProxyType({}),
    ) -> None:
        self._view = view
        self._index = index
        self._answers = answers
        self._specs: dict[NetworkId, NetworkSpec] = {}
        self._ports: dict[PortId, DhcpPort] = {}
        self._name_projects: dict[HostnameKey, str | None] = {}
        self._changed: set[DhcpKey] = set()
        self._touched: set[DhcpKey] = set()

    def apply(self, changes: Iterable[ResourceChange]) -> None:
        ports: set[PortId] = set()
        networks: set[NetworkId] = set()
        names: set[HostnameKey] = set()
        for change in changes:
            if change.key.kind is Kind.PORT:
                ports.add(PortId(change.key.id))
            for resource in (change.before, change.after):
                if isinstance(resource, Port):
                    names.update(hostname_keys(resource))
                match resource:
                    case Network():
                        networks.add(resource.id)
                    case Subnet():
                        networks.add(resource.network_id)
                    case Port() if is_service_port(resource):
                        networks.add(resource.network_id)
        for network in networks:
            ports.update(self._update_network(network))
        for name in names:
            ports.update(self._update_name(name))
        for port in ports:
            self._update_port(port)

    def take_changed(self) -> frozenset[DhcpKey]:
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def take_touched(self) -> frozenset[DhcpKey]:
        touched, self._touched = frozenset(self._touched), set()
        return touched

    @property
    def networks(self) -> Mapping[NetworkId, NetworkSpec]:
        """The specs of the networks to serve."""
        return self._specs

    @property
    def ports(self) -> Mapping[PortId, DhcpPort]:
        """The ports to serve."""
        return self._ports

    def all_keys(self) -> frozenset[DhcpKey]:
        return frozenset([*map(NetworkKey, self._specs), *map(PortKey, self._ports)])

    def value(self, key: DhcpKey) -> NetworkSpec | DhcpPort | None:
        if isinstance(key, NetworkKey):
            return self._specs.get(key.network)
        return self._ports.get(key.port)

    def group(self, key: DhcpKey, value: NetworkSpec | DhcpPort | None) -> NetworkId | None:
        if isinstance(key, NetworkKey):
            return key.network
        return value.network if isinstance(value, DhcpPort) else None

    def dependents(self, key: DhcpKey) -> Iterable[DhcpKey]:
        if not isinstance(key, NetworkKey):
            return ()
        ports = self._index.ports(key.network)
        return (PortKey(port) for port in ports if port in self._ports)

    def reported(self, key: DhcpKey) -> Port | None:
        if isinstance(key, NetworkKey) or key.port not in self._ports:
            return None
        return self._index.port(key.port)

    def _update_network(self, id: NetworkId) -> Iterable[PortId]:
        """Update the spec of a network; return the ports that have to be updated with it."""
        spec, former = self._spec(id), self._specs.pop(id, None)
        if spec is not None:
            self._specs[id] = spec
        if spec == former or self._is_answer(spec, former):
            return ()
        self._changed.add(NetworkKey(id))
        toggled = (spec is None) != (former is None)
        return self._index.ports(id) if toggled else ()

    def _is_answer(self, spec: NetworkSpec | None, former: NetworkSpec | None) -> bool:
        """Return whether the only news is that the source published the port it had returned."""
        if spec is None or former is None or spec.own is None or former.own is not None:
            return False
        answer = self._answers.get(spec.request.network)
        return spec.own == answer and evolve(former, own=answer) == spec

    def _update_name(self, name: HostnameKey) -> Iterable[PortId]:
        """Update which project uses a name; return the ports that have to be updated with it."""
        former = self._name_projects.pop(name, None)
        project = sole_project(self._index.named(name))
        if any(self._index.named(name)):
            self._name_projects[name] = project
        return () if project == former else [port.id for port in self._index.named(name)]

    def _update_port(self, id: PortId) -> None:
        self._touched.add(PortKey(id))
        port, former = self._index.port(id), self._ports.pop(id, None)
        value = None
        if port is not None and port.network_id in self._specs:
            value = self._make_port(port)
        if value is not None:
            self._ports[id] = value
        if value != former:
            self._changed.add(PortKey(id))

    def _make_port(self, port: Port) -> DhcpPort | None:
        """Return the desired value of *port*; ``None``: no address, or a DHCP server's own."""
        network = self._index.network(port.network_id)
        fixed_ips = tuple(each for each in port.fixed_ips if not _is_provisional(each))
        if network is None or not fixed_ips or is_dhcp(port.device_owner):
            return None
        project = next(map(self._name_projects.get, hostname_keys(port)), None)
        hostname, domain = served_name(port, network, project)
        return DhcpPort(
            network=port.network_id,
            mac=port.mac,
            fixed_ips=fixed_ips,
            hostname=hostname,
            domain=domain,
            options=served_options(port, network),
        )

    def _spec(self, id: NetworkId) -> NetworkSpec | None:
        network = self._index.network(id)
        subnets = tuple(each for each in self._index.subnets(id) if not each.provisional)
        served = [subnet for subnet in subnets if subnet.enable_dhcp]
        if network is None or not network.admin_up or not served:
            return None
        service_ports = self._index.service_ports(id)
        needed = () if self._view.gateways else (subnet.id for subnet in served)
        request = EnsureDhcpPort(network=id, host=self._view.host, subnets=frozenset(needed))
        own = next((port for port in service_ports if _answers(port, request)), None)
        spec = NetworkSpec(
            request=request,
            subnets=subnets,
            mtu=network.mtu,
            dns_domain=network.dns_domain,
            options=network.dhcp_options,
            peers=_peers(service_ports, self._view.host, served),
            gateways=self._view.gateways,
            proxy=plan_proxy(id, subnets, service_ports, self._view.metadata),
        )
        return spec if own is None else evolve(spec, own=spec.server(own))


def _answers(port: Port, request: EnsureDhcpPort) -> bool:
    """Return whether *request* would return *port* as it is."""
    return (
        _serves(port)
        and port.binding.host == request.host
        and request.subnets
        == {fixed.subnet_id for fixed in port.fixed_ips if not _is_provisional(fixed)}
    )


def _is_provisional(fixed: FixedIp) -> bool:
    """Return whether no prefix is delegated yet to the subnet of an address."""
    return fixed.address in PROVISIONAL_PREFIX


def _peers(ports: Iterable[Port], host: str, subnets: Iterable[Subnet]) -> tuple[IpInterface, ...]:
    """Return the addresses from which other hosts serve the network."""
    served = tuple(subnets)
    return tuple(
        address
        for port in ports
        if _serves(port) and port.binding.host != host
        for address in on_subnets(port.fixed_ips, served)
    )


def _serves(port: Port) -> bool:
    of_no_agent = (RESERVED_DHCP_DEVICE, DISTRIBUTED_DHCP_DEVICE)
    return is_dhcp(port.device_owner) and port.device_id not in of_no_agent
