"""State of the firewall in the switch: numbers, ports, groups, rules and members.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

from netfw.drivers.firewall import FirewallKey, Member
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.model.values.ids import SecurityGroupId
from netfw.plan.overlay import MultiMap, MultiMapOverlay, Overlay
from netfw_drivers.ovs.firewall.plan.conjunction_notes import (
    ConjunctionUse,
    GroupPresent,
    Groups,
    MemberSet,
    Permit,
    Remote,
)
from netfw_drivers.ovs.firewall.plan.flows import PortFlows
from netfw_drivers.ovs.firewall.plan.id_allocator import IdAllocator, IdAllocatorOverlay
from netfw_drivers.ovs.firewall.plan.matches import (
    ClauseMatch,
    MemberAddresses,
    RuleStage,
    rule_stage_for,
)

ALONE = RuleStage.INGRESS
"""Where the members of a group are matched that no rule refers to."""


@frozen
class PolicyOwner:
    """Owner of the flows of a policy."""

    number: int


@frozen
class ConjunctionOwner:
    """Owner of the flows of a conjunction."""

    number: int


@define
class FirewallState:
    """What is on the switch.  Everything in it can be read back from there."""

    meanings: IdAllocator[ConjunctionUse] = field(factory=IdAllocator)
    policies: IdAllocator[Groups] = field(factory=IdAllocator)
    ports: dict[PortKey, PortFlows | None] = field(factory=dict)
    """``None``: an earlier run made its flows."""
    inherited: set[PortKey] = field(factory=set)
    """The ports whose flows an earlier run made."""
    policy_ports: MultiMap[int, PortKey] = field(factory=MultiMap)
    """Policies and the ports that they are for."""
    group_policies: MultiMap[SecurityGroupId, int] = field(factory=MultiMap)
    """Groups and the policies that they are part of."""
    permits: MultiMap[SecurityGroupId, int] = field(factory=MultiMap)
    """Groups and their conjunctions."""
    referrers: MultiMap[Remote, int] = field(factory=MultiMap)
    """Remote groups and the conjunctions that name them."""
    rules: MultiMap[int, ClauseMatch] = field(factory=MultiMap)
    """Conjunctions and where their rules are."""
    members: MultiMap[Remote, MemberAddresses] = field(factory=MultiMap)

    def present(self) -> Iterator[FirewallKey]:
        """Yield the keys that are present."""
        yield from self.ports
        for meaning in self.meanings.number:
            if isinstance(meaning, GroupPresent):
                yield GroupKey(meaning.group)
        for remote, address in self.members:
            yield Member(remote, address.prefix, address.mac)

    def note_meaning(self, meaning: ConjunctionUse, number: int) -> None:
        """Record the note of an earlier run."""
        self.meanings.give(meaning, number)
        if isinstance(meaning, Permit):
            self.permits.add(meaning.group, number)
            if meaning.remote is not None:
                self.referrers.add(meaning.remote, number)

    def note_port(self, key: PortKey) -> None:
        """Record the note of an earlier run."""
        self.ports[key] = None
        self.inherited.add(key)

    def note_policy(self, groups: Groups, number: int) -> None:
        """Record the note of an earlier run."""
        self.policies.give(groups, number)
        for group in groups:
            self.group_policies.add(group, number)


class StateOverlay:
    """The state as it will be; *base* stays as it is until ``commit``."""

    def __init__(self, base: FirewallState) -> None:
        self.base = base
        self.meanings = IdAllocatorOverlay(base.meanings)
        self.policies = IdAllocatorOverlay(base.policies)
        self.policy_ports = MultiMapOverlay(base.policy_ports)
        self.group_policies = MultiMapOverlay(base.group_policies)
        self.permits = MultiMapOverlay(base.permits)
        self.referrers = MultiMapOverlay(base.referrers)
        self.rules = MultiMapOverlay(base.rules)
        self.members = MultiMapOverlay(base.members)
        self._ports = Overlay(base.ports)

    def port(self, key: PortKey) -> PortFlows | None:
        """Return what the flows of a port are made of, if it has some and that is known."""
        return self._ports.get(key)

    def set_port(self, key: PortKey, flows: PortFlows | None) -> None:
        """Set what the flows of a port are made of; ``None`` removes it."""
        if flows is None:
            self._ports.discard(key)
        else:
            self._ports[key] = flows

    def inherited(self) -> Iterator[PortKey]:
        """Yield the ports whose flows an earlier run made, and that stay as they are."""
        return filter(self.is_inherited, self.base.inherited)

    def is_inherited(self, key: PortKey) -> bool:
        return key in self._ports and self._ports[key] is None

    def gone(self) -> Iterator[PortKey]:
        """Yield the ports that have no flows any more."""
        return iter(self._ports.removed)

    def ports(self) -> Iterator[PortKey]:
        return iter(self._ports)

    def is_empty(self) -> bool:
        parts: tuple[Iterable[object], ...] = (self._ports, self.meanings, self.policies)
        return all(next(iter(part), None) is None for part in parts)

    def clauses(
        self, clause_match: ClauseMatch, address: MemberAddresses | None
    ) -> tuple[tuple[int, int, int], ...]:
        """Return number, clause and count of clauses of each conjunction at *clause_match*."""
        found = set()
        for number in self.rules.keys_of(clause_match):
            count = self._count(number)
            found.add((number, count, count))
        for remote in self.members.keys_of(address) if address is not None else ():
            rule_stages = self.rule_stages(remote)
            if clause_match.stage in rule_stages:
                own = self.meanings.get(MemberSet(remote))
                assert own is not None
                found.update((number, 2, 3) for number in (own, *rule_stages[clause_match.stage]))
        return tuple(sorted(found))

    def rule_stages(self, remote: Remote) -> Mapping[RuleStage, list[int]]:
        """Return the conjunctions that match members of *remote*, by rule stage."""
        found: dict[RuleStage, list[int]] = {}
        for number in self.referrers.values_of(remote):
            meaning = self.meanings.thing(number)
            if isinstance(meaning, Permit):
                found.setdefault(rule_stage_of(meaning), []).append(number)
        return found or {ALONE: []}

    def permits_of(
        self, groups: Groups
    ) -> tuple[tuple[RuleStage, tuple[tuple[int, int], ...]], ...]:
        """Return the conjunctions of *groups*, with their numbers of clauses, by rule stage."""
        found: dict[RuleStage, list[tuple[int, int]]] = {}
        for group in groups:
            for number in self.permits.values_of(group):
                meaning = self.meanings.thing(number)
                assert isinstance(meaning, Permit)
                found.setdefault(rule_stage_of(meaning), []).append((number, meaning.clauses))
        return tuple((stage, tuple(sorted(found[stage]))) for stage in RuleStage if stage in found)

    def commit(self) -> None:
        """Apply the changes to the base."""
        self.base.inherited.difference_update(self._ports.changed, self._ports.removed)
        for part in (
            *(self.meanings, self.policies, self.policy_ports, self.group_policies),
            *(self.permits, self.referrers, self.rules, self.members, self._ports),
        ):
            part.commit()

    def _count(self, number: int) -> int:
        meaning = self.meanings.thing(number)
        assert isinstance(meaning, Permit)
        return meaning.clauses


def rule_stage_of(permit: Permit) -> RuleStage:
    return rule_stage_for(permit.direction, stateful=permit.stateful)
