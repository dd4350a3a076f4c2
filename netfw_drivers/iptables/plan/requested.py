"""Requested changes of an update, sorted and validated.  Pure.

Invalid requests are refused here, by key, before they reach a backend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from attrs import define, field, frozen

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.support.firewall_validation import key_validation_error
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import Conflict, InvalidInput, NetfwError
from netfw.linux.bridge_firewall.requests_plan import collect_refusals, mac_member_error
from netfw.linux.bridge_firewall.values import BridgePorts, PortLocation, find_conflicts
from netfw.linux.ebtables.chains import FrameChain
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.ipset.values import SetKind, elements, full_name
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId, SecurityGroupId
from netfw.plan import Update
from netfw_drivers.iptables.plan.group_chains import Chains, Remote, group_chains, remotes
from netfw_drivers.iptables.plan.names import OWNER, read_set_name, set_name
from netfw_drivers.iptables.plan.port_chains import frames_chain, port_chains
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex


@frozen(kw_only=True)
class WantedPort:
    """Port of the update."""

    port: FilteredPort
    location: PortLocation
    chains: Chains
    frames: FrameChain


@frozen(kw_only=True)
class WantedGroup:
    """Group of the update."""

    chains: Chains
    remotes: frozenset[Remote]


@define
class Change:
    """Changes of a group's members."""

    add: set[str] = field(factory=set)
    remove: set[str] = field(factory=set)
    add_macs: set[Mac] = field(factory=set)
    remove_macs: set[Mac] = field(factory=set)


@define
class RequestedChanges:
    """Parts of an update, without the refused ones."""

    ports: dict[PortId, WantedPort] = field(factory=dict)
    gone_ports: set[PortId] = field(factory=set)
    groups: dict[SecurityGroupId, WantedGroup] = field(factory=dict)
    gone_groups: set[SecurityGroupId] = field(factory=set)
    members: dict[Remote, Change] = field(factory=lambda: defaultdict(Change))
    refused: dict[FirewallKey, NetfwError] = field(factory=dict)
    waiting: dict[FirewallKey, str] = field(factory=dict)


def sort_update(
    update: Update[FirewallKey, FirewallValue],
    index: RulesetIndex,
    sets: Mapping[str, KernelSet],
    bridge_ports: BridgePorts,
) -> RequestedChanges:
    """Sort and validate *update*."""
    requested = RequestedChanges()
    requested.refused |= collect_refusals(
        update, lambda key, value: _put(requested, key, value, bridge_ports)
    )
    for key in update.drop:
        _drop(requested, key)
    if update.complete:
        _drop_rest(requested, update, index, sets)
    for id, reason in find_conflicts(requested.ports, requested.gone_ports, index).items():
        requested.refused[PortKey(id)] = Conflict(reason)
        del requested.ports[id]
    return requested


def _put(
    requested: RequestedChanges, key: FirewallKey, value: FirewallValue, bridge_ports: BridgePorts
) -> None:
    match key, value:
        case PortKey(id), FilteredPort():
            location = bridge_ports.location(value.device)
            if isinstance(location, str):
                requested.waiting[key] = location
                return
            chains = port_chains(id, value, location)
            frames = frames_chain(value)
            requested.ports[id] = WantedPort(
                port=value, location=location, chains=chains, frames=frames
            )
        case GroupKey(id), Rules():
            chains = group_chains(id, value, bridge_ports.owner)
            requested.groups[id] = WantedGroup(chains=chains, remotes=remotes(value))
        case Member(), Member():
            _change_member(requested.members, key, add=True)
        case _:
            raise InvalidInput({str(key): f"cannot be a {type(value).__name__}"})


def _drop(requested: RequestedChanges, key: FirewallKey) -> None:
    if key_validation_error(key) is not None:
        return  # an impossible key is never present
    try:
        match key:
            case PortKey(id):
                requested.gone_ports.add(id)
            case GroupKey(id):
                requested.gone_groups.add(id)
            case Member():
                _change_member(requested.members, key, add=False)
    except NetfwError:
        return  # an impossible key is never present


def remote_of(member: Member) -> Remote:
    """Return the group and IP version of a member."""
    return member.group, member.prefix.version


def words_of(member: Member) -> list[str]:
    """Return the elements of a member in ipset.

    :raises InvalidInput: ipset cannot have the member.
    """
    full_name(OWNER, set_name(*remote_of(member)))
    return list(elements(SetKind(family=member.prefix.version), [member.prefix]))


def _change_member(changes: dict[Remote, Change], member: Member, *, add: bool) -> None:
    words = words_of(member)
    if member.mac is None:
        change = changes[remote_of(member)]
        (change.add if add else change.remove).update(words)
        return
    if (error := mac_member_error(member)) is not None:
        raise error
    change = changes[remote_of(member)]
    (change.add_macs if add else change.remove_macs).add(Mac(member.mac))


def _drop_rest(
    requested: RequestedChanges,
    update: Update[FirewallKey, FirewallValue],
    index: RulesetIndex,
    sets: Mapping[str, KernelSet],
) -> None:
    """Remove everything that the update neither puts nor keeps."""
    kept = update.keep | requested.refused.keys() | requested.waiting.keys()
    ports = {key.port for key in kept if isinstance(key, PortKey)}
    groups = {key.group for key in kept if isinstance(key, GroupKey)}
    requested.gone_ports |= index.ports.keys() - requested.ports.keys() - ports
    requested.gone_groups |= index.groups.keys() - requested.groups.keys() - groups
    stays: dict[Remote, Change] = defaultdict(Change)
    for key in kept:
        if isinstance(key, Member):
            _keep_member(stays, key)
    for name, have in sets.items():
        remote = read_set_name(name)
        if remote is not None:
            change = requested.members[remote]
            change.remove |= have.elements - change.add - stays[remote].add
    for remote, macs in index.macs.items():
        change = requested.members[remote]
        change.remove_macs |= macs - change.add_macs - stays[remote].add_macs


def _keep_member(stays: dict[Remote, Change], member: Member) -> None:
    if key_validation_error(member) is not None:
        return
    try:
        _change_member(stays, member, add=True)
    except NetfwError:
        return
