"""Index of the installed rules, parsed from the chains, sets and maps.

They are the only record: a driver that starts reads what its predecessor installed, and what was
changed by hand since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set

from attrs import define, field

from netfw.drivers.firewall import Member
from netfw.linux.bridge_firewall.policy_index import PolicyIndex
from netfw.linux.bridge_firewall.remote_groups import Remote, make_mac_member
from netfw.linux.bridge_firewall.values import IndexedPort, SetIndex, Zone
from netfw.linux.nftables.operations import (
    ChangeElements,
    DropNftChain,
    DropNftSet,
    MakeNftSet,
    NftOperation,
    PutNftChain,
)
from netfw.linux.nftables.values import NftChain, NftRuleset, ObjectKey
from netfw.model.values.address import IpNetwork, Mac, parse_mac, parse_network
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId
from netfw_drivers.nftables.plan.group_chains import MACS_KIND, members_kind
from netfw_drivers.nftables.plan.names import (
    EGRESS,
    IN,
    INGRESS,
    read_chain,
    read_frames,
    read_macs,
    read_remote,
    read_set,
    read_zone_name,
)
from netfw_drivers.nftables.plan.port_chains import (
    BRIDGES,
    UNTRACKED,
    read_note,
    read_source,
    read_zone,
)

_JUMP = re.compile(r'"jump":\{"target":"([^"]+)"\}')


@define(kw_only=True)
class NftRulesetIndex(PolicyIndex[str]):
    """Indexes over a ruleset; only the driver updates them."""

    ruleset: NftRuleset
    lengths: SetIndex[Remote, int] = field(factory=SetIndex)
    """Lengths of the prefixes for which there are sets."""
    macs: set[Remote] = field(factory=set)
    """Groups with a set of MAC addresses."""
    numbers: dict[NetworkId, int] = field(factory=dict)
    """Zones by network."""

    @classmethod
    def of(cls, ruleset: NftRuleset) -> NftRulesetIndex:
        """Index all of *ruleset*."""
        index = cls(ruleset=ruleset)
        for key, chain in ruleset.chains.items():
            index._update_chain(key, chain)
        for key in ruleset.sets:
            index._update_set(key, present=True)
        index.zones = index._read_zones()
        return index

    def _read_zones(self) -> dict[str, Zone]:
        found: dict[str, Zone] = {}
        for key, present in self.ruleset.sets.items():
            if key.name == BRIDGES and key.table.family == "inet":
                for (bridge,), target in present.elements.items():
                    zone = self._zone(bridge, target)
                    if zone is not None:
                        found[bridge] = zone
        return found

    def _zone(self, bridge: str, target: str) -> Zone | None:
        if target == UNTRACKED:
            owners = (self.ports[id].network for id in self.on_bridge.get(bridge, ()))
            network = next(owners, None)
            return None if network is None else Zone(None, network)
        found = read_zone_name(target)
        if found is None or found not in self.numbers:
            return None
        return Zone(self.numbers[found], found)

    def members(self) -> Iterator[Member]:
        """Yield the members that sets have."""
        for remote, prefixes, macs in self.elements_by_remote():
            yield from (Member(remote[0], prefix) for prefix in prefixes)
            yield from (make_mac_member(remote, mac) for mac in macs)

    def elements_by_remote(self) -> Iterator[tuple[Remote, Set[IpNetwork], Set[Mac]]]:
        """Yield the elements of each set of ours with members: prefixes, or MAC addresses."""
        for key, present in self.ruleset.sets.items():
            if (found := read_set(key.name)) is not None:
                remote, length = found
                if present.kind == members_kind(remote[1]):
                    prefixes = {parse_network(f"{text}/{length}") for (text,) in present.elements}
                    yield remote, {each for each in prefixes if each is not None}, frozenset()
            elif (with_macs := read_macs(key.name)) is not None and present.kind == MACS_KIND:
                macs = {parse_mac(text) for (text,) in present.elements}
                yield with_macs, frozenset(), {each for each in macs if each is not None}

    def record(self, operations: Iterable[NftOperation]) -> None:
        """Index what *operations* changed; after that of a table, index anew instead."""
        concerns_zones = False
        for operation in operations:
            match operation:
                case PutNftChain(key, chain):
                    self._update_chain(key, chain)
                case DropNftChain(key):
                    self._update_chain(key, None)
                case MakeNftSet(key):
                    self._update_set(key, present=True)
                case DropNftSet(key):
                    self._update_set(key, present=False)
                case ChangeElements(key):
                    pass
                case _:
                    continue
            concerns_zones |= _concerns_zones(key)
        if concerns_zones:
            self.zones = self._read_zones()

    def _update_chain(self, key: ObjectKey, chain: NftChain | None) -> None:
        if (network := read_zone_name(key.name)) is not None:
            self._update_zone(network, chain)
        elif (port := read_frames(key.name)) is not None:
            self._update_sources(PortId(port), chain)
        elif (named := read_chain(key.name)) is not None:
            kind, family, id = named
            if kind == IN and family == 4:
                self._update_port(PortId(id), chain)
            elif kind.startswith((EGRESS, INGRESS)):
                self._update_group(SecurityGroupId(id), key.name, kind, chain)

    def _update_zone(self, network: NetworkId, chain: NftChain | None) -> None:
        number = read_zone(chain.rules[0].text) if chain is not None and chain.rules else None
        if number is None:
            self.numbers.pop(network, None)
        else:
            self.numbers[network] = number

    def _update_sources(self, id: PortId, chain: NftChain | None) -> None:
        for family in (4, 6):
            self.sources.pop((id, family), None)
        if chain is not None:
            found = {read_source(rule.text) for rule in chain.rules} - {None}
            for family in (4, 6):
                own = frozenset(each for each in found if each and each.version == family)
                self.sources[id, family] = own

    def _update_port(self, id: PortId, chain: NftChain | None) -> None:
        note = read_note(chain.rules[-1]) if chain is not None and chain.rules else None
        if chain is None or note is None:
            self.set_port(id, None)
            return
        jumps = (found[1] for rule in chain.rules if (found := _JUMP.search(rule.text)))
        named = (read_chain(name) for name in jumps)
        groups = frozenset(SecurityGroupId(each[2]) for each in named if each is not None)
        port = IndexedPort(
            location=note.location, network=note.network, trusted=note.trusted, groups=groups
        )
        self.set_port(id, port)

    def _update_group(
        self, id: SecurityGroupId, name: str, kind: str, chain: NftChain | None
    ) -> None:
        if chain is None:
            self.set_references(id, name, None)
            return
        jumps = {found[1] for rule in chain.rules if (found := _JUMP.search(rule.text))}
        remotes = frozenset(r for r in map(read_remote, jumps) if r is not None)
        self.set_references(id, name, remotes)
        if kind in (EGRESS, INGRESS):
            self.groups[id] = bool(chain.rules)

    def _update_set(self, key: ObjectKey, *, present: bool) -> None:
        if (found := read_set(key.name)) is not None:
            remote, length = found
            if present:
                self.lengths[remote].add(length)
            else:
                self.lengths.discard_value(remote, length)
        elif (macs := read_macs(key.name)) is not None:
            (self.macs.add if present else self.macs.discard)(macs)


def _concerns_zones(key: ObjectKey) -> bool:
    """Return whether the zones of bridges depend on a chain or set."""
    if key.table.family == "inet":
        return key.name == BRIDGES or read_zone_name(key.name) is not None
    named = read_chain(key.name)
    return named is not None and named[0] == IN  # a bridge that is not tracked is that of a port
