"""Strategies for firewall states and for packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from typing import Any
from uuid import UUID

from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.drivers.firewall import FilteredPort, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import AddressGroupId, SecurityGroupId, SecurityGroupRuleId
from netfw.model.values.port_range import PORTS as PORT_NUMBERS
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import ICMP, ICMPV6, TCP, UDP
from netfw.testing.conformance.firewall.environment import FirewallTestPort
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    State,
    alone,
    listed,
    member,
    pair,
    port,
    trusted,
)
from netfw.testing.conformance.firewall.packets import ECHO, Packet

GROUPS = tuple(SecurityGroupId(UUID(int=0x5E << 64 | n)) for n in range(4))
STATELESS, *OTHERS = GROUPS
"""The one that may be without state, and the others; a port is in it, or in some of them."""
ADDRESS_GROUP = AddressGroupId(UUID(int=0xAD << 64))
PORTS = (1, 22, 79, 80, 81, 443, 1023, 1024, 32768, 65535)
_RANGES = st.tuples(st.sampled_from(PORTS), st.sampled_from(PORTS)).map(sorted)
_ICMP = {4: ICMP, 6: ICMPV6}
_TYPES = {4: (8, 13), 6: (128, 139)}


@frozen
class Trip:
    """A packet, and where it goes."""

    sender: FirewallTestPort
    receiver: FirewallTestPort
    packet: Packet


def _prefixes(test_ports: Sequence[FirewallTestPort], version: int) -> SearchStrategy[str]:
    """Draw prefixes that hold one, some, all or none of the test ports."""
    lengths = (0, 8, 28, 31, 32) if version == 4 else (0, 16, 124, 127, 128)
    outsider = "192.0.2.0/24" if version == 4 else "2001:db8::/32"
    near = st.tuples(st.sampled_from(test_ports), st.sampled_from(lengths)).map(
        lambda drawn: str(alone(drawn[0].own(version)).supernet(new_prefix=drawn[1]))
    )
    return near | st.just(outsider)


@st.composite
def _rules(
    draw: st.DrawFn, group: SecurityGroupId, test_ports: Sequence[FirewallTestPort]
) -> SecurityGroupRule:
    version = draw(st.sampled_from(FAMILIES))
    icmp = _ICMP[version]
    protocol = draw(st.sampled_from([None, icmp, *(TCP, UDP) * 3]))
    low, high = None, None
    if protocol in (TCP, UDP) and draw(st.integers(0, 5)) > 0:
        low, high = draw(_RANGES)
    elif protocol == icmp and draw(st.booleans()):
        low, high = draw(st.sampled_from(_TYPES[version])), draw(st.sampled_from([None, 0]))
    remotes: dict[str, SearchStrategy[Any]] = {
        "remote_prefix": _prefixes(test_ports, version),
        "remote_group_id": st.sampled_from(GROUPS),
        "remote_address_group_id": st.just(ADDRESS_GROUP),
    }
    remote = draw(st.sampled_from([None, None, *remotes]))
    return SecurityGroupRule(
        id=SecurityGroupRuleId(draw(st.uuids())),
        security_group_id=group,
        direction=draw(st.sampled_from(Direction)),
        ethertype=Ethertype.IPV4 if version == 4 else Ethertype.IPV6,
        protocol=protocol,
        port_min=low,
        port_max=high,
        **({} if remote is None else {remote: draw(remotes[remote])}),
    )


@st.composite
def _ports(draw: st.DrawFn, test_port: FirewallTestPort) -> State:
    if draw(st.integers(0, 4)) == 0:
        return trusted(test_port)
    several = st.lists(st.sampled_from(OTHERS), min_size=1, unique=True)
    groups = [STATELESS] if draw(st.integers(0, 2)) == 0 else draw(several)
    pairs: list[AllowedSource] = []
    if draw(st.booleans()):
        pairs = [pair(test_port, str(pair_addresses(test_port, version))) for version in FAMILIES]
    return port(test_port, *groups, pairs=pairs)


@st.composite
def policies(
    draw: st.DrawFn,
    test_ports: Sequence[FirewallTestPort],
    *,
    stateless: bool,
    address_groups: bool,
) -> State:
    """Draw a desired state of a firewall for *test_ports*, with each of them.

    One port is always trusted, so that the rules of another one decide alone between them.
    """
    state: State = {}
    for test_port in test_ports:
        state |= draw(_ports(test_port))
    state |= trusted(draw(st.sampled_from(test_ports)))
    for group in (STATELESS, *draw(st.lists(st.sampled_from(OTHERS), min_size=1, unique=True))):
        drawn = draw(st.lists(_rules(group, test_ports), min_size=1, max_size=4))
        rules = [r for r in drawn if address_groups or r.remote_address_group_id is None]
        stateful = not (stateless and group == STATELESS and draw(st.integers(0, 3)) > 0)
        state[GroupKey(group)] = Rules(frozenset(rules), stateful)
    for version in FAMILIES:
        prefixes = st.lists(_prefixes(test_ports, version), max_size=3, unique=True)
        for group in GROUPS:
            for prefix in draw(prefixes):
                if not prefix.endswith("/0"):
                    state |= member(group, prefix)
        if address_groups:
            state |= listed(ADDRESS_GROUP, *draw(prefixes))
    return state


@st.composite
def trips(draw: st.DrawFn, test_ports: Sequence[FirewallTestPort], state: State) -> Trip:
    """Draw a packet that opens a connection; most are aimed at the edge of a rule."""
    sender, receiver = draw(st.permutations(list(test_ports)))[:2]
    version = draw(st.sampled_from(FAMILIES))
    protocol = draw(st.sampled_from([TCP, UDP, _ICMP[version]]))
    number = draw(st.sampled_from(PORTS))
    rules = [(one, rule) for one in test_ports for rule in _rules_of(one, state)]
    if rules and draw(st.integers(0, 7)) > 0:
        one, rule = draw(st.sampled_from(rules))
        others = [port for port in test_ports if port is not one]
        open_ones = [port for port in others if _is_open(port, state)]
        other = draw(st.sampled_from([*others, *open_ones * 6]))
        incoming = rule.direction is Direction.INGRESS
        sender, receiver = (other, one) if incoming else (one, other)
        version, protocol = rule.ethertype.ip_version, rule.ip_protocol or protocol
        protocol = protocol if protocol in (TCP, UDP) else _ICMP[version]
        if rule.ports is not None:
            number = draw(st.sampled_from(_edges(rule.ports)))
    packet = sender.packet(receiver, protocol, number, version=version, icmp=ECHO[version])
    if draw(st.integers(0, 5)) < (3 if _has_pair(sender, state) else 1):
        packet = evolve(packet, source=pair_addresses(sender, version)[9])
    return Trip(sender, receiver, packet)


def _is_open(test_port: FirewallTestPort, state: State) -> bool:
    port = state.get(test_port.key)
    return isinstance(port, FilteredPort) and port.trusted


def _has_pair(test_port: FirewallTestPort, state: State) -> bool:
    port, paired = state.get(test_port.key), pair_addresses(test_port, 4)
    return isinstance(port, FilteredPort) and any(each.prefix == paired for each in port.sources)


def _rules_of(test_port: FirewallTestPort, state: State) -> Iterator[SecurityGroupRule]:
    port = state.get(test_port.key)
    for group in port.groups if isinstance(port, FilteredPort) else ():
        rules = state.get(GroupKey(group))
        if isinstance(rules, Rules):
            yield from sorted(rules.rules, key=str)


def _edges(ports: PortRange) -> list[int]:
    """Return the ends of a range, their neighbours, and a value in the middle."""
    limits = {ports.first, ports.last, ports.first - 1, ports.last + 1}
    numbers = limits | {(ports.first + ports.last) // 2}
    return sorted(number for number in numbers if number in PORT_NUMBERS)


def pair_addresses(test_port: FirewallTestPort, version: int) -> IpNetwork:
    """Return addresses that only this test port may have as a pair."""
    plug_point = test_port.plug_point.number
    return ip_network(
        f"203.0.113.{16 * plug_point}/28" if version == 4 else f"2001:db8:1:{plug_point}::/64"
    )


def invalid_texts(sentinel: str) -> SearchStrategy[str]:
    """Draw texts that a restore, a flow or a shell could interpret; *sentinel* is in each."""
    pieces = st.sampled_from(
        ["\n", "\r", "\0", " ", "\t", '"', "'", "\\", ";", ",", "-", "/", "%", "#", "$(", "`",
         "-j ACCEPT", "COMMIT", "*raw", "actions=", "0.0.0.0/0", "::/0", "\u2028", "\u202e"]
    )  # fmt: skip
    around = st.lists(pieces | st.text(max_size=5), max_size=4).map("".join)
    return st.tuples(around, around).map(lambda drawn: f"{drawn[0]}{sentinel}{drawn[1]}")
