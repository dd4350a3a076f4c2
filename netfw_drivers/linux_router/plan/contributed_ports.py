"""Connections to ports that extensions translate: they end when the rule changes.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network
from itertools import pairwise

from attrs import frozen

from netfw.drivers.contribution import RouterContribution, RuleChain, RuleTable
from netfw.drivers.keys import RouterKey
from netfw.errors import InvalidInput
from netfw.linux.conntrack.entry import PROTOCOLS
from netfw.linux.iptables.mirror import Mirror
from netfw.linux.service_netns.steps import RemoveConnections, RestoreTables
from netfw.model.address import IpAddress
from netfw.model.port_range import PortRange
from netfw.plan import Operation, Stage
from netfw_drivers.linux_router.plan.names import EXTENSION_SUFFIXES

_PLACE = RuleTable.NAT, RuleChain.PREROUTING


@frozen
class TranslatedPorts:
    """Ports of an address, and the destination that a rule gives to packets to them."""

    address: IpAddress
    protocol: str
    ports: PortRange
    destination: str


def plan_ended_connections(
    key: RouterKey,
    netns: str,
    contributions: Iterable[RouterContribution],
    present: Mirror,
    stages: Sequence[Stage],
) -> Iterator[Stage]:
    """Plan the end of connections to ports whose translation *stages* change.

    A connection has the translation of its first packet, also without any: so those end too that
    were tracked before the first rule for their port.  A removed address ends all its connections.
    """
    payloads = (operation.payload for stage in stages for operation in stage.operations)
    if not any(isinstance(payload, RestoreTables) for payload in payloads):
        return
    desired = frozenset(_contributed_ports(contributions))
    found = frozenset(_present_ports(present))
    kept = {each.address for each in desired} & {each.address for each in found}
    changed = {each for each in desired ^ found if each.address in kept}
    ended = {(each.address, each.protocol, each.ports) for each in changed}
    for address, protocol, ports in sorted(ended, key=str):
        step = RemoveConnections(netns, address, protocol, ports)
        yield Stage((Operation(step.backend, step.text, frozenset({key}), step),))


def _contributed_ports(contributions: Iterable[RouterContribution]) -> Iterator[TranslatedPorts]:
    for contribution in contributions:
        for rule in contribution.rules:
            if (rule.table, rule.chain) == _PLACE:
                yield from parse_rule(rule.words)


def _present_ports(present: Mirror) -> Iterator[TranslatedPorts]:
    suffix = EXTENSION_SUFFIXES[RuleChain.PREROUTING]
    for key, lines in present.chains.items():
        if key.table == RuleTable.NAT and key.name.endswith(suffix):
            for line in lines:
                yield from parse_rule(line.split())


def parse_rule(words: Sequence[str]) -> Iterator[TranslatedPorts]:
    """Yield the ports that a rule translates; nothing if it is no such rule."""
    options = dict(pairwise(words))
    protocol = options.get("-p", "")
    try:
        address = ip_network(options["-d"]).network_address
        first, _, last = options["--dport"].partition(":")
        ports = PortRange(int(first), int(last or first))
        destination = options["--to-destination"]
    except (KeyError, ValueError, InvalidInput):
        return
    if protocol in PROTOCOLS:
        yield TranslatedPorts(address, protocol, ports, destination)
