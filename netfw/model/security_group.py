"""Security groups, their rules, and named sets of addresses."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from attrs import field, frozen

from netfw.model.values.address import IpNetwork, as_network, maybe_network
from netfw.model.values.common_fields import Named, Owned
from netfw.model.values.ids import (
    AddressGroupId,
    DefaultSecurityGroupRuleId,
    SecurityGroupId,
    SecurityGroupRuleId,
)
from netfw.model.values.port_range import PORTS, PortRange
from netfw.model.values.protocol import ICMP, ICMPV6, PORTED
from netfw.model.values.validation import Problem, outside

MAX_ADDRESSES = 65536
"""Prefixes of one address group."""
PARENT = "PARENT"
"""Remote group of a default rule: the group that gets the rule."""


class Direction(enum.StrEnum):
    """The direction of traffic, as the instance sees it."""

    INGRESS = "ingress"
    EGRESS = "egress"


class Ethertype(enum.StrEnum):
    """The family of addresses a rule is about."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return 4 if self is Ethertype.IPV4 else 6


@frozen(kw_only=True)
class SecurityGroup(Named):
    """A set of ports that are filtered alike; its rules are resources of their own."""

    id: SecurityGroupId
    stateful: bool = True
    shared: bool = False


@frozen(kw_only=True)
class TrafficMatch(Owned):
    """Traffic that a rule allows."""

    direction: Direction
    ethertype: Ethertype = Ethertype.IPV4
    protocol: int | None = None
    """By number; ``None`` is any.  See :attr:`ip_protocol` for what packets carry."""
    port_min: int | None = None
    """The first port, or the ICMP type."""
    port_max: int | None = None
    """The last port, or the ICMP code."""
    remote_prefix: IpNetwork | None = field(default=None, converter=maybe_network)
    remote_group_id: SecurityGroupId | str | None = None
    remote_address_group_id: AddressGroupId | None = None

    @property
    def ip_protocol(self) -> int | None:
        """The number in the packet: ICMP in a rule means the ICMP of the rule's family."""
        if self.ethertype is Ethertype.IPV6 and self.protocol == ICMP:
            return ICMPV6
        return self.protocol

    @property
    def ports(self) -> PortRange | None:
        """The ports it is limited to, if its protocol has ports."""
        if self.protocol not in PORTED or self.port_min is None or self.port_max is None:
            return None
        return PortRange(self.port_min, self.port_max)

    @property
    def icmp_type(self) -> int | None:
        """The type it is limited to, if its protocol is ICMP."""
        return self.port_min if self.ip_protocol in (ICMP, ICMPV6) else None

    @property
    def icmp_code(self) -> int | None:
        """The code it is limited to, if its protocol is ICMP."""
        return self.port_max if self.ip_protocol in (ICMP, ICMPV6) else None

    def _problems(self) -> Iterator[Problem]:
        yield from self._protocol_problems()
        yield from self._remote_problems()

    def _protocol_problems(self) -> Iterator[Problem]:
        low, high = self.port_min, self.port_max
        if self.protocol is not None and self.protocol not in range(1, 256):
            yield "protocol", outside(self.protocol, range(1, 256))
        elif self.protocol == ICMPV6 and self.ethertype is Ethertype.IPV4:
            yield "protocol", "ICMPv6 in a rule for IPv4"
        elif (low, high) == (None, None):
            return
        elif self.ip_protocol in (ICMP, ICMPV6):
            yield from _icmp_problems(low, high)
        elif self.protocol in PORTED:
            yield from _port_problems(low, high)
        else:
            yield "port_min", "a range of ports needs a protocol that has ports"

    def _remote_problems(self) -> Iterator[Problem]:
        remotes = {
            "remote_prefix": self.remote_prefix,
            "remote_group_id": self.remote_group_id,
            "remote_address_group_id": self.remote_address_group_id,
        }
        given = [name for name, remote in remotes.items() if remote is not None]
        for name in given[1:]:
            yield name, "a rule has one kind of remote at most"
        prefix = self.remote_prefix
        if prefix is not None and prefix.version != self.ethertype.ip_version:
            yield "remote_prefix", f"{prefix} in a rule for {self.ethertype}"


@frozen(kw_only=True)
class SecurityGroupRule(TrafficMatch):
    """Traffic that the ports of a group may have."""

    id: SecurityGroupRuleId
    security_group_id: SecurityGroupId
    remote_group_id: SecurityGroupId | None = None


@frozen(kw_only=True)
class DefaultSecurityGroupRule(TrafficMatch):
    """A rule that new groups get; it belongs to no project."""

    id: DefaultSecurityGroupRuleId
    remote_group_id: SecurityGroupId | str | None = None
    """A group, or :data:`PARENT`."""
    used_in_default_sg: bool = False
    """Whether the default groups of new projects get it."""
    used_in_non_default_sg: bool = True
    """Whether all other new groups get it."""


def _icmp_problems(kind: int | None, code: int | None) -> Iterator[Problem]:
    for name, number in (("port_min", kind), ("port_max", code)):
        if number is not None and number not in range(256):
            yield name, f"{number} is outside the ICMP types and codes 0 to 255"
    if kind is None:
        yield "port_max", "an ICMP code without a type"


def _port_problems(low: int | None, high: int | None) -> Iterator[Problem]:
    for name, port in (("port_min", low), ("port_max", high)):
        if port is None:
            yield name, "a range of ports needs both ends"
        elif port not in PORTS:
            yield name, outside(port, PORTS)
    if low is not None and high is not None and low > high:
        yield "port_max", f"{high} comes before {low}"


def _set_of_networks(values: Iterable[str | IpNetwork]) -> frozenset[IpNetwork]:
    """Return *values* as prefixes; a set of prefixes, which may be large, is kept as it is."""
    if isinstance(values, frozenset) and not any(isinstance(each, str) for each in values):
        return values
    return frozenset(map(as_network, values))


@frozen(kw_only=True)
class AddressGroup(Named):
    """A named set of prefixes that rules can refer to."""

    id: AddressGroupId
    addresses: frozenset[IpNetwork] = field(default=frozenset(), converter=_set_of_networks)
    shared: bool = False

    def _problems(self) -> Iterator[Problem]:
        if len(self.addresses) > MAX_ADDRESSES:
            yield "addresses", f"{len(self.addresses)}, more than {MAX_ADDRESSES}"
