"""Rules of floating IPs, and the floating IPs that rules in force belong to.  Pure.

Each rule carries the id of its floating IP as a comment, so that the kernel is the only record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from ipaddress import ip_address, ip_interface, ip_network
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.values.keys import FloatingIpKey
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import ACCEPT, Family, IptablesRule, target
from netfw.model.values.address import IpAddress, IpInterface
from netfw.model.values.ids import FloatingIpId

DNAT, SNAT, SCOPE = "float-dnat", "float-snat", "float-scope"
"""Chains with one rule for each floating IP: to its port, from its port, past the address scopes.
They exist while the router has a gateway with an address of the family; the last one only if the
address scopes keep anything from leaving.  Their order does not matter, so that new rules are added
at the end: to insert one elsewhere, iptables reads the whole chain."""

CACHED = 8192
"""Limit of cached rules: the rules of a router are rendered and parsed again whenever one of its
floating IPs changes."""

_TABLES = {DNAT: "nat", SNAT: "nat", SCOPE: "mangle"}
COMMENT = "fip-"
"""Begin of the comment by which a rule names its floating IP."""
_COMMENT_ID = re.compile(rf"--comment \"?{COMMENT}([0-9a-f-]{{36}})\"?(?: |$)")
_DNAT_LINE = re.compile(
    rf"-d (?P<floating>\S+) -m comment --comment \"?{COMMENT}(?P<id>[0-9a-f-]{{36}})\"? "
    r"-j DNAT --to-destination (?P<fixed>\S+)"
)


@frozen(cache_hash=True)
class Translation:
    """The addresses of a floating IP and of its port."""

    floating: IpAddress
    fixed: IpAddress
    family: Family = field(init=False, eq=False, repr=False)

    @family.default
    def _family(self) -> Family:
        return Family(self.floating.version)


Translations = Mapping[FloatingIpId, Translation]


@cache
def float_chain(name: str, family: Family) -> ChainKey:
    """Return the key of one of the chains of floating IPs."""
    return ChainKey(family=family, table=_TABLES[name], name=name)


def render_float_chains(
    names: Iterable[str], family: Family, translations: Translations
) -> dict[ChainKey, Chain]:
    """Render the chains *names* of one family; each rule is owned by its floating IP."""
    own = of_family(translations, family)
    return {
        float_chain(name, family): Chain(tuple(_rule(name, *each) for each in own.items()))
        for name in names
    }


def by_address(translations: Translations) -> dict[IpAddress, tuple[FloatingIpId, IpAddress]]:
    """Return, by floating address, the floating IP and the address of its port."""
    return {each.floating: (id, each.fixed) for id, each in translations.items()}


@lru_cache(CACHED)
def floating_interface(address: IpAddress) -> IpInterface:
    """Return the address of a floating IP as one of a device."""
    return ip_interface(address)


def of_family(translations: Translations, family: Family) -> dict[FloatingIpId, Translation]:
    """Return the translations of one family."""
    return {id: each for id, each in translations.items() if each.family is family}


@lru_cache(CACHED)
def _rule(name: str, id: FloatingIpId, each: Translation) -> IptablesRule:
    comment, owner = f"{COMMENT}{id}", FloatingIpKey(id)
    if name == DNAT:
        to = target("DNAT", to_destination=str(each.fixed))
        return IptablesRule(destination=each.floating, comment=comment, target=to, owner=owner)
    source = target("SNAT", to_source=str(each.floating)) if name == SNAT else ACCEPT
    return IptablesRule(source=each.fixed, comment=comment, target=source, owner=owner)


@lru_cache(CACHED)
def parse_translation(line: str) -> tuple[FloatingIpId, Translation] | None:
    """Return the floating IP that a rule of ``float-dnat`` is about; None if it is none."""
    found = _DNAT_LINE.fullmatch(line)
    if found is None:
        return None
    try:
        id = FloatingIpId(UUID(found["id"]))
        floating = ip_network(found["floating"]).network_address
        return id, Translation(floating, ip_address(found["fixed"]))
    except ValueError:
        return None


@lru_cache(CACHED)
def parse_comment(line: str) -> str | None:
    """Return the id of the floating IP that a rule names; None if it names none."""
    found = _COMMENT_ID.search(line)
    return None if found is None else found[1]


def present_float_chains(chains: Iterable[ChainKey]) -> Iterator[tuple[Family, str]]:
    """Yield the chains of floating IPs that are among *chains*."""
    there = frozenset(chains)
    for family in Family:
        for name in (DNAT, SNAT, SCOPE):
            if float_chain(name, family) in there:
                yield family, name
