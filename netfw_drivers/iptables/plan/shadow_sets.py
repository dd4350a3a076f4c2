"""A way round by sets that nobody uses yet, where rules and members change against each other.

Rules change in one step, and a set in another.  In between, rules that are new could meet members
that are to go, or members that are new rules that are to go: something would pass that neither the
old nor the new policy allows.  Then the new rules refer to new sets for a moment, until the sets
that they mean are as they should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from netfw.linux.ipset.operations import ChangeMembers, DropSet, MakeSet, ReplaceSet
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.ipset.values import full_name, room_for
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.operations import PutChain
from netfw.linux.iptables.rule import Rule, Target, render_rule
from netfw_drivers.iptables.plan.group_chains import Chains, Remote
from netfw_drivers.iptables.plan.names import SENDING_MACS, id_in, read_set_name
from netfw_drivers.iptables.plan.ruleset_builder import Ruleset, RulesetBuilder
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex

Lines = Mapping[ChainKey, tuple[str, ...]]


@frozen(kw_only=True)
class ShadowSets:
    """What to do besides; empty where there is nothing to go round."""

    make: tuple[MakeSet, ...] = ()
    """Sets to make before the rules change."""
    chains: Chains = field(factory=dict)
    """Chains as they are for the moment, instead of what they shall be."""
    back: tuple[PutChain, ...] = ()
    """What they shall be."""
    drop: tuple[DropSet, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The sets that are gone round."""
        return frozenset(made.name.removeprefix("t") for made in self.make)


def find_detour(
    drafter: RulesetBuilder,
    picture: RulesetIndex,
    sets: Mapping[str, KernelSet],
    have: Lines,
    owner: str,
) -> ShadowSets:
    """Where rules and members change against each other, and the way round."""
    remotes = set(_conflicts(drafter, picture, have, owner))
    made = [_temporary(remote, drafter.draft, sets) for remote in remotes]
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
    for key, lines in _referring(drafter, remotes, picture, have, owner).items():
        moved = [_renamed(line, renames) for line in lines]
        if moved != list(lines):
            chains[key] = Chain(tuple(map(verbatim, moved)))
            back.append(PutChain(key, Chain(tuple(map(verbatim, lines))), tuple(lines)))
    drop = tuple(DropSet(each.name) for each in temporary)
    return ShadowSets(make=tuple(temporary), chains=chains, back=tuple(back), drop=drop)


def verbatim(line: str) -> Rule:
    """A rule that is exactly *line*."""
    return Rule(target=Target("as it is", line))


def _renamed(line: str, renames: Mapping[str, str]) -> str:
    for old, new in renames.items():
        line = line.replace(old, new)
    return line


def _conflicts(
    drafter: RulesetBuilder, picture: RulesetIndex, have: Lines, owner: str
) -> Iterator[Remote]:
    losing, gaining = set(), set()
    for key, chain in drafter.draft.chains.items():
        there = have.get(key)
        if there is None or id_in(key.name[:1], key.name) is None:
            continue
        wanted = {render_rule(rule, owner) for rule in chain.rules}
        if not wanted.issuperset(there):
            losing.add(int(key.family))
        if wanted.difference(there):
            gaining.add(int(key.family))
    for operation in drafter.draft.sets:
        remote = read_set_name(operation.name)
        if remote is None or not (drafter.referrers(remote) or picture.referrers.get(remote)):
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


def _temporary(remote: Remote, draft: Ruleset, sets: Mapping[str, KernelSet]) -> MakeSet | None:
    """A set with the members that the one of *remote* shall have."""
    for operation in draft.sets:
        if read_set_name(operation.name) != remote:
            continue
        name = f"t{operation.name}"
        if isinstance(operation, ReplaceSet):
            return MakeSet(name, operation.kind, operation.room, operation.elements)
        if isinstance(operation, ChangeMembers):
            there = sets[operation.name]
            wanted = frozenset(there.elements.union(operation.add).difference(operation.remove))
            return MakeSet(name, there.kind, room_for(len(wanted)), wanted)
    return None


def _referring(
    drafter: RulesetBuilder, remotes: set[Remote], picture: RulesetIndex, have: Lines, owner: str
) -> dict[ChainKey, tuple[str, ...]]:
    """The chains that will refer to *remotes*, with the lines that they shall have."""
    found: dict[ChainKey, tuple[str, ...]] = {}
    draft = drafter.draft
    for key, chain in draft.chains.items():
        if key.name[:1] != SENDING_MACS:
            found[key] = tuple([render_rule(rule, owner) for rule in chain.rules])
    groups = {group for remote in remotes for group in drafter.referrers(remote)}
    for group in groups:
        for key in picture.refers.get(group, {}):
            if key in have and key not in draft.chains and key not in draft.gone_chains:
                found[key] = have[key]
    return found
