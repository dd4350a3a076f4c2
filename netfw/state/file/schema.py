"""The sections of a topology file, and the references within their entries.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import NetworkId, RouterId
from netfw.model.values.validation import Problem, Validated
from netfw.model.wire.codec import CodecError, Listed, Nullable, Scalar, describe
from netfw.model.wire.object_codec import NamedField, ObjectCodec
from netfw.model.wire.scalars import (
    ADDRESS,
    DEVICE_NAME,
    HOST,
    ID,
    MAC,
    NETWORK_TYPE,
    PHYSICAL_NETWORK,
    TEXT,
    choice,
)

HOSTS: Final = "hosts"
ASSIGNMENTS: Final = "assignments"
PROJECT: Final = "project_id"
AGENT_GATEWAYS: Final = "agent_gateways"
"""Attribute of a host: its addresses on external networks, which become ports."""
MAPPINGS: Final = 256
"""Maximum number for one host; of agent gateways too."""

SECTIONS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "networks": Kind.NETWORK,
        "segments": Kind.SEGMENT,
        "subnets": Kind.SUBNET,
        "ports": Kind.PORT,
        "trunks": Kind.TRUNK,
        "security_groups": Kind.SECURITY_GROUP,
        "security_group_rules": Kind.SECURITY_GROUP_RULE,
        "address_groups": Kind.ADDRESS_GROUP,
        "logs": Kind.PACKET_LOG,
        "qos_policies": Kind.QOS_POLICY,
        "routers": Kind.ROUTER,
        "floatingips": Kind.FLOATING_IP,
        "port_forwardings": Kind.PORT_FORWARDING,
        "ndp_proxies": Kind.NDP_PROXY,
        "agents": Kind.AGENT,
    }
)
"""Sections with lists of bodies, in the names of the Networking API."""
KNOWN: Final = (*SECTIONS, HOSTS, ASSIGNMENTS, PROJECT)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


@frozen
class Reference:
    """A reference of the entries of a section: ``fixed_ips.*.subnet_id`` to subnets."""

    path: tuple[str, ...] = field(converter=_steps)
    kind: Kind

    @property
    def short(self) -> str | None:
        """The short name: the last name without ``_id``."""
        name = self.path[-1]
        return name.removesuffix("_id") if name.endswith("_id") and name not in _LONG else None


_LONG: Final = frozenset({"internal_port_id"})
"""References whose short name has another meaning."""
_POLICY: Final = Reference("qos_policy_id", Kind.QOS_POLICY)
_NETWORK: Final = Reference("network_id", Kind.NETWORK)

REFERENCES: Final[Mapping[Kind, tuple[Reference, ...]]] = MappingProxyType(
    {
        Kind.NETWORK: (_POLICY, Reference("subnets.*", Kind.SUBNET)),
        Kind.SEGMENT: (_NETWORK,),
        Kind.SUBNET: (_NETWORK, Reference("segment_id", Kind.SEGMENT)),
        Kind.PORT: (
            _NETWORK,
            _POLICY,
            Reference("qos_network_policy_id", Kind.QOS_POLICY),
            Reference("fixed_ips.*.subnet_id", Kind.SUBNET),
            Reference("security_groups.*", Kind.SECURITY_GROUP),
            Reference("router_id", Kind.ROUTER),
        ),
        Kind.TRUNK: (
            Reference("port_id", Kind.PORT),
            Reference("sub_ports.*.port_id", Kind.PORT),
        ),
        Kind.SECURITY_GROUP_RULE: (
            Reference("security_group_id", Kind.SECURITY_GROUP),
            Reference("remote_group_id", Kind.SECURITY_GROUP),
            Reference("remote_address_group_id", Kind.ADDRESS_GROUP),
        ),
        Kind.PACKET_LOG: (
            Reference("resource_id", Kind.SECURITY_GROUP),
            Reference("target_id", Kind.PORT),
        ),
        Kind.ROUTER: (
            Reference("external_gateway_info.network_id", Kind.NETWORK),
            Reference("external_gateway_info.qos_policy_id", Kind.QOS_POLICY),
            Reference("external_gateway_info.external_fixed_ips.*.subnet_id", Kind.SUBNET),
        ),
        Kind.FLOATING_IP: (
            Reference("floating_network_id", Kind.NETWORK),
            Reference("port_id", Kind.PORT),
            Reference("router_id", Kind.ROUTER),
            _POLICY,
        ),
        Kind.PORT_FORWARDING: (
            Reference("floatingip_id", Kind.FLOATING_IP),
            Reference("internal_port_id", Kind.PORT),
        ),
        Kind.NDP_PROXY: (Reference("router_id", Kind.ROUTER), Reference("port_id", Kind.PORT)),
    }
)

SHORT: Final[Mapping[Kind, Mapping[str, str]]] = MappingProxyType(
    {
        Kind.NETWORK: {
            name: f"provider:{name}"
            for name in ("network_type", "physical_network", "segmentation_id")
        },
        Kind.PORT: {
            "host": "binding:host_id",
            "hosts": "binding:hosts",
            "prepared_hosts": "binding:prepared_hosts",
        },
    }
)
"""Further short names."""


def _tunnel_type(raw: object) -> NetworkType:
    kind = NETWORK_TYPE.parse(raw)
    if kind.is_well_known and not kind.is_tunnel:
        raise ValueError(f"{kind} is no tunnel")
    return kind


def _mappings(raw: object) -> Mapping[str, str]:
    if not isinstance(raw, Mapping):
        raise ValueError(f"not an object: {describe(raw)}")
    if len(raw) > MAPPINGS:
        raise ValueError(f"more than {MAPPINGS} mappings")
    problems: dict[str, str] = {}
    for physical, bridge in raw.items():
        try:
            PHYSICAL_NETWORK.parse(physical)
            DEVICE_NAME.parse(bridge)
        except ValueError as exc:
            problems[describe(physical)] = str(exc)
    if problems:
        raise CodecError(problems)
    return MappingProxyType(dict(raw))


@frozen(kw_only=True)
class StatedHost:
    """A host in a file: what other hosts need to reach it."""

    local_ip: IpAddress | None = None
    tunnel_types: tuple[NetworkType, ...] | None = None
    """``None``: those of the networks in the file."""
    bridge_mappings: Mapping[str, str] = MappingProxyType({})
    """The bridge of each physical network."""
    routing_mac: Mac | None = None
    """``None``: a derived one, if a router in the file is distributed."""
    availability_zone: str | None = None
    description: str = ""


STATED_HOST: Final = ObjectCodec(
    StatedHost,
    (
        NamedField("local_ip", Nullable(ADDRESS)),
        NamedField("tunnel_types", Nullable(Listed(Scalar(_tunnel_type, str)))),
        NamedField("bridge_mappings", Scalar(_mappings, dict)),
        NamedField("routing_mac", Nullable(MAC)),
        NamedField("availability_zone", Nullable(HOST)),
        NamedField("description", TEXT),
    ),
)


@frozen(kw_only=True)
class StatedAssignment(Validated):
    """The host that serves a network with DHCP, or runs a router."""

    service: Service
    host: str
    network_id: NetworkId | None = None
    router_id: RouterId | None = None

    def _problems(self) -> Iterator[Problem]:
        wanted, other = (
            ("network_id", "router_id")
            if self.service is Service.DHCP
            else ("router_id", "network_id")
        )
        if self.service not in (Service.DHCP, Service.L3):
            yield "service", f"{self.service} is not assigned; it follows from the ports' hosts"
        elif getattr(self, wanted) is None:
            yield wanted, "is required"
        elif getattr(self, other) is not None:
            yield other, f"means nothing for {self.service}"


STATED_ASSIGNMENT: Final = ObjectCodec(
    StatedAssignment,
    (
        NamedField("service", choice(Service)),
        NamedField("host", HOST),
        NamedField("network_id", Nullable(ID)),
        NamedField("router_id", Nullable(ID)),
    ),
)
ASSIGNMENT_REFERENCES: Final = (_NETWORK, Reference("router_id", Kind.ROUTER))
