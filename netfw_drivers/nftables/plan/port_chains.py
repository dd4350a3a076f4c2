"""The chains of a port, and those that all ports share.  Pure.

What a port sends is checked twice: is the port its source (``frames-...``, before connections are
tracked), and is it harmless in itself or let out by a group (``out4-...``)?  What is sent to a port
is checked when it is known to go there (``in4-...``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from ipaddress import IPv4Network, ip_network
from typing import Any
from uuid import UUID

from attrs import frozen

from netfw.drivers.firewall import FilteredPort
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.linux.bridge_firewall.values import PortLocation, check_device
from netfw.linux.nftables.values import Hook, NftChain, NftRule, make_rule
from netfw.model.values.address import IpNetwork, Mac, parse_network
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.nftables.plan.expressions import (
    ACCEPT,
    DROP,
    RETURN,
    Statement,
    clear_state,
    concat,
    goto,
    jump,
    mac_is,
    match,
    meta,
    payload,
    prefix_value,
    set_state,
    udp,
    within,
)
from netfw_drivers.nftables.plan.expressions import INVALID as INVALID_STATE
from netfw_drivers.nftables.plan.expressions import RELATED as RELATED_STATE
from netfw_drivers.nftables.plan.expressions import REPLY as REPLY_STATE
from netfw_drivers.nftables.plan.expressions import vmap as verdict_map
from netfw_drivers.nftables.plan.names import (
    EGRESS,
    FAMILIES,
    IN,
    INGRESS,
    OUT,
    chain_name,
    frames_name,
)

GUARDS, SENDERS, RECEIVERS, FILTERED = "guards", "senders", "receivers", "filtered"
"""Maps from devices to the chains of their ports, and the set of filtered devices."""
BRIDGES, TRACKED = "bridges", "tracked"
"""Map from bridges to the zones of their networks, and the set of those with a zone."""
UNTRACKED, UNADDRESSED = "untracked", "unaddressed"

_NO_IPV4, _NO_IPV6 = "0.0.0.0", "::"
_ICMPV6 = 58
_NEIGHBOUR_SOLICITATION, _NEIGHBOUR_ADVERTISEMENT = 135, 136
_TARGET = {"payload": {"base": "nh", "offset": 384, "len": 128}}
"""The address that neighbour discovery is about, if ICMPv6 follows the header of IPv6 at once."""
_NOTE = re.compile(r"(?P<device>\S+) on (?P<bridge>\S+) in network (?P<network>\S+)")
_BEFORE_DEFRAGMENTATION = -450
"""Priority at which zones are assigned: the kernel reassembles fragments (-400) by zone, so that
those of networks with equal addresses stay apart."""
_NOT_IP = {"set": ["ip", "arp", "ip6"]}


@frozen(kw_only=True)
class NftChainComment:
    """Comment at the end of a port's chains, for operators and for the next start."""

    location: PortLocation
    network: NetworkId
    trusted: bool

    @property
    def rule(self) -> NftRule:
        """Last rule of the port's chains."""
        text = f"{self.location.device} on {self.location.bridge} in network {self.network}"
        return make_rule(ACCEPT if self.trusted else DROP, comment=text)


def read_note(rule: NftRule) -> NftChainComment | None:
    """Parse a note from a rule; ``None``: the rule has none."""
    found = _NOTE.fullmatch(rule.comment)
    if found is None:
        return None
    try:
        network = NetworkId(UUID(found["network"]))
    except ValueError:
        return None
    location = PortLocation(found["device"], found["bridge"])
    return NftChainComment(location=location, network=network, trusted="accept" in rule.text)


def port_chain_names(id: PortId) -> list[str]:
    """Return the names of all chains that a port may have."""
    names = [chain_name(kind, family, id) for family in FAMILIES for kind in (IN, OUT)]
    return [*names, frames_name(id)]


def port_chains(id: PortId, port: FilteredPort, location: PortLocation) -> dict[str, NftChain]:
    """Render *port* as chains; a trusted one has only a note.

    :raises InvalidInput: the name of a device that a backend could misread.
    """
    check_device(location.device)
    check_device(location.bridge)
    note = NftChainComment(location=location, network=port.network, trusted=port.trusted).rule
    if port.trusted:
        return {chain_name(IN, 4, id): NftChain((note,))}
    chains = {frames_name(id): NftChain((*_frames(port), make_rule(DROP)))}
    for family in FAMILIES:
        entering = _groups(port, INGRESS, family)
        leaving = _groups(port, EGRESS, family)
        received = (_to(f"basics-in{family}"), *entering, note)
        chains[chain_name(IN, family, id)] = NftChain(received)
        own = (*_addressing(port, family), _to(f"basics-out{family}"), *leaving, note)
        chains[chain_name(OUT, family, id)] = NftChain(own)
    return chains


