"""Requested changes of an update, sorted and validated.  Pure.

Invalid requests are refused here, by key, before they reach the kernel.
"""

from __future__ import annotations

from collections import defaultdict

from attrs import define, field, frozen

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.support.firewall_validation import key_validation_error
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import Conflict, InvalidInput, NetfwError
from netfw.linux.bridge_firewall.requests_plan import collect_refusals, mac_member_error
from netfw.linux.bridge_firewall.values import BridgePorts, PortLocation, find_conflicts
from netfw.linux.nftables.values import Chain
from netfw.model.values.address import IpNetwork, Mac
from netfw.model.values.ids import PortId, SecurityGroupId
from netfw.plan import Update
from netfw_drivers.nftables.plan.group_chains import group_chains, remotes
from netfw_drivers.nftables.plan.names import Remote
from netfw_drivers.nftables.plan.port_chains import port_chains
from netfw_drivers.nftables.plan.ruleset_index import RulesetIndex


@frozen(kw_only=True)
class WantedPort:
    """Port of the update."""

    port: FilteredPort
    location: PortLocation
    chains: dict[str, Chain]


@frozen(kw_only=True)
class WantedGroup:
    """Group of the update."""

    chains: dict[str, Chain]
    remotes: frozenset[Remote]


@define
class MemberChange:
    """Changes of a group's members."""

    add: set[IpNetwork] = field(factory=set)
    remove: set[IpNetwork] = field(factory=set)
    add_macs: set[Mac] = field(factory=set)
    remove_macs: set[Mac] = field(factory=set)


@define
class RequestedChanges:
    """Parts of an update, without the refused ones."""

    ports: dict[PortId, WantedPort] = field(factory=dict)
    gone_ports: set[PortId] = field(factory=set)
    groups: dict[SecurityGroupId, WantedGroup] = field(factory=dict)
    gone_groups: set[SecurityGroupId] = field(factory=set)
    members: dict[Remote, MemberChange] = field(factory=lambda: defaultdict(MemberChange))
    refused: dict[FirewallKey, NetfwError] = field(factory=dict)
    waiting: dict[FirewallKey, str] = field(factory=dict)


def sort_update(
    update: Update[FirewallKey, FirewallValue], index: RulesetIndex, bridge_ports: BridgePorts
) -> RequestedChanges:
    """Sort and validate *update*."""
    requested = RequestedChanges()
    requested.refused |= collect_refusals(
        update, lambda key, value: _put(requested, key, value, bridge_ports)
    )
    for key in update.drop:
        _drop(requested, key)
    if update.complete:
        _drop_rest(requested, update, index)
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
            requested.ports[id] = WantedPort(port=value, location=location, chains=chains)
        case GroupKey(id), Rules():
            chains = group_chains(id, value)
            requested.groups[id] = WantedGroup(chains=chains, remotes=remotes(value))
        case Member(), Member():
            _change_member(requested.members, key, add=True)
        case _:
            raise InvalidInput({str(key): f"cannot be a {type(value).__name__}"})


def _drop(requested: RequestedChanges, key: FirewallKey) -> None:
    if key_validation_error(key) is not None:
        return  # an impossible key is never present
    match key:
        case PortKey(id):
            requested.gone_ports.add(id)
        case GroupKey(id):
            requested.gone_groups.add(id)
        case Member():
            if mac_member_error(key) is None:
                _change_member(requested.members, key, add=False)


def _change_member(changes: dict[Remote, MemberChange], member: Member, *, add: bool) -> None:
    if (error := mac_member_error(member)) is not None:
        raise error
    change = changes[member.group, member.prefix.version]
    if member.mac is None:
        (change.add if add else change.remove).add(member.prefix)
    else:
        (change.add_macs if add else change.remove_macs).add(Mac(member.mac))


def _drop_rest(
    requested: RequestedChanges, update: Update[FirewallKey, FirewallValue], index: RulesetIndex
) -> None:
    """Remove everything that the update neither puts nor keeps."""
    kept = update.keep | requested.refused.keys() | requested.waiting.keys()
    ports = {key.port for key in kept if isinstance(key, PortKey)}
    groups = {key.group for key in kept if isinstance(key, GroupKey)}
    requested.gone_ports |= index.ports.keys() - requested.ports.keys() - ports
    requested.gone_groups |= index.groups.keys() - requested.groups.keys() - groups
    stays = kept | {key for key in update.put if isinstance(key, Member)}
    for member in index.members():
        if member not in stays:
            _change_member(requested.members, member, add=False)
