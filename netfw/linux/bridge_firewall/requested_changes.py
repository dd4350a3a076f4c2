"""Requested changes of an update, sorted and validated.  Pure.

Invalid requests are refused here, by key, before they reach a backend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Set
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.support.firewall_validation import key_validation_error, validation_error
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import Conflict, InvalidInput, NetfwError, NotSupported
from netfw.linux.bridge_firewall.policy_index import PolicyIndex
from netfw.linux.bridge_firewall.remote_groups import Remote, remote_of, remotes
from netfw.linux.bridge_firewall.values import BridgePorts, PortLocation, find_conflicts
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId, SecurityGroupId
from netfw.plan import Update

P = TypeVar("P")
G = TypeVar("G")
E = TypeVar("E", bound=Hashable)


@frozen(kw_only=True)
class WantedPort(Generic[P]):
    """Port of the update, and its rules."""

    port: FilteredPort
    location: PortLocation
    chains: P


@frozen(kw_only=True)
class WantedGroup(Generic[G]):
    """Group of the update, and its rules."""

    chains: G
    remotes: frozenset[Remote]


@define
class MemberChange(Generic[E]):
    """Changes of a group's members: elements of sets, and MAC addresses."""

    add: set[E] = field(factory=set)
    remove: set[E] = field(factory=set)
    add_macs: set[Mac] = field(factory=set)
    remove_macs: set[Mac] = field(factory=set)


@define
class RequestedChanges(Generic[P, G, E]):
    """Parts of an update, without the refused ones."""

    ports: dict[PortId, WantedPort[P]] = field(factory=dict)
    gone_ports: set[PortId] = field(factory=set)
    groups: dict[SecurityGroupId, WantedGroup[G]] = field(factory=dict)
    gone_groups: set[SecurityGroupId] = field(factory=set)
    members: dict[Remote, MemberChange[E]] = field(factory=lambda: defaultdict(MemberChange))
    refused: dict[FirewallKey, NetfwError] = field(factory=dict)
    waiting: dict[FirewallKey, str] = field(factory=dict)


@frozen(kw_only=True)
class Rendering(Generic[P, G, E]):
    """How a firewall expresses ports, groups and members; each function may refuse its argument."""

    port: Callable[[PortId, FilteredPort, PortLocation], P]
    group: Callable[[SecurityGroupId, Rules], G]
    elements: Callable[[Member], Collection[E]]
    """Elements of a member in sets, without its MAC address."""


PresentMembers = Iterable[tuple[Remote, Set[E], Set[Mac]]]
"""Elements and MAC addresses of groups on the host; a group may come more than once."""


def classify_update(
    update: Update[FirewallKey, FirewallValue],
    index: PolicyIndex[Any],
    bridge_ports: BridgePorts,
    rendering: Rendering[P, G, E],
    present_members: Callable[[], PresentMembers[E]],
) -> RequestedChanges[P, G, E]:
    """Sort and validate *update*."""
    sorter = _UpdateSorter(bridge_ports, rendering)
    requested = sorter.requested
    for key, value in update.put.items():
        error: NetfwError | None = validation_error(key, value)
        try:
            if error is None:
                sorter.put(key, value)
        except NetfwError as exc:
            error = exc
        if error is not None:
            requested.refused[key] = error
    for key in update.drop:
        sorter.drop(key)
    if update.complete:
        sorter.drop_rest(update, index, present_members())
    for id, reason in find_conflicts(requested.ports, requested.gone_ports, index).items():
        requested.refused[PortKey(id)] = Conflict(reason)
        del requested.ports[id]
    return requested


class _UpdateSorter(Generic[P, G, E]):
    """Collects requested changes."""

    def __init__(self, bridge_ports: BridgePorts, rendering: Rendering[P, G, E]) -> None:
        self._bridge_ports, self._rendering = bridge_ports, rendering
        self.requested: RequestedChanges[P, G, E] = RequestedChanges()

    def put(self, key: FirewallKey, value: FirewallValue) -> None:
        requested = self.requested
        match key, value:
            case PortKey(id), FilteredPort():
                location = self._bridge_ports.location(value.device)
                if isinstance(location, str):
                    requested.waiting[key] = location
                    return
                rules = self._rendering.port(id, value, location)
                requested.ports[id] = WantedPort(port=value, location=location, chains=rules)
            case GroupKey(id), Rules():
                chains = self._rendering.group(id, value)
                requested.groups[id] = WantedGroup(chains=chains, remotes=remotes(value))
            case Member(), Member():
                self._change_member(requested.members, key, add=True)
            case _:
                raise InvalidInput({str(key): f"cannot be a {type(value).__name__}"})

    def drop(self, key: FirewallKey) -> None:
        if key_validation_error(key) is not None:
            return  # an impossible key is never present
        match key:
            case PortKey(id):
                self.requested.gone_ports.add(id)
            case GroupKey(id):
                self.requested.gone_groups.add(id)
            case Member():
                self._change_possible_member(self.requested.members, key, add=False)

    def drop_rest(
        self,
        update: Update[FirewallKey, FirewallValue],
        index: PolicyIndex[Any],
        present: PresentMembers[E],
    ) -> None:
        """Remove everything that the update neither puts nor keeps."""
        requested = self.requested
        kept = update.keep | requested.refused.keys() | requested.waiting.keys()
        ports = {key.port for key in kept if isinstance(key, PortKey)}
        groups = {key.group for key in kept if isinstance(key, GroupKey)}
        requested.gone_ports |= index.ports.keys() - requested.ports.keys() - ports
        requested.gone_groups |= index.groups.keys() - requested.groups.keys() - groups
        stays: dict[Remote, MemberChange[E]] = defaultdict(MemberChange)
        for key in kept:
            if isinstance(key, Member) and key_validation_error(key) is None:
                self._change_possible_member(stays, key, add=True)
        for remote, elements, macs in present:
            change, staying = requested.members[remote], stays[remote]
            change.remove |= elements - change.add - staying.add
            change.remove_macs |= macs - change.add_macs - staying.add_macs

    def _change_possible_member(
        self, changes: dict[Remote, MemberChange[E]], member: Member, *, add: bool
    ) -> None:
        try:
            self._change_member(changes, member, add=add)
        except NetfwError:
            return  # an impossible member is never present

    def _change_member(
        self, changes: dict[Remote, MemberChange[E]], member: Member, *, add: bool
    ) -> None:
        if (error := _mac_member_error(member)) is not None:
            raise error
        elements = self._rendering.elements(member)
        change = changes[remote_of(member)]
        if member.mac is None:
            (change.add if add else change.remove).update(elements)
        else:
            (change.add_macs if add else change.remove_macs).add(Mac(member.mac))


def _mac_member_error(member: Member) -> NotSupported | None:
    """Return the error of a member with a MAC address that rules could not match, or ``None``."""
    if member.mac is None or (not member.prefix.prefixlen and isinstance(member.group, GroupKey)):
        return None
    return NotSupported(
        f"{member}: a member is known by its MAC address only when it may have every address"
    )
