"""The resources of the L2 agent, indexed by network, group and parent port.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import cast

from netfw.agents.common.resource_index import ResourceIndex
from netfw.agents.l2.distributed_routers import is_interface
from netfw.agents.l2.host_context import segments_of
from netfw.model.local_ip import LocalIpAssociation
from netfw.model.network import Network
from netfw.model.packet_log import PacketLog
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.security_group import SecurityGroupRule
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import is_distributed_dhcp
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId, SubnetId


class L2ResourceIndex(ResourceIndex):
    """Resources as an L2 agent looks them up.

    Home ports are those on *host*: bound to it, or on several hosts that it is one of.  Visiting
    ports may be plugged there as well: ports that it is prepared for, and the interfaces of
    distributed routers.
    """

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host
        self._home_ports = self.declare(
            Port, lambda port: (port.network_id,) if port.binding.is_on(host) else ()
        )
        self._visiting_ports = self.declare(
            Port, lambda port: (port.network_id,) if self._is_visiting(port) else ()
        )
        self._prepared_ports = self.declare(
            Port, lambda port: (port.network_id,) if self.is_prepared(port) else ()
        )
        self._segments = self.declare(Segment, lambda segment: (segment.network_id,))
        self._subnets = self.declare(Subnet, lambda subnet: (subnet.network_id,))
        self._dhcp_ports = self.declare(
            Port, lambda port: (port.network_id,) if _is_dhcp_port(port) else ()
        )
        self._logs = self.declare(PacketLog, _logged)
        self._sub_ports = self.declare(Port, _parents_of)
        self._local_ips = self.declare(
            Port, lambda port: _local_ip_keys(port) if port.binding.is_on(host) else ()
        )
        self._rules = self.declare(SecurityGroupRule, lambda rule: (rule.security_group_id,))

    def home_port(self, id: PortId) -> Port | None:
        """Return the port, if it is on this host."""
        port = self.port(id)
        return port if port is not None and port.binding.is_on(self.host) else None

    def home_ports(self, network: NetworkId) -> frozenset[PortId]:
        """Return the ports of a network that are on this host."""
        return frozenset(PortId(key.id) for key in self._home_ports.refs(network))

    def all_home_ports(self) -> Iterator[PortId]:
        """Yield every port that is on this host, plugged or not."""
        for network in self._home_ports:
            yield from self.home_ports(network)

    def visiting_port(self, id: PortId) -> Port | None:
        """Return the port, if it may be plugged on this host without being bound to it."""
        port = self.port(id)
        return port if port is not None and self._is_visiting(port) else None

    def visiting_ports(self, network: NetworkId) -> frozenset[PortId]:
        """Return the visiting ports of a network."""
        return frozenset(PortId(key.id) for key in self._visiting_ports.refs(network))

    def sub_ports(self, parent: PortId) -> frozenset[PortId]:
        """Return the sub-ports of a parent port."""
        return frozenset(PortId(key.id) for key in self._sub_ports.refs(parent))

    def has_prepared_ports(self, network: NetworkId) -> bool:
        """Return whether this host is prepared for a port of a network."""
        return bool(self._prepared_ports.refs(network))

    def is_prepared(self, port: Port) -> bool:
        """Return whether this host is prepared for a port, which is active elsewhere or nowhere."""
        return self.host in port.binding.prepared_hosts and not port.binding.is_on(self.host)

    def _is_visiting(self, port: Port) -> bool:
        is_visiting = is_interface(port) or self.is_prepared(port)
        return is_visiting and not port.binding.is_on(self.host)

    def subnets(self, network: NetworkId) -> dict[SubnetId, Subnet]:
        """Return the subnets of a network by id."""
        subnets = (cast(Subnet, self[key]) for key in self._subnets.refs(network))
        return {subnet.id: subnet for subnet in subnets}

    def segments(self, network: Network) -> tuple[Segment, ...]:
        """Return all segments of a network."""
        stored = (cast(Segment, self[key]) for key in self._segments.refs(network.id))
        return segments_of(network, stored)

    def rules(self, group: SecurityGroupId) -> Iterable[SecurityGroupRule]:
        """Yield the rules of a security group."""
        return (cast(SecurityGroupRule, self[key]) for key in self._rules.refs(group))

    def related(self, port: Port) -> tuple[Resource, ...]:
        """Return what a port or its network refers to, as far as it is known; in fixed order."""
        refs = sorted(self.related_refs(port), key=lambda key: (key.kind, key.id))
        return tuple(self[key] for key in refs if key in self)

    def related_refs(self, port: Port) -> frozenset[Ref]:
        """Return references to what a port or its network refers to, known or not."""
        network = self.network(port.network_id)
        policies = {port.qos_policy_id, port.qos_network_policy_id}
        if network is not None:
            policies.add(network.qos_policy_id)
        return frozenset(
            {
                *(Ref(Kind.QOS_POLICY, id) for id in policies if id is not None),
                *(Ref(Kind.SECURITY_GROUP, id) for id in port.security_groups),
                *self._subnets.refs(port.network_id),
                *self._dhcp_ports.refs(port.network_id),
                *self._logging_refs(port),
            }
        )

    def local_ips(self, port: Port) -> tuple[LocalIpAssociation, ...]:
        """Return the local IPs that lead to *port* here: of several ports, to the lowest id."""
        if not port.local_ips or not port.binding.is_on(self.host):
            return ()
        keys = dict(zip(_local_ip_keys(port), port.local_ips, strict=True))
        chosen = {key: min(ref.id for ref in self._local_ips.refs(key)) for key in keys}
        return tuple(each for key, each in keys.items() if chosen[key] == port.id)

    def local_ip_rivals(self, port: Port) -> frozenset[PortId]:
        """Return the ports of this host that the local IPs of *port* may lead to instead."""
        keys = _local_ip_keys(port)
        return frozenset(PortId(ref.id) for key in keys for ref in self._local_ips.refs(key))

    def ports_without_local_ip(self, *, served: bool) -> frozenset[PortId]:
        """Return the ports of this host that not all of their local IPs lead to.

        *served*: this host leads local IPs to ports, of several ports to one.
        """
        refs = (
            sorted(self._local_ips.refs(key), key=lambda ref: ref.id) for key in self._local_ips
        )
        return frozenset(PortId(ref.id) for some in refs for ref in some[1 if served else 0 :])

    def is_logging(self) -> bool:
        """Return whether there is a packet log that may be for ports of this host."""
        return any(True for _ in self._logs)

    def is_logged(self, port: Port) -> bool:
        """Return whether a packet log is for *port*."""
        return any(True for _ in self._logging_refs(port))

    def _logging_refs(self, port: Port) -> Iterator[Ref]:
        """Yield the packet logs of a port, and the rules that explain what is logged."""
        keys: tuple[Hashable, ...] = (port.id, *port.security_groups, port.project_id)
        named = (ref for key in keys for ref in self._logs.refs(key))
        logs = [ref for ref in named if cast(PacketLog, self[ref]).is_for(port)]
        yield from logs
        for group in port.security_groups if logs else ():
            yield from self._rules.refs(group)


def _is_dhcp_port(port: Port) -> bool:
    return is_distributed_dhcp(port.device_owner, port.device_id)


def _local_ip_keys(port: Port) -> tuple[Hashable, ...]:
    """Return what only one port of a host serves, for each of the local IPs of *port*."""
    return tuple((port.network_id, each.address) for each in port.local_ips)


def _logged(log: PacketLog) -> tuple[Hashable, ...]:
    """Return what a packet log is for: a port, a group, or all ports of a project."""
    if not log.enabled:
        return ()
    return (log.target_id or log.resource_id or log.project_id,)


def _parents_of(port: Port) -> tuple[PortId, ...]:
    """Return the parent port of a sub-port."""
    return () if port.trunk is None or port.trunk.parent_id is None else (port.trunk.parent_id,)
