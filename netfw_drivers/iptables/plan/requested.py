"""What an update asks for, sorted and checked.  Pure.

Whatever cannot be had is refused here, by its key, before a word of it reaches a backend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from attrs import define, field, frozen

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.keys import GroupKey, PortKey
from netfw.drivers.support.firewall_validation import key_validation_error, validation_error
from netfw.errors import Conflict, InvalidInput, NetfwError, NotSupported
from netfw.linux.ebtables.chains import FrameChain
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.ipset.values import SetKind, elements, full_name
from netfw.model.address import Mac
from netfw.model.ids import PortId, SecurityGroupId
from netfw.plan import Update
from netfw_drivers.iptables.plan.dispatch import Zone
from netfw_drivers.iptables.plan.group_chains import Chains, Remote, group_chains, remotes
from netfw_drivers.iptables.plan.names import (
    OWNER,
    bucket_of,
    check_device,
    read_set_name,
    set_name,
)
from netfw_drivers.iptables.plan.port_chains import Place, frames_chain, port_chains
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex


@frozen(kw_only=True)
class WantedPort:
    """A port to be put."""

    port: FilteredPort
    place: Place
    chains: Chains
    frames: FrameChain


@frozen(kw_only=True)
class WantedGroup:
    """A group to be put."""

    chains: Chains
    remotes: frozenset[Remote]


@define
class Change:
    """What is to change about the members of a group."""

    add: set[str] = field(factory=set)
    remove: set[str] = field(factory=set)
    add_macs: set[Mac] = field(factory=set)
    remove_macs: set[Mac] = field(factory=set)


@define
class RequestedChanges:
    """The parts of an update, after the refused ones are out."""

    ports: dict[PortId, WantedPort] = field(factory=dict)
    gone_ports: set[PortId] = field(factory=set)
    groups: dict[SecurityGroupId, WantedGroup] = field(factory=dict)
    gone_groups: set[SecurityGroupId] = field(factory=set)
    members: dict[Remote, Change] = field(factory=lambda: defaultdict(Change))
    refused: dict[FirewallKey, NetfwError] = field(factory=dict)
    waiting: dict[FirewallKey, str] = field(factory=dict)


Locate = Callable[[str], str]
"""From the device of a port to the one that is on a Linux bridge."""


@frozen
class BridgePorts:
    """The bridges that devices are on, by the names of the devices that there are."""

    bridges: Mapping[str, str | None]
    locate: Locate
    owner: str
    """What the driver's chains and sets begin with."""
    private: bool = False
    """Each port has a bridge of its own."""

    def place(self, device: str) -> Place | str:
        """Where a port's device is filtered; or, why it is nowhere.

        :raises InvalidInput: that cannot be a device of a port.
        """
        found = check_device(self.locate(check_device(device)))
        if found not in self.bridges:
            return f"there is no device {found} yet"
        bridge = self.bridges[found]
        return f"device {found} is on no bridge yet" if bridge is None else Place(found, bridge)


def sort(
    update: Update[FirewallKey, FirewallValue],
    picture: RulesetIndex,
    sets: Mapping[str, KernelSet],
    ground: BridgePorts,
) -> RequestedChanges:
    """What *update* asks for."""
    wishes = RequestedChanges()
    for key, value in update.put.items():
        error: NetfwError | None = validation_error(key, value)
        try:
            if error is None:
                _put(wishes, key, value, ground)
        except NetfwError as exc:
            error = exc
        if error is not None:
            wishes.refused[key] = error
    for key in update.drop:
        _drop(wishes, key)
    if update.complete:
        _drop_rest(wishes, update, picture, sets)
    _refuse_twice(wishes, picture)
    return wishes


def _put(
    wishes: RequestedChanges, key: FirewallKey, value: FirewallValue, ground: BridgePorts
) -> None:
    match key, value:
        case PortKey(id), FilteredPort():
            place = ground.place(value.device)
            if isinstance(place, str):
                wishes.waiting[key] = place
                return
            chains = port_chains(id, value, place)
            frames = frames_chain(value)
            wishes.ports[id] = WantedPort(port=value, place=place, chains=chains, frames=frames)
        case GroupKey(id), Rules():
            chains = group_chains(id, value, ground.owner)
            wishes.groups[id] = WantedGroup(chains=chains, remotes=remotes(value))
        case Member(), Member():
            _change_member(wishes.members, key, add=True)
        case _:
            raise InvalidInput({str(key): f"cannot be a {type(value).__name__}"})


