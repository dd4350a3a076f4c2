"""The chains of a port, and those that all ports share.  Pure.

What a port sends is checked when it comes in: is the port its source, is it harmless in itself
(DHCP, neighbour discovery), does one of its groups let it out?  What is sent to a port is checked
when it is known to go there: is it harmless, does one of its groups let it in?
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from ipaddress import IPv4Network, IPv6Network
from uuid import UUID

from attrs import evolve, frozen

from netfw.drivers.firewall import FilteredPort
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.linux.bridge_firewall.values import PortLocation, check_device
from netfw.linux.ebtables.chains import FrameChain, FrameRule
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import (
    ACCEPT,
    DROP,
    RETURN,
    Family,
    IptablesMatch,
    IptablesRule,
    Jump,
    match,
)
from netfw.model.security_group import Direction
from netfw.model.values.address import IpNetwork, Mac, parse_network
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.iptables.plan.group_chains import Chains, group_key, in_table
from netfw_drivers.iptables.plan.names import FRAMES, RECEIVED, SENT, SOURCES, short

NO_IPV4, NO_IPV6 = IPv4Network("0.0.0.0/32"), IPv6Network("::/128")

BASICS_OUT, BASICS_IN = "basics-out", "basics-in"
"""Chains of packets that every port may, or must not, exchange."""

_NOTE = re.compile(
    r'--comment "port (?P<port>\S+) is (?P<device>\S+) on (?P<bridge>\S+)'
    r' in network (?P<network>\S+)" -j (?P<target>ACCEPT|DROP)$'
)
_SOURCE = re.compile(r"(?:-s (?P<prefix>\S+) )?-m mac --mac-source (?P<mac>\S+) -j RETURN")


@frozen(kw_only=True)
class IptablesChainComment:
    """Comment at the end of a port's chains, for operators and for the next start."""

    port: PortId
    location: PortLocation
    network: NetworkId
    trusted: bool

    @property
    def rule(self) -> IptablesRule:
        """Last rule of the port's chains."""
        text = (
            f"port {self.port} is {self.location.device} on {self.location.bridge}"
            f" in network {self.network}"
        )
        return IptablesRule(target=ACCEPT if self.trusted else DROP, comment=text)


def read_note(line: str) -> IptablesChainComment | None:
    """Parse a note from a rule; ``None``: the rule has none."""
    found = _NOTE.search(line)
    if found is None:
        return None
    try:
        port, network = UUID(found["port"]), UUID(found["network"])
    except ValueError:
        return None
    location = PortLocation(found["device"], found["bridge"])
    trusted = found["target"] == "ACCEPT"
    return IptablesChainComment(
        port=PortId(port), location=location, network=NetworkId(network), trusted=trusted
    )


def read_source(line: str, family: int) -> IpNetwork | None:
    """Parse the source prefix of a rule."""
    found = _SOURCE.fullmatch(line)
    if found is None:
        return None
    return parse_network(found["prefix"] or ("0.0.0.0/0" if family == 4 else "::/0"))


def port_keys(id: PortId) -> list[ChainKey]:
    """Return the keys of all chains that a port may have."""
    kinds = (SENT, SOURCES, RECEIVED)
    return [in_table(family, f"{kind}{short(id)}") for family in Family for kind in kinds]


def port_chains(id: PortId, port: FilteredPort, location: PortLocation) -> Chains:
    """Render *port* as chains.

    :raises InvalidInput: iptables could misread a value.
    """
    check_device(location.device)
    check_device(location.bridge)
    note = IptablesChainComment(
        port=id, location=location, network=port.network, trusted=port.trusted
    ).rule
    chains: Chains = {}
    for key in port_keys(id):
        kind, family = key.name[0], key.family
        if port.trusted:
            if kind != SOURCES:
                chains[key] = Chain((note,))
        elif kind == SENT:
            chains[key] = Chain((*_sent(id, port, family), note))
        elif kind == SOURCES:
            chains[key] = Chain((*_sources(port, family), _DROPPED))
        else:
            groups = _groups(port, family, Direction.INGRESS)
            chains[key] = Chain((_to(BASICS_IN), *groups, note))
    return chains


def _sent(id: PortId, port: FilteredPort, family: Family) -> Iterable[IptablesRule]:
    """Render address configuration first, then the check of source addresses and the rules."""
    if family is Family.IPV6:
        ours = {source for source in port.sources if source.prefix.version == 6}
        yield from (_probes(source) for source in sorted(ours, key=_by_mac_and_prefix))
    yield from (_unaddressed(mac, family) for mac in _macs(port))
    yield _to(f"{SOURCES}{short(id)}")
    if family is Family.IPV6:
        targets = {source.prefix for source in port.sources if source.prefix.version == 6}
        yield from (_advertises(target) for target in sorted(targets, key=_by_text))
    yield _to(BASICS_OUT)
    yield from _groups(port, family, Direction.EGRESS)


def _groups(port: FilteredPort, family: Family, direction: Direction) -> list[IptablesRule]:
    names = [group_key(group, family, direction).name for group in port.groups]
    return [_to(name) for name in sorted(names)]


def _sources(port: FilteredPort, family: Family) -> Iterable[IptablesRule]:
    ours = {source for source in port.sources if source.prefix.version == family}
    for source in sorted(ours, key=_by_mac_and_prefix):
        yield IptablesRule(target=RETURN, source=source.prefix, matches=(_mac(source.mac),))


def _macs(port: FilteredPort) -> list[Mac]:
    return sorted({port.mac, *(source.mac for source in port.sources)})