def dispatch_elements(id: PortId, device: str) -> dict[str, dict[tuple[str, ...], str]]:
    """Return the elements, by set and map, that lead packets of a device to a port's chains."""
    protocols = {"ip": 4, "ip6": 6}
    return {
        FILTERED: {(device,): ""},
        GUARDS: {(device,): frames_name(id)},
        SENDERS: {(name, device): chain_name(OUT, f, id) for name, f in protocols.items()},
        RECEIVERS: {(name, device): chain_name(IN, f, id) for name, f in protocols.items()},
    }


def _groups(port: FilteredPort, kind: str, family: int) -> list[NftRule]:
    return [_to(chain_name(kind, family, group)) for group in sorted(port.groups)]


@cache
def _to(chain: str) -> NftRule:
    return make_rule(jump(chain))


def _frames(port: FilteredPort) -> Iterator[NftRule]:
    """Render which frames a port may send: from its sources, or without an address yet.

    ARP without a sender's address is a probe, which is for the port's own addresses only.
    """
    for mac in sorted({port.mac, *(source.mac for source in port.sources)}):
        prefixes = sorted({s.prefix for s in port.sources if s.mac == mac}, key=_by_family)
        v4 = [prefix for prefix in prefixes if isinstance(prefix, IPv4Network)]
        for prefix in prefixes:
            yield make_rule(mac_is(mac), *within(prefix, "saddr"), RETURN)
        dhcp = match(payload("ip", "saddr"), _NO_IPV4), *udp(68, 67)
        yield make_rule(mac_is(mac), *dhcp, RETURN)
        unaddressed = match(payload("ip6", "saddr"), _NO_IPV6), _icmpv6()
        yield make_rule(mac_is(mac), *unaddressed, RETURN)
        probe = match(payload("arp", "saddr ip"), _NO_IPV4)
        for prefix in v4:
            yield make_rule(*_arp(mac), probe, *_arp_within(prefix, "daddr ip"), RETURN)
        yield make_rule(*_arp(mac), probe, DROP)
        for prefix in v4:
            yield make_rule(*_arp(mac), *_arp_within(prefix, "saddr ip"), RETURN)


def _arp(mac: Mac) -> tuple[Statement, Statement]:
    return mac_is(mac), match(payload("arp", "saddr ether"), str(mac))


def _arp_within(prefix: IPv4Network, field: str) -> list[Statement]:
    return [match(payload("arp", field), prefix_value(prefix))] if prefix.prefixlen else []


def _icmpv6() -> Statement:
    return match(meta("l4proto"), _ICMPV6)


def _by_family(prefix: IpNetwork) -> tuple[int, str]:
    return prefix.version, str(prefix)


@lru_cache(maxsize=65536)
def read_source(text: str) -> IpNetwork | None:
    """Parse the prefix that a rule of ``frames-...`` lets a port send from."""
    statements: list[dict[str, Any]] = json.loads(text)
    matches = [each["match"] for each in statements if "match" in each]
    if len(matches) != 2 or statements[-1] != RETURN:
        return None
    left, right = matches[1]["left"], matches[1]["right"]
    if left == meta("protocol"):
        return ip_network("0.0.0.0/0" if right == "ip" else "::/0")
    if left not in (payload("ip", "saddr"), payload("ip6", "saddr")):
        return None
    match right:
        case str():
            return parse_network(right)
        case {"prefix": {"addr": first, "len": length}}:
            return parse_network(f"{first}/{length}")
    return None  # a rule of another program


def _addressing(port: FilteredPort, family: int) -> Iterator[NftRule]:
    """Render address configuration, and neighbour discovery for the port's own addresses."""
    if family == 4:
        yield make_rule(match(payload("ip", "saddr"), _NO_IPV4), *udp(68, 67), ACCEPT)
        return
    ours = {source for source in port.sources if source.prefix.version == 6}
    unaddressed = match(payload("ip6", "saddr"), _NO_IPV6)
    for source in sorted(ours, key=_by_mac_and_prefix):
        probes = _neighbour(_NEIGHBOUR_SOLICITATION, source.prefix)
        yield make_rule(mac_is(source.mac), unaddressed, *probes, ACCEPT)
    yield make_rule(unaddressed, _icmpv6(), goto(UNADDRESSED))
    for prefix in sorted({source.prefix for source in ours}, key=str):
        yield make_rule(*_neighbour(_NEIGHBOUR_ADVERTISEMENT, prefix), ACCEPT)


def _by_mac_and_prefix(source: AllowedSource) -> tuple[Mac, str]:
    return source.mac, str(source.prefix)


