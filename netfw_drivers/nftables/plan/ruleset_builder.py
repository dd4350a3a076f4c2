"""The chains, sets and elements that an update leads to.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

from netfw.drivers.firewall import FirewallKey
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.linux.bridge_firewall.group_relations import UpdatedRelations
from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.nftables.values import Key, NftChain, NftSetKind, ObjectKey, make_elements
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import PortId
from netfw_drivers.nftables.plan.group_chains import (
    MACS_KIND,
    empty_group,
    group_chain_names,
    members_kind,
    remote_chains,
)
from netfw_drivers.nftables.plan.names import (
    FROM,
    TO,
    Tables,
    macs_name,
    remote_chain,
    set_name,
    zone_name,
)
from netfw_drivers.nftables.plan.port_chains import (
    BRIDGES,
    FILTERED,
    GUARDS,
    RECEIVERS,
    SENDERS,
    TRACKED,
    UNTRACKED,
    dispatch_elements,
    port_chain_names,
    shared_chains,
    tracking_chains,
    zone_chain,
)
from netfw_drivers.nftables.plan.requested_changes import MemberChange, RequestedChanges
from netfw_drivers.nftables.plan.ruleset_index import NftRulesetIndex

Owners = frozenset[FirewallKey]

_DEVICE = ("ifname",)
FILTER_SETS = {
    FILTERED: NftSetKind(_DEVICE),
    GUARDS: NftSetKind(_DEVICE, verdicts=True),
    SENDERS: NftSetKind(("ether_type", "ifname"), verdicts=True),
    RECEIVERS: NftSetKind(("ether_type", "ifname"), verdicts=True),
}
TRACKING_SETS = {BRIDGES: NftSetKind(_DEVICE, verdicts=True), TRACKED: NftSetKind(_DEVICE)}


@define
class DesiredRuleset:
    """Desired chains, sets and elements of all that an update touches."""

    chains: dict[ObjectKey, NftChain] = field(factory=dict)
    gone_chains: set[ObjectKey] = field(factory=set)
    sets: dict[ObjectKey, NftSetKind] = field(factory=dict)
    gone_sets: set[ObjectKey] = field(factory=set)
    add: dict[ObjectKey, dict[Key, str]] = field(factory=lambda: defaultdict(dict))
    remove: dict[ObjectKey, dict[Key, str]] = field(factory=lambda: defaultdict(dict))
    """Elements to remove, unless they are added as well."""
    owners: dict[ObjectKey, Owners] = field(factory=dict)
    gone_zones: frozenset[int] = frozenset()
    new_zones: frozenset[int] = frozenset()
    shrunk: set[Remote] = field(factory=set)
    """Groups that lose members."""


@frozen(kw_only=True)
class SetChange:
    """Members to add to a set, and to remove from it."""

    key: ObjectKey
    kind: NftSetKind
    add: dict[Key, str]
    remove: dict[Key, str]


class NftRulesetBuilder:
    """Builds a :class:`DesiredRuleset`, once."""

    def __init__(
        self,
        requested: RequestedChanges,
        index: NftRulesetIndex,
        tables: Tables,
        *,
        thorough: bool,
        private: bool,
    ) -> None:
        self._requested, self._index, self._tables = requested, index, tables
        self._thorough, self._private = thorough, private
        self.relations = UpdatedRelations(requested, index, thorough=thorough)
        self._moved = self.relations.moved
        self.desired = DesiredRuleset()

    def run(self) -> DesiredRuleset:
        """Build the ruleset; a *thorough* one has all shared chains and elements."""
        self._ports()
        self._groups()
        self._remotes()
        if self._moved or self._thorough:
            self._zones()
            self._shared()
        return self.desired

    @property
    def staying(self) -> Iterator[ObjectKey]:
        """Chains of ports and groups outside of this update."""
        for id in self.relations.staying_ports:
            yield from map(self._tables.filter, port_chain_names(id))
        for group in self.relations.staying_groups:
            yield from map(self._tables.filter, group_chain_names(group))

    def _put(self, chains: Mapping[str, NftChain], owners: Iterable[FirewallKey] = ()) -> None:
        keys = {self._tables.filter(name): chain for name, chain in chains.items()}
        self.desired.chains |= keys
        self.desired.owners |= dict.fromkeys(keys, frozenset(owners))

    def _drop(self, names: Iterable[str]) -> None:
        self.desired.gone_chains.update(map(self._tables.filter, names))

    def _ports(self) -> None:
        index = self._index
        for id, wanted in self._requested.ports.items():
            self._put(wanted.chains, {PortKey(id)})
            self._drop(name for name in port_chain_names(id) if name not in wanted.chains)
            if not wanted.port.trusted:
                self._dispatch(id, wanted.location.device, self.desired.add)
        for id in self._requested.gone_ports:
            self._drop(port_chain_names(id))
        for id in self._moved & index.ports.keys():
            if not index.ports[id].trusted:
                self._dispatch(id, index.ports[id].location.device, self.desired.remove)
        if self._thorough:
            for id in self.relations.staying_ports:
                if not index.ports[id].trusted:
                    self._dispatch(id, index.ports[id].location.device, self.desired.add)

    def _dispatch(self, id: PortId, device: str, elements: dict[ObjectKey, dict[Key, str]]) -> None:
        for name, own in dispatch_elements(id, device).items():
            elements[self._tables.filter(name)] |= own

    def _groups(self) -> None:
        """Add chains of groups that are put, and empty ones of groups that ports only name."""
        for id, wanted in self._requested.groups.items():
            self._put(wanted.chains, {GroupKey(id)})
            self._drop(name for name in group_chain_names(id) if name not in wanted.chains)
        for id in self.relations.named_groups:
            names = group_chain_names(id)
            if self.relations.users(id):
                empty = empty_group(id)
                self._put(empty, map(PortKey, self.relations.joins[id]))
                names = [name for name in names if name not in empty]
            self._drop(names)

    def _remotes(self) -> None:
        """Add sets that have members, and chains that rules refer to."""
        index = self._index
        touched = self.relations.touched_remotes
        if self._thorough:
            touched |= index.lengths.keys() | index.macs | index.referrers.keys()
        for remote in sorted(touched, key=str):
            self._remote(remote, self._requested.members.get(remote) or MemberChange())

    def _remote(self, remote: Remote, change: MemberChange) -> None:
        owners = frozenset(map(GroupKey, self.relations.referrers(remote)))
        present = self._index.lengths.get(remote, set())
        lengths = set()
        for length in present | {prefix.prefixlen for prefix in change.add}:
            members = SetChange(
                key=self._tables.filter(set_name(remote, length)),
                kind=members_kind(remote[1]),
                add=_words(change.add, length),
                remove=_words(change.remove, length),
            )
            if self._set(members, remote, owners):
                lengths.add(length)
        macs = False
        if isinstance(remote[0], GroupKey):
            known_by_mac = SetChange(
                key=self._tables.filter(macs_name(remote)),
                kind=MACS_KIND,
                add=make_elements(change.add_macs),
                remove=make_elements(change.remove_macs),
            )
            macs = self._set(known_by_mac, remote, owners)
        if owners:
            self._put(remote_chains(remote, lengths, macs=macs), owners)
        else:
            self._drop(remote_chain(kind, remote) for kind in (FROM, TO))

    def _set(self, change: SetChange, remote: Remote, owners: Owners) -> bool:
        """Change the elements of a set; return whether it has any."""
        key, desired = change.key, self.desired
        found = self._index.ruleset.sets.get(key)
        elements = found.elements if found is not None and found.kind == change.kind else {}
        gone = [each for each in change.remove if each in elements and each not in change.add]
        if gone:
            desired.shrunk.add(remote)
        if not change.add and len(gone) == len(elements):
            if found is not None:
                desired.gone_sets.add(key)
            return False
        desired.sets[key] = change.kind
        desired.owners[key] = owners
        desired.add[key] |= change.add
        desired.remove[key] |= change.remove
        return True

    def _zones(self) -> None:
        """Add the zones of bridges; connections are tracked in the inet family."""
        index, tables = self._index, self._tables
        desired, present = self.desired, index.zones
        change = self.relations.plan_zones(private=self._private)
        zones = dict(change.zones)
        if self._thorough:
            zones = {b: zone for b, zone in present.items() if b not in change.left} | zones
        desired.gone_zones, desired.new_zones = change.gone, change.new
        for bridge in change.left:
            desired.remove[tables.track(BRIDGES)][bridge,] = ""
            desired.remove[tables.track(TRACKED)][bridge,] = ""
        for bridge, zone in zones.items():
            target = zone_name(zone.network) if zone.number else UNTRACKED
            desired.add[tables.track(BRIDGES)][bridge,] = target
            if zone.number:
                desired.add[tables.track(TRACKED)][bridge,] = ""
                desired.chains[tables.track(target)] = zone_chain(zone.number)
            else:
                desired.remove[tables.track(TRACKED)][bridge,] = ""
        gone = (network for network, number in index.numbers.items() if number in change.gone)
        desired.gone_chains.update(tables.track(zone_name(network)) for network in gone)

    def _shared(self) -> None:
        """Add what packets of all ports pass, or remove it with the last port."""
        tables, desired = self._tables, self.desired
        shared = {tables.filter(name): chain for name, chain in shared_chains().items()}
        shared |= {tables.track(name): chain for name, chain in tracking_chains().items()}
        sets = {tables.filter(name): kind for name, kind in FILTER_SETS.items()}
        sets |= {tables.track(name): kind for name, kind in TRACKING_SETS.items()}
        if self.relations.staying_ports or self._requested.ports:
            desired.chains |= shared
            desired.sets |= sets
        else:
            desired.gone_chains |= shared.keys()
            desired.gone_sets |= sets.keys()


def _words(prefixes: Iterable[IpNetwork], length: int) -> dict[Key, str]:
    return make_elements(str(p.network_address) for p in prefixes if p.prefixlen == length)
