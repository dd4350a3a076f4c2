"""Which tracked connections the rules allow.  Pure.

Connections are judged by the chains that the ports have, read as text: whatever the rules in force
came from, they are what decides.  A connection is judged by its first packet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_network
from itertools import pairwise

from attrs import frozen

from netfw.linux.conntrack.entry import Connection, Flow
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.iptables.chain import ChainKey
from netfw.model.address import IpAddress, IpNetwork
from netfw.model.ids import PortId, SecurityGroupId
from netfw.model.protocol import ICMP, ICMPV6, NUMBERS
from netfw.model.security_group import Direction
from netfw_drivers.iptables.plan.group_chains import group_key, in_table
from netfw_drivers.iptables.plan.names import SENDING_MACS, TAKING_MACS
from netfw_drivers.iptables.plan.ruleset_index import HeldPort, RulesetIndex

_ECHO = {ICMP: "8", ICMPV6: "128"}
"""What a tracked connection of ICMP begins with, as good as always; the entry does not say."""

_WORD = re.compile(r'"[^"]*"|\S+')


@frozen(kw_only=True)
class ParsedRule:
    """One rule of a group's chain."""

    source: IpNetwork | None = None
    destination: IpNetwork | None = None
    protocol: int | None = None
    first_port: int = 0
    last_port: int = 65535
    icmp: str | None = None
    members: str | None = None
    macs: str | None = None
    never: bool = False

    def takes(self, flow: Flow, sets: Mapping[str, KernelSet], chains: Container[str]) -> bool:
        """Whether a connection that began with *flow* is allowed by this rule."""
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

    def _is_member(self, flow: Flow, sets: Mapping[str, KernelSet]) -> bool:
        assert self.members is not None
        name, side = self.members.split()
        held = sets.get(name)
        address = flow.source if side == "src" else flow.destination
        return held is not None and any(word in held.elements for word in _words(address))


def _words(address: IpAddress) -> Iterator[str]:
    yield str(address)
    for length in range(address.max_prefixlen - 1, 0, -1):
        yield str(ip_network((address, length), strict=False))


@lru_cache(maxsize=65536)
def read_clause(line: str) -> ParsedRule:
    """A rule of a group's chain, as we or iptables wrote it."""
    words = [word.strip('"') for word in _WORD.findall(line)]
    options = dict(pairwise(words))
    target = options.get("-j", "")
    if "--ctstate" in options or "--u32" in options or not target:
        return ParsedRule(never=True)
    _, _, name = target.partition("-")
    macs = name if name[:1] in (SENDING_MACS, TAKING_MACS) else None
    ports = options.get("--dport") or options.get("--dports") or "0:65535"
    first, _, last = ports.partition(":")
    members = None
    if "--match-set" in options:
        at = words.index("--match-set")
        members = f"{words[at + 1].partition('-')[2]} {words[at + 2]}"
    return ParsedRule(
        source=ip_network(options["-s"]) if "-s" in options else None,
        destination=ip_network(options["-d"]) if "-d" in options else None,
        protocol=_protocol(options.get("-p")),
        first_port=int(first),
        last_port=int(last or first),
        icmp=options.get("--icmp-type") or options.get("--icmpv6-type"),
        members=members,
        macs=macs,
    )


def _protocol(word: str | None) -> int | None:
    if word is None:
        return None
    return int(word) if word.isdigit() else NUMBERS.get(word, -1)


@frozen(kw_only=True)
class ConnectionEvaluator:
    """Judges connections by what the firewall holds."""

    picture: RulesetIndex
    chains: Mapping[ChainKey, tuple[str, ...]]
    sets: Mapping[str, KernelSet]

    def denied(self, ports: Iterable[PortId]) -> Callable[[Connection], bool]:
        """Whether a connection is one of *ports* that no rule allows any more."""
        held = self.picture.ports
        concerned = {id for id in ports if id in held and not held[id].trusted}
        bridges = {held[id].place.bridge for id in concerned} & self.picture.zones.keys()
        zones = {self.picture.zones[bridge].number for bridge in bridges}
        neighbours: dict[int | None, set[PortId]] = {zone: set() for zone in zones}
        for bridge, zone in self.picture.zones.items():
            if zone.number in neighbours:
                neighbours[zone.number] |= self.picture.on_bridge.get(bridge, set())

        def is_denied(connection: Connection) -> bool:
            there = neighbours.get(connection.zone)
            if not there:
                return False
            flow = connection.original
            return self._refused(flow.source, flow, there, concerned, Direction.EGRESS) or (
                self._refused(flow.destination, flow, there, concerned, Direction.INGRESS)
            )

        return is_denied

    def _refused(
        self,
        address: IpAddress,
        flow: Flow,
        there: Iterable[PortId],
        concerned: Container[PortId],
        direction: Direction,
    ) -> bool:
        """Whether those whose address this is are among the concerned, and none allows it."""
        owners = self._owners(address, there)
        if not owners or any(id not in concerned for id in owners):
            return False
        return not any(self._allows(self.picture.ports[id], flow, direction) for id in owners)

    def _owners(self, address: IpAddress, there: Iterable[PortId]) -> list[PortId]:
        """The ports that may have *address*: those with the longest prefix that it is in."""
        best, found = -1, list[PortId]()
        for id in there:
            for prefix in self.picture.sources.get((id, address.version), ()):
                if address not in prefix or prefix.prefixlen < best:
                    continue
                if prefix.prefixlen > best:
                    best, found = prefix.prefixlen, []
                found.append(id)
        return found

    def _allows(self, port: HeldPort, flow: Flow, direction: Direction) -> bool:
        family = flow.source.version
        return any(self._lets(group, family, flow, direction) for group in port.groups)

    def _lets(self, group: SecurityGroupId, family: int, flow: Flow, direction: Direction) -> bool:
        lines = self.chains.get(group_key(group, family, direction), ())
        macs = (read_clause(line).macs for line in lines)
        full = {name for name in macs if name and self.chains.get(in_table(family, name))}
        return any(read_clause(line).takes(flow, self.sets, full) for line in lines)
