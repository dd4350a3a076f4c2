"""Evaluation of tracked connections against the installed rules.  Pure.

A connection is evaluated by its first packet, against the text of the chains of its ports: the
rules in force decide, whatever wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_network
from itertools import pairwise

from attrs import frozen

from netfw.linux.bridge_firewall.denied_connections import DenialFinder
from netfw.linux.conntrack.entry import ConntrackTuple
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.iptables.chain import ChainKey
from netfw.model.security_group import Direction
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import ICMP, ICMPV6, NUMBERS
from netfw_drivers.iptables.plan.group_chains import group_key, in_table
from netfw_drivers.iptables.plan.names import SENDING_MACS, TAKING_MACS
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex

_ECHO = {ICMP: "8", ICMPV6: "128"}
"""ICMP type that a tracked connection almost always begins with; the entry lacks it."""

_WORD = re.compile(r'"[^"]*"|\S+')
_OPTIONS = frozenset((
    "-s", "-d", "-p", "-m", "-j", "--dport", "--dports", "--icmp-type", "--icmpv6-type",
    "--match-set", "--comment",
))  # fmt: skip
"""Options of the rules that netfw makes of security group rules; those on state have others."""
_SIDES = {"src": "source", "dst": "destination"}


@frozen
class SetMembers:
    """The match of an end of a connection with the members of a set."""

    name: str
    end: str


@frozen(kw_only=True)
class ParsedRule:
    """Parsed rule of a group's chain."""

    source: IpNetwork | None = None
    destination: IpNetwork | None = None
    protocol: int | None = None
    first_port: int = 0
    last_port: int = 65535
    icmp: str | None = None
    members: SetMembers | None = None
    macs: str | None = None
    never: bool = False

    def matches(
        self, flow: ConntrackTuple, sets: Mapping[str, KernelSet], chains: Container[str]
    ) -> bool:
        """Return whether this rule allows a connection that began with *flow*."""
        return (
            not self.never
            and self.protocol in (None, flow.protocol)
            and (self.source is None or flow.source in self.source)
            and (self.destination is None or flow.destination in self.destination)
            and self._has_port(flow.destination_port)
            and (self.icmp is None or self.icmp.partition("/")[0] == _ECHO.get(flow.protocol))
            and (self.macs is None or self.macs in chains)
            and (self.members is None or self._is_member(flow, sets))
        )

    def _has_port(self, port: int | None) -> bool:
        if (self.first_port, self.last_port) == (0, 65535):
            return True
        return port is not None and self.first_port <= port <= self.last_port

    def _is_member(self, flow: ConntrackTuple, sets: Mapping[str, KernelSet]) -> bool:
        assert self.members is not None
        present = sets.get(self.members.name)
        address = getattr(flow, self.members.end)
        return present is not None and any(word in present.elements for word in _words(address))


def _words(address: IpAddress) -> Iterator[str]:
    yield str(address)
    for length in range(address.max_prefixlen - 1, 0, -1):
        yield str(ip_network((address, length), strict=False))


@lru_cache(maxsize=65536)
def parse_rule(line: str) -> ParsedRule:
    """Parse a rule of a group's chain, in our spelling or that of iptables.

    A foreign rule that netfw cannot interpret allows no connection.
    """
    words = _WORD.findall(line)
    if any(word == "!" or (word[0] == "-" and word not in _OPTIONS) for word in words):
        return ParsedRule(never=True)
    try:
        return _parse([word.strip('"') for word in words])
    except (KeyError, ValueError):
        return ParsedRule(never=True)


def _parse(words: Sequence[str]) -> ParsedRule:
    """Parse a rule that has only known options.

    :raises KeyError, ValueError: netfw does not make such rules.
    """
    options = dict(pairwise(words))
    target, members = options["-j"], None
    if "--match-set" in options:
        at = words.index("--match-set") + 1
        name, side = words[at : at + 2]
        members = SetMembers(name.partition("-")[2], _SIDES[side])
    ports = options.get("--dport") or options.get("--dports") or "0:65535"
    first, _, last = ports.partition(":")
    return ParsedRule(
        source=ip_network(options["-s"]) if "-s" in options else None,
        destination=ip_network(options["-d"]) if "-d" in options else None,
        protocol=_protocol(options.get("-p")),
        first_port=int(first),
        last_port=int(last or first),
        icmp=options.get("--icmp-type") or options.get("--icmpv6-type"),
        members=members,
        macs=None if target == "ACCEPT" else _macs_chain(target),
    )


def _macs_chain(target: str) -> str:
    """Return the name of the chain of MAC addresses that a rule jumps to.

    :raises ValueError: it is another target.
    """
    name = target.partition("-")[2]
    if name[:1] not in (SENDING_MACS, TAKING_MACS):
        raise ValueError(target)
    return name


def _protocol(word: str | None) -> int | None:
    if word is None:
        return None
    return int(word) if word.isdigit() else NUMBERS.get(word, -1)


@frozen(kw_only=True)
class ConnectionEvaluator:
    """Evaluates connections against the installed chains and sets."""

    index: IptablesRulesetIndex
    chains: Mapping[ChainKey, tuple[str, ...]]
    sets: Mapping[str, KernelSet]

    @property
    def finder(self) -> DenialFinder:
        """Finder of the connections that these chains deny."""
        return DenialFinder(index=self.index, group_allows=self._group_allows)

    def _group_allows(
        self, group: SecurityGroupId, flow: ConntrackTuple, direction: Direction
    ) -> bool:
        family = flow.source.version
        lines = self.chains.get(group_key(group, family, direction), ())
        macs = (parse_rule(line).macs for line in lines)
        full = {name for name in macs if name and self.chains.get(in_table(family, name))}
        return any(parse_rule(line).matches(flow, self.sets, full) for line in lines)
