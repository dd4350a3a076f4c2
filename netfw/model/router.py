"""Routers: connections between networks, and to external ones."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from attrs import field, frozen

from netfw.model.port import FixedIp
from netfw.model.router_firewall import FirewallGroup
from netfw.model.values.address import IpNetwork
from netfw.model.values.common_fields import Named, Status
from netfw.model.values.ids import (
    ConntrackHelperId,
    FlavorId,
    NetworkId,
    QosPolicyId,
    RouterId,
)
from netfw.model.values.route import Route
from netfw.model.values.text_validation import check_host, check_token
from netfw.model.values.validation import Problem, Validated, checked_by, each, outside, repeated

VRIDS = range(1, 256)
"""Virtual router ids of VRRP: unique among the routers of one HA network."""
HA_MARKERS = IPv4Network("169.254.0.0/24")
"""Addresses that mark the active instances of highly available routers, one for each of `VRIDS`."""
MAX_ROUTER_INTERFACES = 256
"""Most interfaces of distributed routers that a switch takes on one network."""
PORT_NUMBERS = range(1, 65536)


class HaRole(enum.StrEnum):
    """The role of one instance of a highly available router."""

    ACTIVE = "active"
    """This host has the addresses, and forwards."""
    STANDBY = "standby"
    """This host takes part in the election; another one should have the addresses."""
    FAULT = "fault"
    """This host takes no part in the election: its HA port or its process does not work."""


@frozen(kw_only=True)
class ExternalGateway(Validated):
    """A router's connection to an external network."""

    network_id: NetworkId
    enable_snat: bool = True
    fixed_ips: tuple[FixedIp, ...] = field(default=(), converter=tuple[FixedIp, ...])
    qos_policy_id: QosPolicyId | None = None

    def _problems(self) -> Iterator[Problem]:
        for at in repeated(self.fixed_ips):
            yield f"fixed_ips[{at}]", "is there twice"


class HelperProtocol(enum.StrEnum):
    """The protocols whose connections can have a conntrack helper."""

    TCP = "tcp"
    UDP = "udp"


@frozen(kw_only=True)
class ConntrackHelper(Validated):
    """A module of connection tracking that reads the connections to a port.

    It translates addresses in their contents, and lets related connections pass.
    """

    id: ConntrackHelperId
    protocol: HelperProtocol
    port: int
    helper: str = field(validator=checked_by(check_token))

    def _problems(self) -> Iterator[Problem]:
        if self.port not in PORT_NUMBERS:
            yield "port", outside(self.port, PORT_NUMBERS)
        if not self.helper:
            yield "helper", "is empty"

    @property
    def values(self) -> tuple[HelperProtocol, int, str]:
        """What it does, without its id."""
        return self.protocol, self.port, self.helper


@frozen(kw_only=True)
class Router(Named):
    """A router; its interfaces are ports with its id as their device."""

    id: RouterId
    gateway: ExternalGateway | None = None
    routes: tuple[Route, ...] = field(default=(), converter=tuple[Route, ...])
    admin_up: bool = True
    status: Status = Status.ACTIVE
    ha: bool = False
    vrid: int | None = None
    """The virtual router id of a highly available router; only servers and agents exchange it."""
    distributed: bool = False
    availability_zone_hints: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_host)
    )
    availability_zones: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_host)
    )
    flavor_id: FlavorId | None = None
    firewall_groups: tuple[FirewallGroup, ...] = field(
        default=(), converter=tuple[FirewallGroup, ...]
    )
    """Firewall groups of its interfaces, without order; only servers and agents exchange them."""
    enable_ndp_proxy: bool = False
    """Whether its gateway answers for the addresses of its NDP proxies."""
    conntrack_helpers: tuple[ConntrackHelper, ...] = field(
        default=(), converter=tuple[ConntrackHelper, ...]
    )

    def _problems(self) -> Iterator[Problem]:
        for at in repeated(self.routes):
            yield f"routes[{at}]", "is there twice"
        for at in repeated(tuple(helper.values for helper in self.conntrack_helpers)):
            yield f"conntrack_helpers[{at}]", "is there twice"
        if self.vrid is not None and self.vrid not in VRIDS:
            yield "vrid", outside(self.vrid, VRIDS)
        ports = tuple(port for group in self.firewall_groups for port in group.ports)
        if any(repeated(ports)):
            yield "firewall_groups", "a port is in two groups"


def find_ha_overlap(cidr: IpNetwork, ha_prefixes: Iterable[IpNetwork]) -> IpNetwork | None:
    """Return the one of *ha_prefixes*, or `HA_MARKERS`, that overlaps *cidr* of a subnet.

    The router could have an address of one of its own hosts on the HA network there.
    """
    return next(_ha_overlaps(cidr, ha_prefixes), None)


def find_ha_override(destination: IpNetwork, ha_prefixes: Iterable[IpNetwork]) -> IpNetwork | None:
    """Return the one of *ha_prefixes*, or `HA_MARKERS`, that a route to *destination* overrides.

    A route to a larger prefix, such as the default route, overrides nothing.
    """
    found = _ha_overlaps(destination, ha_prefixes)
    return next((each for each in found if destination.prefixlen >= each.prefixlen), None)


def _ha_overlaps(cidr: IpNetwork, ha_prefixes: Iterable[IpNetwork]) -> Iterator[IpNetwork]:
    for prefix in (HA_MARKERS, *ha_prefixes):
        if prefix.version == cidr.version and prefix.overlaps(cidr):
            yield prefix
