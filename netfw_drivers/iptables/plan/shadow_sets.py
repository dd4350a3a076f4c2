"""Shadow sets, for updates in which rules and members change against each other.

Rules change in one step, and a set in another.  In between, a new rule could match an old member,
or an old rule a new member: a packet would pass that neither the old nor the new policy allows.  In
that case the new rules refer to temporary sets until the real sets have their final members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.ipset.operations import ChangeMembers, DropSet, MakeSet, ReplaceSet
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.ipset.values import choose_max_elements, full_name
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.operations import PutChain
from netfw.linux.iptables.rule import IptablesRule, Target, render_rule
from netfw_drivers.iptables.plan.group_chains import Chains
from netfw_drivers.iptables.plan.names import SENDING_MACS, id_in, read_set_name
from netfw_drivers.iptables.plan.ruleset_builder import (
    DesiredIptablesRuleset,
    IptablesRulesetBuilder,
)
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex

Lines = Mapping[ChainKey, tuple[str, ...]]


@frozen(kw_only=True)
class ShadowSets:
    """Additional operations; empty if there is no conflict."""

    make: tuple[MakeSet, ...] = ()
    """Sets to create before the rules change."""
    chains: Chains = field(factory=dict)
    """Temporary versions of chains."""
    back: tuple[PutChain, ...] = ()
    """Final versions of these chains."""
    drop: tuple[DropSet, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Sets that have a shadow set."""
        return frozenset(made.name.removeprefix("t") for made in self.make)


def plan_shadow_sets(
    builder: IptablesRulesetBuilder,
    index: IptablesRulesetIndex,
    sets: Mapping[str, KernelSet],
    have: Lines,
    owner: str,
) -> ShadowSets:
    """Plan shadow sets where rules and members change against each other."""
    remotes = set(_conflicts(builder, index, have, owner))
    made = [_temporary(remote, builder.ruleset, sets) for remote in remotes]
    temporary = [each for each in made if each is not None]
    if not temporary:
        return ShadowSets()
    chains: Chains = {}
    back = []
    renames = {
        f"--match-set {full_name(owner, each.name[1:])} ": (
            f"--match-set {full_name(owner, each.name)} "
        )
        for each in temporary
    }
    for key, lines in _referring(builder, remotes, index, have, owner).items():
        moved = [_renamed(line, renames) for line in lines]
        if moved != list(lines):
            chains[key] = Chain(tuple(map(verbatim, moved)))
            back.append(PutChain(key, Chain(tuple(map(verbatim, lines))), tuple(lines)))
    drop = tuple(DropSet(each.name) for each in temporary)
    return ShadowSets(make=tuple(temporary), chains=chains, back=tuple(back), drop=drop)


def verbatim(line: str) -> IptablesRule:
    """Build a rule from the text *line*."""
    return IptablesRule(target=Target("as it is", line))


def _renamed(line: str, renames: Mapping[str, str]) -> str:
    for old, new in renames.items():
        line = line.replace(old, new)
    return line


def _conflicts(
    builder: IptablesRulesetBuilder, index: IptablesRulesetIndex, have: Lines, owner: str
) -> Iterator[Remote]:
    losing, gaining = set(), set()
    for key, chain in builder.ruleset.chains.items():
        there = have.get(key)
        if there is None or id_in(key.name[:1], key.name) is None:
            continue
        wanted = {render_rule(rule, owner) for rule in chain.rules}
        if not wanted.issuperset(there):
            losing.add(int(key.family))
        if wanted.difference(there):
            gaining.add(int(key.family))
    for operation in builder.ruleset.sets:
        remote = read_set_name(operation.name)
        if remote is None or not (
            builder.relations.referrers(remote) or index.referrers.get(remote)
        ):
            continue
        match operation:
            case ReplaceSet():
                against = remote[1] in losing | gaining
            case ChangeMembers(_, add, remove):
                grows, shrinks = add and remote[1] in losing, remove and remote[1] in gaining
                against = bool(grows or shrinks)
            case _:
                against = False
        if against:
            yield remote


def _temporary(
    remote: Remote, ruleset: DesiredIptablesRuleset, sets: Mapping[str, KernelSet]
) -> MakeSet | None:
    """Build a set with the final members of *remote*."""
    for operation in ruleset.sets:
        if read_set_name(operation.name) != remote:
            continue
        name = f"t{operation.name}"
        if isinstance(operation, ReplaceSet):
            return MakeSet(name, operation.kind, operation.max_elements, operation.elements)
        if isinstance(operation, ChangeMembers):
            there = sets[operation.name]
            wanted = frozenset(there.elements.union(operation.add).difference(operation.remove))
            return MakeSet(name, there.kind, choose_max_elements(len(wanted)), wanted)
    return None


def _referring(
    builder: IptablesRulesetBuilder,
    remotes: set[Remote],
    index: IptablesRulesetIndex,
    have: Lines,
    owner: str,
) -> dict[ChainKey, tuple[str, ...]]:
    """Return the chains that will refer to *remotes*, with their final lines."""
    found: dict[ChainKey, tuple[str, ...]] = {}
    ruleset = builder.ruleset
    for key, chain in ruleset.chains.items():
        if key.name[:1] != SENDING_MACS:
            found[key] = tuple([render_rule(rule, owner) for rule in chain.rules])
    groups = {group for remote in remotes for group in builder.relations.referrers(remote)}
    for group in groups:
        for key in index.refers.get(group, {}):
            if key in have and key not in ruleset.chains and key not in ruleset.gone_chains:
                found[key] = have[key]
    return found