def _by_text(prefix: IpNetwork) -> str:
    return str(prefix)


def _by_mac_and_prefix(source: AllowedSource) -> tuple[Mac, str]:
    return source.mac, str(source.prefix)


@cache
def _to(chain: str) -> IptablesRule:
    return IptablesRule(target=Jump(chain))


@cache
def _mac(mac: Mac) -> IptablesMatch:
    return match("mac", mac_source=mac)


@cache
def _unaddressed(mac: Mac, family: Family) -> IptablesRule:
    if family is Family.IPV4:
        dhcp = match("udp", sport="68", dport="67")
        return IptablesRule(
            target=ACCEPT, source=NO_IPV4, protocol="udp", matches=(_mac(mac), dhcp)
        )
    return IptablesRule(
        target=Jump(UNADDRESSED), source=NO_IPV6, protocol="ipv6-icmp", matches=(_mac(mac),)
    )


def _advertises(target: IpNetwork) -> IptablesRule:
    """Accept a neighbour advertisement for an address in *target*."""
    return IptablesRule(target=ACCEPT, protocol="ipv6-icmp", matches=_neighbour(136, target))


def _probes(source: AllowedSource) -> IptablesRule:
    """Accept duplicate address detection for an address of *source*."""
    matches = (_mac(source.mac), *_neighbour(135, source.prefix))
    return IptablesRule(target=ACCEPT, source=NO_IPV6, protocol="ipv6-icmp", matches=matches)


def _neighbour(kind: int, target: IpNetwork) -> tuple[IptablesMatch, IptablesMatch]:
    """Match neighbour discovery of an address in *target*.

    The header of ICMPv6 has to follow that of IPv6 at once, or what is compared here would be
    something of the sender's choice.
    """
    words = ["0x4&0xffff=0x3aff"]
    address, left = int(target.network_address), target.prefixlen
    for at in range(4):
        bits = min(32, max(0, left - 32 * at))
        if bits:
            part = address >> (96 - 32 * at) & 0xFFFFFFFF
            mask = (0xFFFFFFFF << (32 - bits)) & 0xFFFFFFFF
            offset = hex(48 + 4 * at)
            words.append(f"{offset}={part:#x}" if bits == 32 else f"{offset}&{mask:#x}={part:#x}")
    return match("icmp6", icmpv6_type=str(kind)), match("u32", u32="&&".join(words))


UNADDRESSED = "unaddressed"
_DROPPED = IptablesRule(target=DROP)


def _icmp6(kind: int, accept: bool) -> IptablesRule:
    return IptablesRule(
        target=ACCEPT if accept else DROP,
        protocol="ipv6-icmp",
        matches=(match("icmp6", icmpv6_type=str(kind)),),
    )


def _accept_udp(source: int, destination: int) -> IptablesRule:
    ports = match("udp", sport=str(source), dport=str(destination))
    return IptablesRule(target=ACCEPT, protocol="udp", matches=(ports,))


def _drop_udp(destination: int) -> IptablesRule:
    """Drop what a DHCP server sends: clients accept it from any source port."""
    return IptablesRule(
        target=DROP, protocol="udp", matches=(match("udp", dport=str(destination)),)
    )


@cache
def basics(family: Family) -> Chains:
    """Build the chains that the chains of all ports jump to."""
    key_in, key_out = in_table(family, BASICS_IN), in_table(family, BASICS_OUT)
    if family is Family.IPV4:
        return {
            key_out: Chain((_drop_udp(68), _accept_udp(68, 67))),
            key_in: Chain((_accept_udp(67, 68),)),
        }
    out = [_icmp6(kind, accept=False) for kind in (134, 136)]
    out += [_icmp6(kind, accept=True) for kind in (131, 132, 133, 135, 143)]
    out += [_drop_udp(546), _accept_udp(546, 547)]
    unaddressed = [_icmp6(kind, accept=True) for kind in (131, 132, 133, 143)]
    received = [_icmp6(kind, accept=True) for kind in (130, 131, 132, 134, 135, 136, 143)]
    return {
        in_table(family, UNADDRESSED): Chain((*unaddressed, _DROPPED)),
        key_out: Chain(tuple(out)),
        key_in: Chain((*received, _accept_udp(547, 546))),
    }


def frames_name(id: PortId) -> str:
    """Return the name of the chain of frames that a port may send."""
    return f"{FRAMES}{short(id)}"


def frames_chain(port: FilteredPort) -> FrameChain:
    """Accept IPv4, IPv6 and ARP from the port's MAC addresses, ARP only for its addresses.

    ARP without a sender's address is a probe, which is only for its addresses, too.
    """
    rules: list[FrameRule] = []
    for mac in _macs(port):
        rules += [FrameRule(protocol=name, source=mac) for name in ("IPv4", "IPv6")]
        prefixes = {source.prefix for source in port.sources if source.mac == mac}
        v4 = sorted(prefix for prefix in prefixes if isinstance(prefix, IPv4Network))
        rules += [_arp(mac, NO_IPV4, target=prefix) for prefix in v4]
        rules.append(evolve(_arp(mac, NO_IPV4), verdict="DROP"))
        rules += [_arp(mac, prefix) for prefix in v4]
    return FrameChain(tuple(rules), policy="DROP")


def _arp(mac: Mac, sender: IPv4Network, target: IPv4Network | None = None) -> FrameRule:
    return FrameRule(protocol="ARP", source=mac, arp_source=sender, arp_target=target, arp_mac=mac)
