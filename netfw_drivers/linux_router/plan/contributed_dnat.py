"""Ports that rules of extensions translate.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network
from itertools import pairwise

from attrs import frozen

from netfw.drivers.values.router_contribution import RouterContribution, RuleChain, RuleTable
from netfw.errors import InvalidInput
from netfw.linux.conntrack.entry import PROTOCOLS
from netfw.linux.iptables.mirror import ChainMirror
from netfw.model.values.address import IpAddress
from netfw.model.values.port_range import PortRange
from netfw_drivers.linux_router.plan.names import EXTENSION_SUFFIXES

_HOOK = RuleTable.NAT, RuleChain.PREROUTING


@frozen
class TranslatedPorts:
    """Ports of an address, and the destination that a rule gives to packets to them."""

    address: IpAddress
    protocol: str
    ports: PortRange
    destination: str


def contributed_ports(contributions: Iterable[RouterContribution]) -> Iterator[TranslatedPorts]:
    """Yield the ports that *contributions* translate."""
    for contribution in contributions:
        for rule in contribution.rules:
            if (rule.table, rule.chain) == _HOOK:
                yield from parse_dnat_rule(rule.words)


def present_ports(present: ChainMirror) -> Iterator[TranslatedPorts]:
    """Yield the ports that rules in force translate."""
    suffix = EXTENSION_SUFFIXES[RuleChain.PREROUTING]
    for key, lines in present.chains.items():
        if key.table == RuleTable.NAT and key.name.endswith(suffix):
            for line in lines:
                yield from parse_dnat_rule(line.split())


def parse_dnat_rule(words: Sequence[str]) -> Iterator[TranslatedPorts]:
    """Yield the ports that a rule translates; nothing if it is no such rule."""
    options = dict(pairwise(words))
    protocol = options.get("-p", "")
    try:
        address = ip_network(options["-d"]).network_address
        ports = parse_ports(options["--dport"])
        destination = options["--to-destination"]
    except (KeyError, ValueError, InvalidInput):
        return
    if protocol in PROTOCOLS:
        yield TranslatedPorts(address, protocol, ports, destination)


def parse_ports(text: str) -> PortRange:
    """Parse ports as iptables prints them.

    :raises ValueError: not numbers.
    :raises InvalidInput: not a range of ports.
    """
    first, _, last = text.partition(":")
    return PortRange(int(first), int(last or first))
