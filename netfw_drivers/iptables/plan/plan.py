"""What turns what the firewall holds into what is wanted.  Pure but for the planner of tables.

Make before break, each step atomic on its backend:

1. What guards ports is there before they are let through.
2. Sets take in what is new in them.
3. The tables: rules that are new, rules that go, all of a family's at once.  What is tracked is
   so before rules ask for it, and until none does.
4. Sets lose what is old; sets and frames that nobody leads to any more go.  Where rules and
   members change against each other, see :mod:`netfw_drivers.iptables.plan.shadow_sets`.
5. Connections that nothing allows any more are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import evolve, frozen

from netfw.drivers.firewall import FirewallKey, FirewallValue
from netfw.drivers.keys import GroupKey
from netfw.linux.ebtables.chains import FoundChain, plan_frames
from netfw.linux.ip.operations import SetSysctl
from netfw.linux.ipset.operations import ChangeMembers, DropSet, MakeSet, ReplaceSet
from netfw.linux.ipset.operations import Operation as SetOperation
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.operations import AddHook, DropHook, TableChange
from netfw.linux.iptables.rule import Family, render_rule
from netfw.model.ids import PortId, SecurityGroupId
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.iptables.plan.group_chains import TABLE, Remote
from netfw_drivers.iptables.plan.names import (
    EGRESS,
    INGRESS,
    RECEIVED,
    SENDING_MACS,
    SENT,
    SOURCES,
    id_in,
    read_set_name,
)
from netfw_drivers.iptables.plan.requested import BridgePorts, RequestedChanges, sort
from netfw_drivers.iptables.plan.ruleset_builder import Ruleset, RulesetBuilder
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex
from netfw_drivers.iptables.plan.shadow_sets import ShadowSets, find_detour

_LISTS = (SENT, SOURCES, RECEIVED, EGRESS, INGRESS, SENDING_MACS)
"""The chains that allow something line by line."""

SWITCH_BACKEND = "sysctl"
FRAMES_BACKEND, SETS_BACKEND, CONNECTIONS_BACKEND = "ebtables", "ipset", "conntrack"

TablePlanner = Callable[[Update[ChainKey, Chain]], tuple[TableChange, ...]]


@frozen(kw_only=True)
class Observed:
    """What the machine holds."""

    picture: RulesetIndex
    chains: Mapping[ChainKey, tuple[str, ...]]
    sets: Mapping[str, KernelSet]
    frames: Mapping[str, FoundChain]
    ground: BridgePorts
    tables: TablePlanner
    """How the tables, as they are, come to hold an update of chains."""
    switches: tuple[str, ...] = ()
    """What is off, and has to be on for iptables to see anything of bridges."""
    fresh: bool
    """Nothing was changed since it was read: what somebody was killed over may lie about."""


@frozen
class FlushConnections:
    """End the connections of *ports* that no rule allows, and all of *zones*."""

    ports: frozenset[PortId]
    zones: frozenset[int]

    def __str__(self) -> str:
        said = f"end connections of {len(self.ports)} ports that no rule allows any more"
        return f"{said}, and all in zones {sorted(self.zones)}" if self.zones else said


def plan_firewall(update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
    """The plan."""
    thorough = update.complete or observed.fresh
    wishes = sort(update, observed.picture, observed.sets, observed.ground)
    private = observed.ground.private
    drafter = RulesetBuilder(
        wishes, observed.picture, observed.sets, thorough=thorough, private=private
    )
    draft = drafter.run()
    detour = find_detour(
        drafter, observed.picture, observed.sets, observed.chains, observed.ground.owner
    )
    stages = [
        *_switches(draft, observed),
        *_frames(drafter, observed, drop=False, thorough=thorough),
        *_sets([*_growing(draft.sets, detour), *detour.make], draft),
        *_tables(drafter, observed, detour, thorough=thorough),
        *_frames(drafter, observed, drop=True, thorough=thorough),
        *_sets([*_shrinking(draft.sets, detour), *draft.gone_sets], draft),
        *_return(detour, draft),
        *_cut(_affected(wishes, drafter, observed), draft),
    ]
    return Plan(stages, wishes.waiting, wishes.refused)


def _switches(draft: Ruleset, observed: Observed) -> Iterator[Stage]:
    """Without them nothing of what follows would see a packet; where nothing follows, they stay."""
    filters = draft.chains or observed.picture.ports
    for name in observed.switches if filters else ():
        yield Stage([Operation(SWITCH_BACKEND, f"{name}=1", frozenset(), SetSysctl(name, "1"))])


def _growing(operations: Iterable[SetOperation], detour: ShadowSets) -> Iterator[SetOperation]:
    """What comes before the rules: all but what removes members, or is gone round."""
    for operation in operations:
        if operation.name in detour.names:
            continue
        if not isinstance(operation, ChangeMembers):
            yield operation
        elif operation.add:
            yield evolve(operation, remove=())


def _shrinking(operations: Iterable[SetOperation], detour: ShadowSets) -> Iterator[SetOperation]:
    """What comes after the rules."""
    for operation in operations:
        if operation.name in detour.names:
            yield operation
        elif isinstance(operation, ChangeMembers) and operation.remove:
            yield evolve(operation, add=())


def _return(detour: ShadowSets, draft: Ruleset) -> Iterator[Stage]:
    """Refer to the sets that are meant, and drop those of the way round."""
    for family in Family:
        puts = tuple(put for put in detour.back if put.key.family is family)
        if puts:
            yield from _stages([TableChange(family, TABLE, puts)], draft)
    yield from _sets(detour.drop, draft)


def _losing(draft: Ruleset, observed: Observed) -> Iterator[ChainKey]:
    """The chains that will lack lines that they have."""
    for key, chain in draft.chains.items():
        have = observed.chains.get(key)
        if (
            have
            and key.name[:1] in _LISTS
            and set(have) - set(_lines(chain, observed.ground.owner))
        ):
            yield key


def _lines(chain: Chain, owner: str) -> list[str]:
    return [render_rule(rule, owner) for rule in chain.rules]


def _tables(
    drafter: RulesetBuilder, observed: Observed, detour: ShadowSets, *, thorough: bool
) -> Iterator[Stage]:
    draft = drafter.draft
    gone = draft.gone_chains - draft.chains.keys()
    if thorough:
        gone |= observed.chains.keys() - draft.chains.keys() - set(drafter.staying)
    put = {**draft.chains, **detour.chains, **draft.tracking}
    update: Update[ChainKey, Chain] = Update(put=put, drop=frozenset(gone))
    changes = observed.tables(update)
    order = ("raw", "filter", "mangle")
    yield from _stages(sorted(changes, key=lambda c: (order.index(c.table), c.family)), draft)
    last: Update[ChainKey, Chain] = Update(put={key: draft.chains[key] for key in draft.tracking})
    yield from _stages(sorted(observed.tables(last), key=lambda c: c.family), draft)


def _stages(changes: Iterable[TableChange], draft: Ruleset) -> Iterator[Stage]:
    for change in changes:
        backend = f"iptables/{change.family}/{change.table}"
        yield Stage(
            Operation(backend, operation.__str__, _owners(operation, draft), operation)
            for operation in sorted(change.operations, key=str)
        )


def _owners(operation: object, draft: Ruleset) -> frozenset[FirewallKey]:
    if isinstance(operation, AddHook | DropHook):
        return frozenset()
    return draft.owners.get(getattr(operation, "key", None), frozenset())


def _sets(operations: Iterable[SetOperation], draft: Ruleset) -> Iterator[Stage]:
    rendered = [
        Operation(
            SETS_BACKEND,
            f"{_verb(operation)} {operation.name}",
            draft.owners.get(operation.name, frozenset()),
            operation,
        )
        for operation in operations
    ]
    if rendered:
        yield Stage(rendered)


def _verb(operation: SetOperation) -> str:
    match operation:
        case MakeSet(_, kind, _, words):
            return f"make set ({kind}, {len(words)} members)"
        case ReplaceSet(_, _, _, words):
            return f"replace set ({len(words)} members)"
        case ChangeMembers(_, add, remove):
            return f"add {len(add)} and remove {len(remove)} members of set"
        case DropSet():
            return "drop set"


def _frames(
    drafter: RulesetBuilder, observed: Observed, *, drop: bool, thorough: bool
) -> Iterator[Stage]:
    """What guards is there before what it guards, and goes after it."""
    draft = drafter.draft
    leaving = draft.gone_frames - draft.frames.keys()
    if thorough:
        leaving |= observed.frames.keys() - draft.frames.keys() - set(drafter.staying_frames)
    gone = sorted(leaving) if drop else []
    put = {} if drop else dict(sorted(draft.frames.items()))
    operations = plan_frames(put, gone, observed.frames, observed.ground.owner)
    if operations:
        yield Stage(
            Operation(
                FRAMES_BACKEND,
                operation.__str__,
                draft.owners.get(operation.name, frozenset()),
                operation,
            )
            for operation in operations
        )


def _cut(ports: frozenset[PortId], draft: Ruleset) -> Iterator[Stage]:
    cut = FlushConnections(ports, frozenset(draft.gone_zones))
    if cut.ports or cut.zones:
        yield Stage([Operation(CONNECTIONS_BACKEND, cut.__str__, frozenset(), cut)])


def _affected(
    wishes: RequestedChanges, drafter: RulesetBuilder, observed: Observed
) -> frozenset[PortId]:
    """The ports that something is taken away from."""
    held = observed.picture.ports
    ports = {
        id
        for id, wanted in wishes.ports.items()
        if not wanted.port.trusted and (id not in held or held[id].trusted)
    }
    groups: set[SecurityGroupId] = set()
    remotes: set[Remote] = set(_shrunk(drafter.draft.sets))
    for key in _losing(drafter.draft, observed):
        kind = key.name[:1]
        found = id_in(kind, key.name)
        if found is None:
            continue
        if kind in (SENT, SOURCES, RECEIVED):
            ports.add(PortId(found))
        elif kind in (EGRESS, INGRESS):
            groups.add(SecurityGroupId(found))
        else:
            remotes.add((GroupKey(SecurityGroupId(found)), int(key.family)))
    for each in remotes:
        groups |= drafter.referrers(each)
    for group in groups:
        ports |= drafter.users(group)
    return frozenset(ports)


def _shrunk(operations: Iterable[SetOperation]) -> Iterator[Remote]:
    for operation in operations:
        replaced = isinstance(operation, ReplaceSet)
        if replaced or (isinstance(operation, ChangeMembers) and operation.remove):
            remote = read_set_name(operation.name)
            if remote is not None:
                yield remote
