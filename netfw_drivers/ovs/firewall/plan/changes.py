"""Changes of the firewall's state by one update, and the flows that they concern.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Set
from functools import partial

from attrs import frozen

from netfw import flows as of
from netfw.drivers.firewall import FilteredPort, FirewallKey, Member, Rules
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.errors import InvalidInput
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.ovs.openflow.flow_cache import FlowGroup
from netfw_drivers.ovs.firewall.plan.conjunction_notes import (
    GroupPresent,
    Groups,
    MemberSet,
    Permit,
    Remote,
)
from netfw_drivers.ovs.firewall.plan.flows import (
    COOKIE,
    PortFlows,
    conjunction_flows,
    policy_flows,
    port_flows,
    static_flows,
)
from netfw_drivers.ovs.firewall.plan.matches import (
    ClauseMatch,
    MemberAddresses,
    RuleStage,
    address_at,
    member_matches,
    rule_matches,
)
from netfw_drivers.ovs.firewall.plan.state import (
    ALONE,
    ConjunctionOwner,
    FirewallState,
    PolicyOwner,
    StateOverlay,
    rule_stage_of,
)

STATIC = "static"
MAX_POLICIES = 0xFFFF
MAX_CLAUSES = 4000
"""Conjunctions of one flow; a message has no room for more."""
_COMMON = f"{MAX_CLAUSES} groups of this host have it already: put ports into groups of others"

FlowOwner = PortKey | PolicyOwner | ConjunctionOwner | ClauseMatch | str
"""Owner of flows of the firewall."""


@frozen(cache_hash=True)
class Owner:
    """Owner of flows, marked as one of the firewall."""

    part: FlowOwner


class FirewallChanges:
    """Applies one change after the other to an overlay; `groups` returns the desired flows."""

    def __init__(self, state: FirewallState) -> None:
        self.state = StateOverlay(state)
        self._touched: dict[FlowOwner, set[FirewallKey]] = defaultdict(set)
        self._addresses: dict[ClauseMatch, MemberAddresses | None] = {}
        self._members: set[Member] = set()
        """Members that were put."""
        self._crowded: set[FlowOwner] = set()

    # Changes

    def put_port(self, key: PortKey, port: FilteredPort, number: int) -> None:
        """Filter *port*, which is *number* to the switch.

        :raises InvalidInput: there are too many different sets of groups; nothing is changed.
        """
        policy = 0 if port.trusted else self._policy(port.groups)
        before = self._policies_of(key)
        if policy:
            self.state.policy_ports.add(policy, key)
            self._touch(PolicyOwner(policy), key)
        for former in before - {policy}:
            self._leave(former, key)
        sources = frozenset() if port.trusted else port.sources
        flows = PortFlows(key=key, number=number, policy=policy, sources=sources)
        self.state.set_port(key, flows)
        self._touch(key, key)

    def drop_port(self, key: PortKey) -> None:
        for former in self._policies_of(key):
            self._leave(former, key)
        self.state.set_port(key, None)
        self._touch(key, key)

    def put_group(self, key: GroupKey, rules: Rules) -> dict[str, str]:
        """Allow what *rules* allow; return the rules that are left out, and why.

        Those are rules that too many groups have.
        """
        left_out, wanted = self._wanted(key.group, rules)
        known, _ = self.state.meanings.take(GroupPresent(key.group))
        self._touch(ConjunctionOwner(known), key)
        for number, permit in self._permits(key.group):
            if permit not in wanted:
                self._withdraw(key, number, permit)
        for permit, clause_matches in wanted.items():
            self._grant(key, permit, clause_matches)
        return left_out

    def drop_group(self, key: GroupKey) -> None:
        for number, permit in self._permits(key.group):
            self._withdraw(key, number, permit)
        known = self.state.meanings.get(GroupPresent(key.group))
        if known is not None:
            self.state.meanings.free(GroupPresent(key.group))
            self._touch(ConjunctionOwner(known), key)

    def put_member(self, member: Member) -> None:
        remote, address = member.group, MemberAddresses(member.prefix, member.mac)
        self._members.add(member)
        number, _ = self.state.meanings.take(MemberSet(remote))
        self._touch(ConjunctionOwner(number), member)
        self.state.members.add(remote, address)
        self._touch_address(address, self.state.rule_stages(remote), member)

    def drop_member(self, member: Member) -> None:
        remote, address = member.group, MemberAddresses(member.prefix, member.mac)
        self.state.members.remove(remote, address)
        self._touch_address(address, RuleStage, member)
        number = self.state.meanings.get(MemberSet(remote))
        if number is not None and not self.state.members.has_key(remote):
            self.state.meanings.free(MemberSet(remote))
            self._touch(ConjunctionOwner(number), member)

    def touch(self, part: FlowOwner) -> None:
        """Plan these flows again, whatever changes."""
        self._touched.setdefault(part, set())

    def touch_everything(self) -> None:
        """Plan all flows again."""
        state = self.state
        for key in state.ports():
            self.touch(key)
        for groups in state.policies:
            self.touch(PolicyOwner(_some(state.policies.get(groups))))
        for meaning in state.meanings:
            self.touch(ConjunctionOwner(_some(state.meanings.get(meaning))))
        for _, clause_match in state.rules:
            self.touch(clause_match)
        for remote, address in state.members:
            if Member(remote, address.prefix, address.mac) not in self._members:
                self._touch_address(address, state.rule_stages(remote))

    # Flows

    def groups(self) -> tuple[dict[Hashable, FlowGroup], set[Owner]]:
        """Return the flows to put and the owners to drop, of everything that was touched."""
        put: dict[Hashable, FlowGroup] = {}
        drop: set[Owner] = set()
        empty = self.state.is_empty()
        for part in (*self._touched, STATIC):
            if isinstance(part, PortKey) and self.state.is_inherited(part):
                continue
            group = None if empty else self._group(part)
            if group is not None:
                put[Owner(part)] = group
            else:
                drop.add(Owner(part))
        return put, drop

    @property
    def crowded(self) -> Set[FlowOwner]:
        """Owners with a flow that is too long for a message; set by `groups`."""
        return self._crowded

    def concerned(self, part: FlowOwner) -> frozenset[FirewallKey]:
        """Return the keys that the flows of *part* change for."""
        return frozenset(self._touched.get(part, ()))

    def _group(self, part: FlowOwner) -> FlowGroup | None:
        match part:
            case PortKey():
                port = self.state.port(part)
                return None if port is None else FlowGroup(port, partial(port_flows, port))
            case PolicyOwner(number):
                return self._policy_group(number)
            case ConjunctionOwner(number):
                meaning = self.state.meanings.thing(number)
                flows = None if meaning is None else partial(conjunction_flows, number, meaning)
                return None if flows is None else FlowGroup(meaning, flows)
            case ClauseMatch():
                clauses = self.state.clauses(part, self._address(part))
                self._note_length(part, clauses)
                return FlowGroup(clauses, partial(_clauses, part, clauses)) if clauses else None
            case _:
                return FlowGroup(STATIC, static_flows)

    def _policy_group(self, number: int) -> FlowGroup | None:
        groups = self.state.policies.thing(number)
        if groups is None:
            return None
        source = groups, self.state.permits_of(groups)
        self._note_length(PolicyOwner(number), groups, *(found for _, found in source[1]))
        return FlowGroup(source, partial(policy_flows, number, *source))

    def _note_length(self, part: FlowOwner, *lists: Collection[object]) -> None:
        if any(len(items) > MAX_CLAUSES for items in lists):
            self._crowded.add(part)

    def _address(self, clause_match: ClauseMatch) -> MemberAddresses | None:
        if clause_match not in self._addresses:
            self._addresses[clause_match] = address_at(clause_match)
        return self._addresses[clause_match]

    # Parts of changes

    def _policy(self, groups: Groups) -> int:
        number, new = self.state.policies.take(groups)
        if new and number > MAX_POLICIES:
            self.state.policies.free(groups)
            raise InvalidInput(
                {"groups": f"this host has {MAX_POLICIES} sets of groups already: put ports into "
                 "groups that others are in"}
            )  # fmt: skip
        for group in groups:
            self.state.group_policies.add(group, number)
        return number

    def _leave(self, policy: int, key: PortKey) -> None:
        """Remove a port from *policy*, which ends with its last port."""
        self.state.policy_ports.remove(policy, key)
        groups = self.state.policies.thing(policy)
        if groups is not None and not self.state.policy_ports.has_key(policy):
            self.state.policies.free(groups)
            for group in groups:
                self.state.group_policies.remove(group, policy)
        self._touch(PolicyOwner(policy), key)

    def _policies_of(self, key: PortKey) -> set[int]:
        return set(self.state.policy_ports.keys_of(key))

    def _permits(self, group: SecurityGroupId) -> list[tuple[int, Permit]]:
        found = ((n, self.state.meanings.thing(n)) for n in self.state.permits.values_of(group))
        return sorted((n, thing) for n, thing in found if isinstance(thing, Permit))

    def _grant(self, key: GroupKey, permit: Permit, clause_matches: frozenset[ClauseMatch]) -> None:
        number, _ = self.state.meanings.take(permit)
        if (key.group, number) not in self.state.permits:
            self.state.permits.add(key.group, number)
            self._touch_policies(key)
            if permit.remote is not None:
                self.state.referrers.add(permit.remote, number)
                self._touch_members(permit, key)
        self._touch(ConjunctionOwner(number), key)
        before = self.state.rules.values_of(number)
        for clause_match in before - clause_matches:
            self.state.rules.remove(number, clause_match)
            self._touch(clause_match, key)
        for clause_match in clause_matches - before:
            self.state.rules.add(number, clause_match)
            self._touch(clause_match, key)

    def _withdraw(self, key: GroupKey, number: int, permit: Permit) -> None:
        for clause_match in tuple(self.state.rules.values_of(number)):
            self.state.rules.remove(number, clause_match)
            self._touch(clause_match, key)
        if permit.remote is not None:
            self._touch_members(permit, key)
            self.state.referrers.remove(permit.remote, number)
        self.state.permits.remove(key.group, number)
        self.state.meanings.free(permit)
        self._touch(ConjunctionOwner(number), key)
        self._touch_policies(key)

    def _wanted(
        self, group: SecurityGroupId, rules: Rules
    ) -> tuple[dict[str, str], dict[Permit, frozenset[ClauseMatch]]]:
        """Return the rules to leave out, and the clauses of the others by permit."""
        left_out: dict[str, str] = {}
        found: dict[Permit, set[ClauseMatch]] = defaultdict(set)
        for rule in sorted(rules.rules, key=lambda rule: (str(rule.direction), rule.id)):
            permit = Permit(group, rule.direction, rules.stateful, remote_of(rule))
            clause_matches = rule_matches(rule, stateful=rules.stateful)
            if any(self._is_full(clause_match, permit) for clause_match in clause_matches):
                left_out[f"rule {rule.id}"] = _COMMON
            else:
                found[permit] |= clause_matches
        return left_out, {permit: frozenset(matches) for permit, matches in found.items()}

    def _is_full(self, clause_match: ClauseMatch, permit: Permit) -> bool:
        """Return whether a flow has no room for the clause of one more permit."""
        others = self.state.rules.keys_of(clause_match)
        return len(others) >= MAX_CLAUSES and self.state.meanings.get(permit) not in others

    def _touch(self, part: FlowOwner, key: FirewallKey) -> None:
        self._touched[part].add(key)

    def _touch_policies(self, key: GroupKey) -> None:
        for policy in self.state.group_policies.values_of(key.group):
            self._touch(PolicyOwner(policy), key)

    def _touch_members(self, permit: Permit, key: FirewallKey) -> None:
        """Plan the members of a remote group again, which *permit* begins or ceases to match."""
        assert permit.remote is not None
        for address in self.state.members.values_of(permit.remote):
            self._touch_address(address, {rule_stage_of(permit), ALONE}, key)

    def _touch_address(
        self,
        address: MemberAddresses,
        rule_stages: Iterable[RuleStage],
        key: FirewallKey | None = None,
    ) -> None:
        for stage in rule_stages:
            for clause_match in member_matches(stage, address):
                self._addresses[clause_match] = address
                self._touched[clause_match].update(() if key is None else (key,))


def remote_of(rule: SecurityGroupRule) -> Remote | None:
    """Return the remote group of a rule."""
    if rule.remote_group_id is not None:
        return GroupKey(rule.remote_group_id)
    if rule.remote_address_group_id is not None:
        return AddressGroupKey(rule.remote_address_group_id)
    return None


def _clauses(
    clause_match: ClauseMatch, clauses: Iterable[tuple[int, int, int]]
) -> Iterator[of.Flow]:
    yield clause_match.flow(*(of.Conjunction(*clause) for clause in clauses), cookie=COOKIE)


def _some(number: int | None) -> int:
    assert number is not None
    return number


def parts_of(owners: Iterable[object]) -> Iterator[FlowOwner]:
    """Yield the parts of the firewall among *owners*."""
    return (owner.part for owner in owners if isinstance(owner, Owner))
