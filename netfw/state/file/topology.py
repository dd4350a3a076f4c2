"""Topology: the items of all files together.  Pure.

A topology with an error has no items; every error is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from attrs import define, evolve, field, frozen

from netfw.drivers.values.subscription import Service
from netfw.errors import InvalidInput
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import Router
from netfw.model.segment import WELL_KNOWN_TYPES, Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.trunk import Trunk
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import AgentId, NetworkId, SegmentId
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.text_validation import check_host
from netfw.model.wire import parse
from netfw.model.wire.codec import CodecError
from netfw.model.wire.object_codec import ObjectCodec
from netfw.state.dependencies import Assignment, Item
from netfw.state.distributed_routing import AGENT_BINARY, AGENT_TYPE, derive_routing_mac
from netfw.state.file.defaults import (
    complete_network,
    complete_policy,
    complete_port,
    complete_subnet,
)
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import FileEntry, Gathered, gather
from netfw.state.file.lint import lint
from netfw.state.file.name_resolution import id_by_content, id_of
from netfw.state.file.router_defaults import (
    RouterDefaults,
    complete_address_scopes,
    complete_router,
)
from netfw.state.file.router_validation import router_errors
from netfw.state.file.schema import STATED_ASSIGNMENT, STATED_HOST, StatedHost
from netfw.state.file.segment_types import segment_type_errors
from netfw.state.file.trunk_membership import join_trunk

T = TypeVar("T")
R = TypeVar("R")


@frozen(kw_only=True)
class Topology:
    """The items of all files, or their errors; and warnings about likely mistakes."""

    items: tuple[Item, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


Known = dict[Ref, tuple[Mapping[str, Any], Resource]]
"""Cache of parsed bodies with their resources."""


def build_topology(
    documents: Mapping[str, object],
    known: Known | None = None,
    network_types: Collection[str] = WELL_KNOWN_TYPES,
) -> Topology:
    """Build the topology of *documents*, by file name, with segments of *network_types*.

    *known* is a cache between calls, and is updated.
    """
    gathered = gather(documents)
    build = _Build(gathered, {} if known is None else known)
    build.run()
    if not build.errors:
        build.errors += segment_type_errors(gathered, build.resources, network_types)
    if not build.errors:
        build.errors += router_errors(gathered, build.resources)
    if build.errors:
        return Topology(errors=tuple(build.errors))
    resources = tuple(build.resources.values())
    warnings = lint(gathered, build.resources)
    return Topology(items=(*resources, *build.assignments), warnings=warnings)


@define
class _Build:
    gathered: Gathered
    known: Known
    errors: list[Diagnostic] = field(init=False)
    resources: dict[Ref, Resource] = field(factory=dict)
    assignments: list[Assignment] = field(factory=list)

    @errors.default
    def _gathered_errors(self) -> list[Diagnostic]:
        return list(self.gathered.errors)

    def run(self) -> None:
        hosts = self._hosts()
        over_ipv6 = any(host.local_ip and host.local_ip.version == 6 for host in hosts.values())
        self._read(Kind.SUBNET)
        subnets = _by_network(self._of(Subnet))
        for entry in self._entries(Kind.NETWORK):
            complete_network(entry.body, over_ipv6)
            complete_address_scopes(entry.body)
        self._read(Kind.NETWORK)
        networks = {network.id: network for network in self._of(Network)}
        owners = self._interface_owners()
        for entry in self._entries(Kind.PORT):
            if entry.id is not None:
                problems = complete_port(entry.body, entry.id, networks, subnets, owners)
                self.errors += [entry.diagnostic(path, problem) for path, problem in problems]
        self._read(Kind.PORT)
        self._read(Kind.ROUTER)
        self._complete_users_of_routers()
        for kind in Kind:
            if kind not in (Kind.SUBNET, Kind.NETWORK, Kind.PORT, Kind.ROUTER):
                self._read(kind)
        self._join_trunks()
        self._complete_networks(networks.values(), subnets)
        self._agents(hosts)
        self._assign()
        self._evict_known()

    def _routers_with(self, name: str) -> frozenset[str]:
        """Return the ids of the routers that have the flag *name*."""
        entries = self._entries(Kind.ROUTER)
        return frozenset(str(entry.id) for entry in entries if entry.body.get(name) is True)

    def _interface_owners(self) -> dict[str, DeviceOwner]:
        """Return the owners of the interfaces of routers that are not plain."""
        replicated, distributed = self._routers_with("ha"), self._routers_with("distributed")
        owners = dict.fromkeys(replicated, DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE)
        return owners | dict.fromkeys(distributed, DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED)

    def _join_trunks(self) -> None:
        ports = {port.id: port for port in self._of(Port)}
        for trunk in self._of(Trunk):
            joined, problems = join_trunk(trunk, ports)
            entry = self.gathered.entries[ref(trunk)]
            self.errors += [entry.diagnostic(path, problem) for path, problem in problems]
            for port in joined:
                ports[port.id] = self.resources[ref(port)] = port

    def _complete_users_of_routers(self) -> None:
        defaults = RouterDefaults(self._of(Port), self._of(Router))
        for entry in self._entries(Kind.FLOATING_IP):
            defaults.complete_floating_ip(entry.body)
        for entry in self._entries(Kind.PORT_FORWARDING):
            defaults.complete_port_forwarding(entry.body)
        for entry in self._entries(Kind.NDP_PROXY):
            defaults.complete_ndp_proxy(entry.body)

    def _entries(self, kind: Kind) -> list[FileEntry]:
        return [entry for entry in self.gathered.entries.values() if entry.kind is kind]

    def _of(self, kind: type[R]) -> list[R]:
        return [item for item in self.resources.values() if isinstance(item, kind)]

    def _read(self, kind: Kind) -> None:
        for entry in self._entries(kind):
            if entry.id is None:
                continue
            if kind is Kind.SUBNET:
                complete_subnet(entry.body)
            elif kind is Kind.QOS_POLICY:
                complete_policy(entry.body, entry.id)
            elif kind is Kind.ROUTER:
                complete_router(entry.body, entry.id)
            self._read_entry(Ref(kind, entry.id), entry)

    def _read_entry(self, key: Ref, entry: FileEntry) -> None:
        before = self.known.get(key)
        if before is not None and before[0] == entry.body:
            self.resources[key] = before[1]
            return
        try:
            resource = parse(key.kind, entry.body, entry.aliases)
        except InvalidInput as exc:
            self.errors += [
                entry.diagnostic("" if path == key.kind else path, text)
                for path, text in exc.problems.items()
            ]
            return
        self.known[key] = entry.body, resource
        self.resources[key] = resource

    def _hosts(self) -> dict[str, StatedHost]:
        hosts: dict[str, StatedHost] = {}
        for name, entry in self.gathered.hosts.items():
            try:
                check_host(name)
            except ValueError as exc:
                self.errors.append(entry.diagnostic("", str(exc)))
                continue
            host = self._parse(STATED_HOST, entry)
            if host is not None:
                hosts[name] = host
        return hosts

    def _parse(self, shape: ObjectCodec[T], entry: FileEntry) -> T | None:
        try:
            return shape.parse(entry.body, entry.aliases if shape is STATED_ASSIGNMENT else ())
        except ValueError as exc:
            errors = CodecError.within("", exc)
            self.errors += [entry.diagnostic(path, text) for path, text in errors.items()]
            return None

    def _complete_networks(
        self, networks: Iterable[Network], subnets: Mapping[NetworkId, tuple[Subnet, ...]]
    ) -> None:
        """Make networks consistent with their segments and subnets."""
        segments = _by_network(self._of(Segment))
        for network in networks:
            stated = tuple(segment.provider for segment in segments.get(network.id, ()))
            if stated and network.segments and set(stated) != set(network.segments):
                entry = self.gathered.entries[ref(network)]
                self.errors.append(
                    entry.diagnostic("", "contradicts the segments that are its own")
                )
            for provider in () if stated else network.segments:
                segment = _segment(network.id, provider)
                self.resources[ref(segment)] = segment
            own = (subnet.id for subnet in subnets.get(network.id, ()))
            self.resources[ref(network)] = evolve(
                network,
                segments=network.segments or stated,
                subnet_ids=network.subnet_ids or frozenset(own),
            )

    def _agents(self, hosts: Mapping[str, StatedHost]) -> None:
        used = {provider.network_type for net in self._of(Network) for provider in net.segments}
        tunnels = sorted(kind for kind in used if kind.is_tunnel)
        macs = self._routing_macs(hosts)
        for name, host in hosts.items():
            types = tunnels if host.tunnel_types is None else host.tunnel_types
            facts: dict[str, object] = {"tunnel_types": [str(kind) for kind in types]}
            facts["bridge_mappings"] = dict(host.bridge_mappings)
            if host.local_ip is not None:
                facts["tunneling_ip"] = str(host.local_ip)
            if name in macs:
                facts["routing_mac"] = str(macs[name])
            agent = _agent(name, host, facts)
            if ref(agent) in self.resources:
                entry = self.gathered.hosts[name]
                self.errors.append(entry.diagnostic("", "is among the agents too"))
            self.resources[ref(agent)] = agent

    def _routing_macs(self, hosts: Mapping[str, StatedHost]) -> dict[str, Mac]:
        """Return the MAC addresses of the routed traffic of hosts: stated, or else derived if a
        router is distributed."""
        is_needed = bool(self._routers_with("distributed"))
        users: dict[Mac, str] = {}
        ports = {port.mac: ref(port) for port in self._of(Port)}
        for name, host in hosts.items():
            mac = host.routing_mac or (derive_routing_mac(name) if is_needed else None)
            if mac in ports:
                other = self.gathered.entries[ports[mac]]
                problem = f"{mac} is that of {other.path} in {other.file} too; state another one"
                self.errors.append(self.gathered.hosts[name].diagnostic("routing_mac", problem))
            if mac is not None and users.setdefault(mac, name) != name:
                problem = f"{mac} is that of host {users[mac]} too; state another one"
                self.errors.append(self.gathered.hosts[name].diagnostic("routing_mac", problem))
        return {name: mac for mac, name in users.items()}

    def _assign(self) -> None:
        for entry in self.gathered.assignments:
            stated = self._parse(STATED_ASSIGNMENT, entry)
            if stated is None:
                continue
            if stated.service is Service.DHCP and stated.network_id is not None:
                target = Ref(Kind.NETWORK, stated.network_id)
            elif stated.router_id is not None:
                target = Ref(Kind.ROUTER, stated.router_id)
            assignment = Assignment(stated.service, stated.host, target)
            if assignment in self.assignments:
                self.errors.append(entry.diagnostic("", "is there twice"))
            self.assignments.append(assignment)

    def _evict_known(self) -> None:
        for key in self.known.keys() - self.resources.keys():
            del self.known[key]


def _by_network(parts: Iterable[Any]) -> dict[NetworkId, tuple[Any, ...]]:
    by_network: dict[NetworkId, tuple[Any, ...]] = {}
    for part in parts:
        by_network[part.network_id] = (*by_network.get(part.network_id, ()), part)
    return by_network


def _segment(network: NetworkId, provider: Provider) -> Segment:
    content = {
        "type": provider.network_type,
        "physical": provider.physical_network,
        "number": provider.segmentation_id,
    }
    id = SegmentId(id_by_content(Kind.SEGMENT, content, str(network)))
    return Segment(id=id, network_id=network, provider=provider)


def _agent(name: str, host: StatedHost, facts: Mapping[str, object]) -> Agent:
    return Agent(
        id=AgentId(id_of(Kind.AGENT, name)),
        agent_type=AGENT_TYPE,
        binary=AGENT_BINARY,
        host=name,
        alive=True,
        description=host.description,
        availability_zone=host.availability_zone,
        configurations=JsonDocument(facts),
    )
