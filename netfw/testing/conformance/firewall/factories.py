"""Policies for the tests of the firewall suite, in few words.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from uuid import uuid4

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.address import IpAddress, IpNetwork, as_network
from netfw.model.values.ids import AddressGroupId, SecurityGroupId, SecurityGroupRuleId
from netfw.testing.conformance.firewall.environment import FirewallTestPort

State = dict[FirewallKey, FirewallValue]
IN, OUT = Direction.INGRESS, Direction.EGRESS
V4, V6 = Ethertype.IPV4, Ethertype.IPV6
FAMILIES = (4, 6)


def a_group() -> SecurityGroupId:
    return SecurityGroupId(uuid4())


def an_address_group() -> AddressGroupId:
    return AddressGroupId(uuid4())


def rule(
    group: SecurityGroupId,
    direction: Direction,
    protocol: int | None = None,
    ports: tuple[int | None, int | None] = (None, None),
    *,
    version: int = 4,
    prefix: str | None = None,
    remote: SecurityGroupId | None = None,
    addresses: AddressGroupId | None = None,
) -> SecurityGroupRule:
    """Return a rule; *ports* are the ends of a range, or ICMP type and code."""
    return SecurityGroupRule(
        id=SecurityGroupRuleId(uuid4()),
        security_group_id=group,
        direction=direction,
        ethertype=V4 if version == 4 else V6,
        protocol=protocol,
        port_min=ports[0],
        port_max=ports[1],
        remote_prefix=prefix,
        remote_group_id=remote,
        remote_address_group_id=addresses,
    )


def group(id: SecurityGroupId, *rules: SecurityGroupRule, stateful: bool = True) -> State:
    return {GroupKey(id): Rules(frozenset(rules), stateful)}


def everything(id: SecurityGroupId, *directions: Direction, stateful: bool = True) -> State:
    """Return a group that allows everything in *directions*."""
    rules = [rule(id, way, version=v) for way in directions or (IN, OUT) for v in FAMILIES]
    return group(id, *rules, stateful=stateful)


def nothing(id: SecurityGroupId) -> State:
    return group(id)


def port(
    port: FirewallTestPort, *groups: SecurityGroupId, pairs: Iterable[AllowedSource] = ()
) -> State:
    """Return a filtered port, with what its MAC addresses imply as the agent has it."""
    own = {AllowedSource(port.mac, alone(a)) for a in (port.address, port.address6)}
    implied = {AllowedSource(port.mac, alone(port.link_local))}
    return {
        port.key: FilteredPort(
            network=port.plug_point.network,
            device=port.plug_point.device,
            mac=port.mac,
            sources=frozenset({*own, *implied, *pairs}),
            groups=frozenset(groups),
        )
    }


def trusted(*ports: FirewallTestPort) -> State:
    """Return ports without port security."""
    return {
        port.key: FilteredPort(
            network=port.plug_point.network,
            device=port.plug_point.device,
            mac=port.mac,
            trusted=True,
        )
        for port in ports
    }


def members(id: SecurityGroupId, *ports: FirewallTestPort) -> State:
    """Return all addresses of *ports* as members of a group that rules refer to."""
    key = GroupKey(id)
    made = [Member(key, alone(a)) for s in ports for a in (s.address, s.address6)]
    return dict(zip(made, made, strict=True))


def member(id: SecurityGroupId, prefix: str, port: FirewallTestPort | None = None) -> State:
    """Return a prefix as member of a group; with a *port*, only behind its MAC."""
    made = Member(GroupKey(id), as_network(prefix), None if port is None else port.mac)
    return {made: made}


def listed(id: AddressGroupId, *prefixes: str) -> State:
    """Return the *prefixes* of an address group."""
    made = [Member(AddressGroupKey(id), as_network(prefix)) for prefix in prefixes]
    return dict(zip(made, made, strict=True))


def pair(port: FirewallTestPort, prefix: str, mac: str | None = None) -> AllowedSource:
    """Return an allowed address pair."""
    return AllowedSource(port.mac if mac is None else mac, as_network(prefix))


def alone(address: IpAddress) -> IpNetwork:
    if address.version == 4:
        return IPv4Network((int(address), 32))
    return IPv6Network((int(address), 128))