def _drop(wishes: RequestedChanges, key: FirewallKey) -> None:
    if key_validation_error(key) is not None:
        return  # what cannot be there is gone
    try:
        match key:
            case PortKey(id):
                wishes.gone_ports.add(id)
            case GroupKey(id):
                wishes.gone_groups.add(id)
            case Member():
                _change_member(wishes.members, key, add=False)
    except NetfwError:
        return  # what cannot be there is gone


def remote_of(member: Member) -> Remote:
    """Which group a member is in, and of which IP version."""
    return member.group, member.prefix.version


def words_of(member: Member) -> list[str]:
    """The words that ipset keeps for a member.

    :raises InvalidInput: a member that ipset cannot have.
    """
    full_name(OWNER, set_name(*remote_of(member)))
    return list(elements(SetKind(family=member.prefix.version), [member.prefix]))


def _change_member(changes: dict[Remote, Change], member: Member, *, add: bool) -> None:
    words = words_of(member)
    if member.mac is None:
        change = changes[remote_of(member)]
        (change.add if add else change.remove).update(words)
        return
    if member.prefix.prefixlen or not isinstance(member.group, GroupKey):
        raise NotSupported(
            f"{member}: a member is known by its MAC address only when it may have every address"
        )
    change = changes[remote_of(member)]
    (change.add_macs if add else change.remove_macs).add(Mac(member.mac))


def _refuse_twice(wishes: RequestedChanges, picture: RulesetIndex) -> None:
    """Two ports cannot have one device, nor two networks one bridge."""
    devices: dict[str, PortId] = {}
    networks = {bridge: zone.network for bridge, zone in _staying(wishes, picture).items()}
    for id in sorted(wishes.ports):
        wanted = wishes.ports[id]
        device, bridge = wanted.place.device, wanted.place.bridge
        holder = devices.setdefault(device, _holder(device, wishes, picture) or id)
        network = networks.setdefault(bridge, wanted.port.network)
        if holder != id:
            said = f"device {wanted.port.device} is that of port {holder} already"
            wishes.refused[PortKey(id)] = Conflict(said)
        elif network != wanted.port.network:
            said = f"bridge {bridge} carries network {network}, not {wanted.port.network}"
            wishes.refused[PortKey(id)] = Conflict(said)
        else:
            continue
        del wishes.ports[id]


def _holder(device: str, wishes: RequestedChanges, picture: RulesetIndex) -> PortId | None:
    """The port that has the device and keeps it."""
    holder = picture.buckets.get(bucket_of(device), {}).get(device)
    return None if holder in wishes.ports or holder in wishes.gone_ports else holder


def _staying(wishes: RequestedChanges, picture: RulesetIndex) -> dict[str, Zone]:
    """The zones of bridges that ports stay on which this update does not mention."""
    busy = wishes.ports.keys() | wishes.gone_ports
    bridges = {wanted.place.bridge for wanted in wishes.ports.values()}
    return {
        bridge: picture.zones[bridge]
        for bridge in bridges
        if bridge in picture.zones and picture.on_bridge.get(bridge, set()) - busy
    }


def _drop_rest(
    wishes: RequestedChanges,
    update: Update[FirewallKey, FirewallValue],
    picture: RulesetIndex,
    sets: Mapping[str, KernelSet],
) -> None:
    """Everything that nobody asked for and nobody keeps is to go."""
    kept = update.keep | wishes.refused.keys() | wishes.waiting.keys()
    ports = {key.port for key in kept if isinstance(key, PortKey)}
    groups = {key.group for key in kept if isinstance(key, GroupKey)}
    wishes.gone_ports |= picture.ports.keys() - wishes.ports.keys() - ports
    wishes.gone_groups |= picture.groups.keys() - wishes.groups.keys() - groups
    stays: dict[Remote, Change] = defaultdict(Change)
    for key in kept:
        if isinstance(key, Member):
            _keep_member(stays, key)
    for name, have in sets.items():
        remote = read_set_name(name)
        if remote is not None:
            change = wishes.members[remote]
            change.remove |= have.elements - change.add - stays[remote].add
    for remote, macs in picture.macs.items():
        change = wishes.members[remote]
        change.remove_macs |= macs - change.add_macs - stays[remote].add_macs


def _keep_member(stays: dict[Remote, Change], member: Member) -> None:
    if key_validation_error(member) is not None:
        return
    try:
        _change_member(stays, member, add=True)
    except NetfwError:
        return