def _neighbour(kind: int, target: IpNetwork) -> list[Statement]:
    """Match neighbour discovery of an address in *target*."""
    statements = [
        match(payload("ip6", "nexthdr"), _ICMPV6),
        match(payload("ip6", "hoplimit"), 255),
        match(payload("icmpv6", "type"), kind),
    ]
    if target.prefixlen:
        wanted = f"0x{int(target.network_address):032x}"
        mask = f"0x{int(target.netmask):032x}"
        whole = target.prefixlen == target.max_prefixlen
        statements.append(match(_TARGET if whole else {"&": [_TARGET, mask]}, wanted))
    return statements


def _types(*kinds: int, verdict: Statement) -> NftRule:
    return make_rule(match(payload("icmpv6", "type"), {"set": sorted(kinds)}), verdict)


@cache
def shared_chains() -> dict[str, NftChain]:
    """Build the chains of the bridge family that packets of all ports pass."""
    server4, server6 = (match(payload("udp", "dport"), port) for port in (68, 546))
    out6 = (
        _types(134, 136, verdict=DROP),
        _types(131, 132, 133, 135, 143, verdict=ACCEPT),
        make_rule(server6, DROP),
        make_rule(*udp(546, 547), ACCEPT),
    )
    in6 = _types(130, 131, 132, 134, 135, 136, 143, verdict=ACCEPT)
    return {
        "guard": NftChain(tuple(_guard()), Hook("prerouting", -310)),
        "sent": NftChain((_dispatch("iifname", SENDERS),), Hook("prerouting", 100)),
        "taken": NftChain(
            (_only_ip("oifname"), _dispatch("oifname", RECEIVERS)), Hook("forward", 100)
        ),
        "basics-out4": NftChain((make_rule(server4, DROP), make_rule(*udp(68, 67), ACCEPT))),
        "basics-in4": NftChain((make_rule(*udp(67, 68), ACCEPT),)),
        "basics-out6": NftChain(out6),
        "basics-in6": NftChain((in6, make_rule(*udp(547, 546), ACCEPT))),
        UNADDRESSED: NftChain((_types(131, 132, 133, 143, verdict=ACCEPT), make_rule(DROP))),
    }


def _only_ip(direction: str) -> NftRule:
    """Drop what is not IPv4, IPv6 or ARP, frames with a VLAN tag included."""
    filtered = match(meta(direction), f"@{FILTERED}")
    return make_rule(filtered, match(payload("ether", "type"), _NOT_IP, "!="), DROP)


def _guard() -> Iterator[NftRule]:
    yield _only_ip("iifname")
    filtered = match(meta("iifname"), f"@{FILTERED}")
    for field, value in (("htype", 1), ("ptype", "ip"), ("hlen", 6), ("plen", 4)):
        yield make_rule(filtered, match(payload("arp", field), value, "!="), DROP)
    yield make_rule(verdict_map(meta("iifname"), f"@{GUARDS}"))


def _dispatch(direction: str, name: str) -> NftRule:
    return make_rule(verdict_map(concat(meta("protocol"), meta(direction)), f"@{name}"))


@cache
def tracking_chains() -> dict[str, NftChain]:
    """Build the chains of the inet family: zones of bridges, and the state of connections.

    The state is in the mark while a packet crosses a bridge of ours, and is removed when it leaves.
    """
    tracked = match(meta("iifname"), f"@{TRACKED}")
    state = {"ct": {"key": "state"}}
    reply = match({"ct": {"key": "direction"}}, 1)
    leaving = match(meta("oifname"), f"@{TRACKED}")
    states = (
        make_rule(tracked, clear_state()),
        make_rule(tracked, match(state, 1, "in"), set_state(INVALID_STATE)),
        make_rule(tracked, match(state, 4, "in"), set_state(RELATED_STATE)),
        make_rule(tracked, match(state, 2, "in"), reply, set_state(REPLY_STATE)),
    )
    return {
        "zones": NftChain((_zone_of("iifname"),), Hook("prerouting", _BEFORE_DEFRAGMENTATION)),
        "zones-sent": NftChain((_zone_of("oifname"),), Hook("output", _BEFORE_DEFRAGMENTATION)),
        "states": NftChain(states, Hook("prerouting", -150)),
        "leaving": NftChain((make_rule(leaving, clear_state()),), Hook("postrouting", 300)),
        "arriving": NftChain((make_rule(tracked, clear_state()),), Hook("input", -150)),
        UNTRACKED: NftChain((make_rule({"notrack": None}),)),
    }


def _zone_of(direction: str) -> NftRule:
    return make_rule(verdict_map(meta(direction), f"@{BRIDGES}"))


def zone_chain(number: int) -> NftChain:
    """Build the chain that assigns a conntrack zone."""
    return NftChain((make_rule({"mangle": {"key": {"ct": {"key": "zone"}}, "value": number}}),))


@lru_cache(maxsize=4096)
def read_zone(text: str) -> int | None:
    """Parse the number from a rule of :func:`zone_chain`."""
    statements = json.loads(text)
    value = statements[0].get("mangle", {}).get("value")
    return value if isinstance(value, int) else None
