"""The chains, sets and frames that an update leads to.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from netfw.drivers.firewall import FirewallKey
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.linux.bridge_firewall.group_relations import UpdatedRelations
from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.bridge_firewall.values import PortLocation, Zone, ZoneChange
from netfw.linux.ebtables.chains import FrameChain
from netfw.linux.ipset.operations import DropSet, MakeSet
from netfw.linux.ipset.operations import Operation as SetOperation
from netfw.linux.ipset.plan import KernelSet, plan_members
from netfw.linux.ipset.values import SetKind, choose_max_elements
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.values.ids import PortId
from netfw_drivers.iptables.plan.dispatch import (
    bridge_chain_keys,
    bridge_chains,
    device_chain_keys,
    device_chains,
    frame_chains,
    frame_roots,
    root_chains,
    root_keys,
)
from netfw_drivers.iptables.plan.group_chains import (
    Chains,
    empty_group,
    group_keys,
    macs_chains,
    macs_keys,
)
from netfw_drivers.iptables.plan.names import bucket_of, read_set_name, set_name
from netfw_drivers.iptables.plan.port_chains import basics, frames_name, port_keys
from netfw_drivers.iptables.plan.requested_changes import RequestedChanges
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex

Owners = frozenset[FirewallKey]


@define
class DesiredIptablesRuleset:
    """Desired chains, frame rules and sets of all that an update touches."""

    chains: Chains = field(factory=dict)
    tracking: Chains = field(factory=dict)
    """Intermediate versions of some chains, until all others are installed: they still track the
    bridges that lose their zone, since rules in force match replies by it."""
    gone_chains: set[ChainKey] = field(factory=set)
    frames: dict[str, FrameChain] = field(factory=dict)
    gone_frames: set[str] = field(factory=set)
    sets: list[SetOperation] = field(factory=list)
    gone_sets: list[DropSet] = field(factory=list)
    gone_zones: frozenset[int] = frozenset()
    new_zones: frozenset[int] = frozenset()
    owners: dict[object, Owners] = field(factory=dict)
    """Keys that a chain (by key), frame chain (by name) or set (by name) belongs to."""


class IptablesRulesetBuilder:
    """Builds a :class:`DesiredIptablesRuleset`, once."""

    def __init__(
        self,
        requested: RequestedChanges,
        index: IptablesRulesetIndex,
        sets: Mapping[str, KernelSet],
        *,
        thorough: bool,
        private: bool,
    ) -> None:
        self._requested, self._index, self._sets = requested, index, sets
        self._thorough, self._private = thorough, private
        self.relations = UpdatedRelations(requested, index, thorough=thorough)
        self._moved = self.relations.moved
        self.ruleset = DesiredIptablesRuleset()

    def run(self) -> DesiredIptablesRuleset:
        """Build the ruleset; a *thorough* one has all shared chains, touched or not."""
        self._ports()
        self._groups()
        self._remotes()
        if self._moved or self._thorough:
            zones = self.relations.plan_zones(private=self._private)
            self.ruleset.gone_zones, self.ruleset.new_zones = zones.gone, zones.new
            self._buckets(zones)
        return self.ruleset

    @property
    def staying(self) -> Iterator[ChainKey]:
        """Chains of ports and groups outside of this update."""
        for id in self.relations.staying_ports:
            yield from port_keys(id)
        for group in self.relations.staying_groups:
            yield from group_keys(group)

    @property
    def staying_frames(self) -> Iterator[str]:
        """Frame chains of ports outside of this update."""
        for id in self.relations.staying_ports:
            if not self._index.ports[id].trusted:
                yield frames_name(id)

    def _put(self, chains: Chains, owners: Iterable[FirewallKey] = ()) -> None:
        self.ruleset.chains |= chains
        self.ruleset.owners |= dict.fromkeys(chains, frozenset(owners))

    def _drop(self, keys: Iterable[ChainKey]) -> None:
        self.ruleset.gone_chains |= set(keys)

    def _ports(self) -> None:
        for id, wanted in self._requested.ports.items():
            self._put(wanted.chains.packets, {PortKey(id)})
            self._drop(key for key in port_keys(id) if key not in wanted.chains.packets)
            name = frames_name(id)
            if wanted.port.trusted:
                self.ruleset.gone_frames.add(name)
            else:
                self.ruleset.frames[name] = wanted.chains.frames
            self.ruleset.owners[name] = frozenset({PortKey(id)})
        for id in self._requested.gone_ports:
            self._drop(port_keys(id))
            self.ruleset.gone_frames.add(frames_name(id))

    def _groups(self) -> None:
        """Add chains of groups that are put, and empty ones of groups that ports only name."""
        for id, wanted in self._requested.groups.items():
            self._put(wanted.chains, {GroupKey(id)})
            self._drop(key for key in group_keys(id) if key not in wanted.chains)
        for id in self.relations.named_groups:
            if self.relations.users(id):
                empty = empty_group(id)
                self._put(empty, map(PortKey, self.relations.joins[id]))
                self._drop(key for key in group_keys(id) if key not in empty)
            else:
                self._drop(group_keys(id))

    def _remotes(self) -> None:
        """Add sets that rules refer to, or that have members."""
        touched = self.relations.touched_remotes
        if self._thorough:
            touched |= {r for r in map(read_set_name, self._sets) if r is not None}
            touched |= self._index.macs.keys()
            strange = [name for name in self._sets if read_set_name(name) is None]
            self.ruleset.gone_sets += map(DropSet, strange)
        for remote in sorted(touched, key=str):
            self._set(remote)
            if isinstance(remote[0], GroupKey):
                self._macs(remote)

    def _set(self, remote: Remote) -> None:
        name = set_name(*remote)
        change, have = self._requested.members.get(remote), self._sets.get(name)
        add = change.add if change else set()
        remove = (change.remove if change else set()) - add
        self.ruleset.owners[name] = frozenset(map(GroupKey, self.relations.referrers(remote)))
        needed = bool(self.relations.referrers(remote) or add)
        if have is not None and not needed and have.elements <= remove:
            self.ruleset.gone_sets.append(DropSet(name))
            return
        if have is None:
            if needed:
                kind, words = SetKind(family=remote[1]), frozenset(add)
                self.ruleset.sets.append(
                    MakeSet(name, kind, choose_max_elements(len(words)), words)
                )
            return
        operation = plan_members(name, have, sorted(add), sorted(remove))
        if operation is not None:
            self.ruleset.sets.append(operation)

    def _macs(self, remote: Remote) -> None:
        group, family = remote
        assert isinstance(group, GroupKey)
        change = self._requested.members.get(remote)
        macs = self._index.macs.get(remote, frozenset())
        if change is not None:
            macs = (macs - change.remove_macs) | change.add_macs
        if macs or self.relations.referrers(remote):
            owners = map(GroupKey, self.relations.referrers(remote))
            self._put(macs_chains(group.group, family, macs), owners)
        else:
            self._drop(macs_keys(group.group, family))

    def _buckets(self, zones: ZoneChange) -> None:
        """Add the chains that dispatch to those of ports and bridges."""
        devices = self._device_buckets()
        bridges = self._bridge_buckets(zones)
        every = self._index.buckets.keys() - devices.keys()
        device_roots = every | {bucket for bucket, ports in devices.items() if ports}
        known = {bucket_of(bridge) for bridge in self._index.zones} - bridges.keys()
        bridge_roots = known | {bucket for bucket, found in bridges.items() if found}
        owners = frozenset(map(PortKey, self._moved))
        if not device_roots:
            self._drop([*root_keys(), *(key for family in Family for key in basics(family))])
        else:
            for family in Family:
                self._put(root_chains(family, device_roots, bridge_roots), owners)
                self._put(basics(family), owners)
        self._frame_buckets(devices, device_roots)

    def _device_buckets(self) -> dict[str, dict[str, PortId]]:
        """Add the chains of touched buckets; return their ports by device."""
        index = self._index
        locations: dict[PortId, PortLocation] = {
            id: p.location for id, p in self._requested.ports.items()
        }
        former = [index.ports[id].location for id in self._moved if id in index.ports]
        touched = {bucket_of(location.device) for location in [*locations.values(), *former]}
        touched |= index.buckets.keys() if self._thorough else set()
        found: dict[str, dict[str, PortId]] = {
            bucket: {
                device: id
                for device, id in index.buckets.get(bucket, {}).items()
                if id not in self._moved
            }
            for bucket in touched
        }
        for id, location in locations.items():
            found[bucket_of(location.device)][location.device] = id
        for bucket, ports in found.items():
            owners = {PortKey(id) for id in ports.values()}
            for family in Family if ports else ():
                self._put(device_chains(family, bucket, ports), owners)
            if not ports:
                self._drop(device_chain_keys(bucket))
        return found

    def _bridge_buckets(self, change: ZoneChange) -> dict[str, dict[str, Zone]]:
        """Add the chains of touched buckets; return their bridges."""
        zones, former = change.zones, change.left
        every = self._index.zones if self._thorough else {}
        touched = {bucket_of(bridge) for bridge in zones.keys() | former | every.keys()}
        found: dict[str, dict[str, Zone]] = {bucket: {} for bucket in touched}
        for bridge, zone in self._index.zones.items():
            if bucket_of(bridge) in found and bridge not in former:
                found[bucket_of(bridge)][bridge] = zone
        for bridge, zone in zones.items():
            found[bucket_of(bridge)][bridge] = zone
        for bucket, bridges in found.items():
            for family in Family if bridges else ():
                chains = bridge_chains(family, bucket, bridges)
                self._put(chains, map(PortKey, self._requested.ports))
                longer = bridge_chains(family, bucket, {**bridges, **self._untracked(bridges)})
                self.ruleset.tracking |= {k: c for k, c in longer.items() if c != chains[k]}
            if not bridges:
                self._drop(bridge_chain_keys(bucket))
        return found

    def _untracked(self, bridges: Mapping[str, Zone]) -> dict[str, Zone]:
        """Return the zones of bridges that lose theirs."""
        zones = {bridge: self._index.zones.get(bridge) for bridge in bridges}
        return {
            bridge: zone
            for bridge, zone in zones.items()
            if zone is not None and zone.number and not bridges[bridge].number
        }

    def _frame_buckets(
        self, devices: Mapping[str, Mapping[str, PortId]], roots: Iterable[str]
    ) -> None:
        guarded = {
            bucket: {device: id for device, id in ports.items() if not self._trusted(id)}
            for bucket, ports in devices.items()
        }
        for bucket, ports in guarded.items():
            chains = frame_chains(bucket, ports)
            if ports:
                self.ruleset.frames |= chains
            else:
                self.ruleset.gone_frames |= chains.keys()
        untouched = {
            bucket
            for bucket in set(roots) - guarded.keys()
            if any(not self._trusted(id) for id in self._index.buckets[bucket].values())
        }
        full = untouched | {bucket for bucket, ports in guarded.items() if ports}
        if full:
            self.ruleset.frames |= frame_roots(full)
        else:
            self.ruleset.gone_frames |= frame_roots(()).keys()

    def _trusted(self, id: PortId) -> bool:
        if id in self._requested.ports:
            return self._requested.ports[id].port.trusted
        return self._index.ports[id].trusted
