"""The chains, sets and frames that an update leads to.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from attrs import define, field

from netfw.drivers.firewall import FirewallKey
from netfw.drivers.keys import GroupKey, PortKey
from netfw.linux.ebtables.chains import FrameChain
from netfw.linux.ipset.operations import DropSet, MakeSet
from netfw.linux.ipset.operations import Operation as SetOperation
from netfw.linux.ipset.plan import KernelSet, plan_members
from netfw.linux.ipset.values import SetKind, room_for
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.ids import PortId, SecurityGroupId
from netfw_drivers.iptables.plan.dispatch import (
    FIRST_ZONE,
    Zone,
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
    Remote,
    empty_group,
    group_keys,
    macs_chains,
    macs_keys,
)
from netfw_drivers.iptables.plan.names import bucket_of, read_set_name, set_name
from netfw_drivers.iptables.plan.port_chains import Place, basics, frames_name, port_keys
from netfw_drivers.iptables.plan.requested import RequestedChanges
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex

Owners = frozenset[FirewallKey]


@define
class Ruleset:
    """What is to be there afterwards, of all that an update touches."""

    chains: Chains = field(factory=dict)
    tracking: Chains = field(factory=dict)
    """Some of the chains, as they are until all others are there: with the zones of bridges that
    have one, and are not to be tracked any more.  Rules that are still there know replies by it."""
    gone_chains: set[ChainKey] = field(factory=set)
    frames: dict[str, FrameChain] = field(factory=dict)
    gone_frames: set[str] = field(factory=set)
    sets: list[SetOperation] = field(factory=list)
    gone_sets: list[DropSet] = field(factory=list)
    gone_zones: set[int] = field(factory=set)
    owners: dict[object, Owners] = field(factory=dict)
    """Whom a chain (by key), frame chain (by name) or set (by name) is for."""


class RulesetBuilder:
    """Works out a :class:`Ruleset`; each part is asked for once."""

    def __init__(
        self,
        wishes: RequestedChanges,
        picture: RulesetIndex,
        sets: Mapping[str, KernelSet],
        *,
        thorough: bool,
        private: bool,
    ) -> None:
        self._wishes, self._picture, self._sets = wishes, picture, sets
        self._thorough, self._private = thorough, private
        self._moved = wishes.ports.keys() | wishes.gone_ports
        self._joins: dict[SecurityGroupId, set[PortId]] = defaultdict(set)
        self._refers: dict[Remote, set[SecurityGroupId]] = defaultdict(set)
        for id, wanted in wishes.ports.items():
            for group in wanted.port.groups if not wanted.port.trusted else ():
                self._joins[group].add(id)
        for group, put in wishes.groups.items():
            for remote in put.remotes:
                self._refers[remote].add(group)
        self.draft = Ruleset()

    def run(self) -> Ruleset:
        """The draft; a *thorough* one names everything that is shared, touched or not."""
        self._ports()
        self._groups()
        self._remotes()
        if self._moved or self._thorough:
            self._buckets(self._zones())
        return self.draft

    @property
    def staying(self) -> Iterator[ChainKey]:
        """The chains of ports and groups that this update says nothing about."""
        for id in self._picture.ports.keys() - self._moved:
            yield from port_keys(id)
        redone = self._wishes.groups.keys() | self._wishes.gone_groups
        for group in self._picture.groups.keys() - redone:
            if self._picture.groups[group] or self.users(group):
                yield from group_keys(group)

    @property
    def staying_frames(self) -> Iterator[str]:
        """The frame chains of ports that this update says nothing about."""
        for id in self._picture.ports.keys() - self._moved:
            if not self._picture.ports[id].trusted:
                yield frames_name(id)

    def users(self, group: SecurityGroupId) -> set[PortId]:
        """The ports that will be in *group*."""
        return (self._picture.users.get(group, set()) - self._moved) | self._joins[group]

    def referrers(self, remote: Remote) -> set[SecurityGroupId]:
        """The groups whose rules will refer to *remote*."""
        redone = self._wishes.groups.keys() | self._wishes.gone_groups
        return (self._picture.referrers.get(remote, set()) - redone) | self._refers[remote]

    def _put(self, chains: Chains, owners: Iterable[FirewallKey] = ()) -> None:
        self.draft.chains |= chains
        self.draft.owners |= dict.fromkeys(chains, frozenset(owners))

    def _drop(self, keys: Iterable[ChainKey]) -> None:
        self.draft.gone_chains |= set(keys)

    def _ports(self) -> None:
        for id, wanted in self._wishes.ports.items():
            self._put(wanted.chains, {PortKey(id)})
            self._drop(key for key in port_keys(id) if key not in wanted.chains)
            name = frames_name(id)
            if wanted.port.trusted:
                self.draft.gone_frames.add(name)
            else:
                self.draft.frames[name] = wanted.frames
            self.draft.owners[name] = frozenset({PortKey(id)})
        for id in self._wishes.gone_ports:
            self._drop(port_keys(id))
            self.draft.gone_frames.add(frames_name(id))

    def _groups(self) -> None:
        """Chains for groups that are put, and empty ones for groups that ports only name."""
        wishes, picture = self._wishes, self._picture
        left = {group for id in self._moved for group in self._former_groups(id)}
        for id, wanted in wishes.groups.items():
            self._put(wanted.chains, {GroupKey(id)})
            self._drop(key for key in group_keys(id) if key not in wanted.chains)
        for id in (wishes.gone_groups | left | self._joins.keys()) - wishes.groups.keys():
            if picture.groups.get(id) and id not in wishes.gone_groups:
                continue
            if self.users(id):
                owners = map(PortKey, self._joins[id])
                empty = empty_group(id)
                self._put(empty, owners)
                self._drop(key for key in group_keys(id) if key not in empty)
            else:
                self._drop(group_keys(id))

    def _former_groups(self, id: PortId) -> frozenset[SecurityGroupId]:
        held = self._picture.ports.get(id)
        return frozenset() if held is None else held.groups

    def _remotes(self) -> None:
        """Sets for what rules refer to, and for what has members."""
        redone = self._wishes.groups.keys() | self._wishes.gone_groups
        touched = set(self._wishes.members) | set(self._refers)
        for group in redone:
            for refers in self._picture.refers.get(group, {}).values():
                touched |= refers
        if self._thorough:
            touched |= {r for r in map(read_set_name, self._sets) if r is not None}
            touched |= self._picture.macs.keys()
            strange = [name for name in self._sets if read_set_name(name) is None]
            self.draft.gone_sets += map(DropSet, strange)
        for remote in sorted(touched, key=str):
            self._set(remote)
            if isinstance(remote[0], GroupKey):
                self._macs(remote)

    def _set(self, remote: Remote) -> None:
        name = set_name(*remote)
        change, have = self._wishes.members.get(remote), self._sets.get(name)
        add = change.add if change else set()
        remove = (change.remove if change else set()) - add
        self.draft.owners[name] = frozenset(map(GroupKey, self.referrers(remote)))
        needed = bool(self.referrers(remote) or add)
        if have is not None and not needed and have.elements <= remove:
            self.draft.gone_sets.append(DropSet(name))
            return
        if have is None:
            if needed:
                kind, words = SetKind(family=remote[1]), frozenset(add)
                self.draft.sets.append(MakeSet(name, kind, room_for(len(words)), words))
            return
        operation = plan_members(name, have, sorted(add), sorted(remove))
        if operation is not None:
            self.draft.sets.append(operation)

    def _macs(self, remote: Remote) -> None:
        group, family = remote
        assert isinstance(group, GroupKey)
        change = self._wishes.members.get(remote)
        macs = self._picture.macs.get(remote, frozenset())
        if change is not None:
            macs = (macs - change.remove_macs) | change.add_macs
        if macs or self.referrers(remote):
            owners = map(GroupKey, self.referrers(remote))
            self._put(macs_chains(group.group, family, macs), owners)
        else:
            self._drop(macs_keys(group.group, family))

    def _zones(self) -> dict[str, Zone]:
        """The zones of the bridges that this update touches; gone ones are not in it."""
        picture = self._picture
        numbers = {zone.network: zone.number for zone in picture.zones.values() if zone.number}
        taken = frozenset(numbers.values())
        fresh = (number for number in count(FIRST_ZONE) if number not in taken)
        zones: dict[str, Zone] = {}
        for id in sorted(self._wishes.ports):
            port, place = self._wishes.ports[id].port, self._wishes.ports[id].place
            if self._private and port.trusted:
                zones[place.bridge] = Zone(None, port.network)
                continue
            if port.network not in numbers:
                numbers[port.network] = next(fresh)
            zones[place.bridge] = Zone(numbers[port.network], port.network)
        left = self._left_bridges() - zones.keys()
        for bridge in left:
            if picture.on_bridge.get(bridge, set()) - self._moved and bridge in picture.zones:
                zones[bridge] = picture.zones[bridge]
        stays = [zone for bridge, zone in picture.zones.items() if bridge not in left]
        used = {zone.number for zone in [*stays, *zones.values()]}
        self.draft.gone_zones = set(taken - used)
        return zones

    def _left_bridges(self) -> set[str]:
        """The bridges that ports leave, perhaps to come back; and those without any port."""
        held = (self._picture.ports.get(id) for id in self._moved)
        left = {port.place.bridge for port in held if port is not None}
        if self._thorough:
            left |= self._picture.zones.keys() - self._picture.on_bridge.keys()
        return left

    def _buckets(self, zones: Mapping[str, Zone]) -> None:
        """The chains that lead to those of ports and bridges."""
        devices = self._device_buckets()
        bridges = self._bridge_buckets(zones)
        every = self._picture.buckets.keys() - devices.keys()
        device_roots = every | {bucket for bucket, ports in devices.items() if ports}
        known = {bucket_of(bridge) for bridge in self._picture.zones} - bridges.keys()
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
        """The ports in the buckets that are touched, by device."""
        picture = self._picture
        places: dict[PortId, Place] = {id: p.place for id, p in self._wishes.ports.items()}
        former = [picture.ports[id].place for id in self._moved if id in picture.ports]
        touched = {bucket_of(place.device) for place in [*places.values(), *former]}
        touched |= picture.buckets.keys() if self._thorough else set()
        found: dict[str, dict[str, PortId]] = {
            bucket: {
                device: id
                for device, id in picture.buckets.get(bucket, {}).items()
                if id not in self._moved
            }
            for bucket in touched
        }
        for id, place in places.items():
            found[bucket_of(place.device)][place.device] = id
        for bucket, ports in found.items():
            owners = {PortKey(id) for id in ports.values()}
            for family in Family if ports else ():
                self._put(device_chains(family, bucket, ports), owners)
            if not ports:
                self._drop(device_chain_keys(bucket))
        return found

    def _bridge_buckets(self, zones: Mapping[str, Zone]) -> dict[str, dict[str, Zone]]:
        """The bridges in the buckets that are touched."""
        former = self._left_bridges()
        every = self._picture.zones if self._thorough else {}
        touched = {bucket_of(bridge) for bridge in zones.keys() | former | every.keys()}
        found: dict[str, dict[str, Zone]] = {bucket: {} for bucket in touched}
        for bridge, zone in self._picture.zones.items():
            if bucket_of(bridge) in found and bridge not in former:
                found[bucket_of(bridge)][bridge] = zone
        for bridge, zone in zones.items():
            found[bucket_of(bridge)][bridge] = zone
        for bucket, bridges in found.items():
            for family in Family if bridges else ():
                chains = bridge_chains(family, bucket, bridges)
                self._put(chains, map(PortKey, self._wishes.ports))
                longer = bridge_chains(family, bucket, {**bridges, **self._untracked(bridges)})
                self.draft.tracking |= {k: c for k, c in longer.items() if c != chains[k]}
            if not bridges:
                self._drop(bridge_chain_keys(bucket))
        return found

    def _untracked(self, bridges: Mapping[str, Zone]) -> dict[str, Zone]:
        """The zones of those bridges that have one, and are to have none."""
        zones = {bridge: self._picture.zones.get(bridge) for bridge in bridges}
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
                self.draft.frames |= chains
            else:
                self.draft.gone_frames |= chains.keys()
        untouched = {
            bucket
            for bucket in set(roots) - guarded.keys()
            if any(not self._trusted(id) for id in self._picture.buckets[bucket].values())
        }
        full = untouched | {bucket for bucket, ports in guarded.items() if ports}
        if full:
            self.draft.frames |= frame_roots(full)
        else:
            self.draft.gone_frames |= frame_roots(()).keys()

    def _trusted(self, id: PortId) -> bool:
        if id in self._wishes.ports:
            return self._wishes.ports[id].port.trusted
        return self._picture.ports[id].trusted
