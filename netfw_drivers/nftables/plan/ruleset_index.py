"""Index of the installed rules, parsed from the chains, sets and maps.

They are the only record: a driver that starts reads what its predecessor installed, and what was
changed by hand since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from attrs import define, field

from netfw.drivers.firewall import Member
from netfw.linux.bridge_firewall.values import Index, IndexedPort, Zone
from netfw.linux.nftables.operations import (
    DropChain,
    DropSet,
    MakeSet,
    NftOperation,
    PutChain,
)
from netfw.linux.nftables.values import Chain, ObjectKey, Ruleset
from netfw.model.values.address import IpNetwork, Mac
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId
from netfw_drivers.nftables.plan.names import (
    EGRESS,
    IN,
    INGRESS,
    Remote,
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


@define
class RulesetIndex:
    """Indexes over a ruleset; only the driver updates them."""

    ruleset: Ruleset
    ports: dict[PortId, IndexedPort] = field(factory=dict)
    on_bridge: Index[str, PortId] = field(factory=Index)
    users: Index[SecurityGroupId, PortId] = field(factory=Index)
    """Ports by group."""
    sources: dict[tuple[PortId, int], frozenset[IpNetwork]] = field(factory=dict)
    groups: dict[SecurityGroupId, bool] = field(factory=dict)
    """Groups with chains, and whether each was put."""
    refers: dict[SecurityGroupId, dict[str, frozenset[Remote]]] = field(factory=dict)
    """Remote groups by group and chain."""
    referrers: Index[Remote, SecurityGroupId] = field(factory=Index)
    lengths: Index[Remote, int] = field(factory=Index)
    """Lengths of the prefixes for which there are sets."""
    macs: set[Remote] = field(factory=set)
    """Groups with a set of MAC addresses."""
    numbers: dict[NetworkId, int] = field(factory=dict)
    """Zones by network."""
    _devices: dict[str, PortId] = field(factory=dict)
    _zones: dict[str, Zone] | None = None

    @classmethod
    def of(cls, ruleset: Ruleset) -> RulesetIndex:
        """Index all of *ruleset*."""
        index = cls(ruleset)
        for key, chain in ruleset.chains.items():
            index._update_chain(key, chain)
        for key in ruleset.sets:
            index._update_set(key, present=True)
        return index

    @property
    def zones(self) -> dict[str, Zone]:
        """Zones by bridge."""
        if self._zones is None:
            self._zones = self._read_zones()
        return self._zones

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

    def port_with(self, device: str) -> PortId | None:
        """Return the port that is filtered on *device*."""
        return self._devices.get(device)

    def members(self) -> Iterator[Member]:
        """Yield the members that sets have."""
        for key, present in self.ruleset.sets.items():
            if (found := read_set(key.name)) is not None:
                remote, length = found
                for (text,) in present.elements:
                    yield Member(remote[0], ip_network(f"{text}/{length}"))
            elif (remote_macs := read_macs(key.name)) is not None:
                group, family = remote_macs
                everything = ip_network("0.0.0.0/0" if family == 4 else "::/0")
                for (text,) in present.elements:
                    yield Member(group, everything, Mac(text))

    def record(self, operations: Iterable[NftOperation]) -> None:
        """Index what *operations* changed; after that of a table, index anew instead."""
        self._zones = None
        for operation in operations:
            match operation:
                case PutChain(key, chain):
                    self._update_chain(key, chain)
                case DropChain(key):
                    self._update_chain(key, None)
                case MakeSet(key):
                    self._update_set(key, present=True)
                case DropSet(key):
                    self._update_set(key, present=False)

    def _update_chain(self, key: ObjectKey, chain: Chain | None) -> None:
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

    def _update_zone(self, network: NetworkId, chain: Chain | None) -> None:
        number = read_zone(chain.rules[0].text) if chain is not None and chain.rules else None
        if number is None:
            self.numbers.pop(network, None)
        else:
            self.numbers[network] = number

    def _update_sources(self, id: PortId, chain: Chain | None) -> None:
        for family in (4, 6):
            self.sources.pop((id, family), None)
        if chain is not None:
            found = {read_source(rule.text) for rule in chain.rules} - {None}
            for family in (4, 6):
                own = frozenset(each for each in found if each and each.version == family)
                self.sources[id, family] = own

    def _update_port(self, id: PortId, chain: Chain | None) -> None:
        former = self.ports.pop(id, None)
        if former is not None:
            if self._devices.get(former.location.device) == id:
                del self._devices[former.location.device]
            self.on_bridge.discard_value(former.location.bridge, id)
            for group in former.groups:
                self.users.discard_value(group, id)
        note = read_note(chain.rules[-1]) if chain is not None and chain.rules else None
        if chain is None or note is None:
            return
        jumps = (found[1] for rule in chain.rules if (found := _JUMP.search(rule.text)))
        named = (read_chain(name) for name in jumps)
        groups = frozenset(SecurityGroupId(each[2]) for each in named if each is not None)
        self.ports[id] = IndexedPort(
            location=note.location, network=note.network, trusted=note.trusted, groups=groups
        )
        self._devices[note.location.device] = id
        self.on_bridge[note.location.bridge].add(id)
        for group in groups:
            self.users[group].add(id)

    def _update_group(self, id: SecurityGroupId, name: str, kind: str, chain: Chain | None) -> None:
        by_chain = self.refers.setdefault(id, {})
        before = {remote for refers in by_chain.values() for remote in refers}
        if chain is None:
            by_chain.pop(name, None)
        else:
            jumps = {found[1] for rule in chain.rules if (found := _JUMP.search(rule.text))}
            by_chain[name] = frozenset(r for r in map(read_remote, jumps) if r is not None)
            if kind in (EGRESS, INGRESS):
                self.groups[id] = bool(chain.rules)
        after = {remote for refers in by_chain.values() for remote in refers}
        for remote in before - after:
            self.referrers.discard_value(remote, id)
        for remote in after - before:
            self.referrers[remote].add(id)
        if not by_chain:
            del self.refers[id]
            self.groups.pop(id, None)

    def _update_set(self, key: ObjectKey, *, present: bool) -> None:
        if (found := read_set(key.name)) is not None:
            remote, length = found
            if present:
                self.lengths[remote].add(length)
            else:
                self.lengths.discard_value(remote, length)
        elif (macs := read_macs(key.name)) is not None:
            (self.macs.add if present else self.macs.discard)(macs)
