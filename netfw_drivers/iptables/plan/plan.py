"""Plan from the installed firewall to the desired one.  Pure but for the planner of tables.

Make before break, each step atomic on its backend:

1. Connections in zones that networks get are removed.
2. Frame rules are installed before ports are let through.
3. New members are added to sets.
4. The tables: added and removed rules of a family at once.  Tracking starts before rules need it,
   and stops after the last one does.
5. Old members are removed from sets; unreferenced sets and frame rules are removed.  Where rules
   and members change against each other, see :mod:`netfw_drivers.iptables.plan.shadow_sets`.
6. Connections that no rule allows any more are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import evolve, frozen

from netfw.drivers.firewall import FirewallKey, FirewallValue
from netfw.drivers.values.keys import GroupKey
from netfw.linux.bridge_firewall.group_relations import Losses
from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.bridge_firewall.stages_plan import flush_stages, sysctl_stages
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.ebtables.chains import FoundChain, plan_frames
from netfw.linux.ipset.operations import ChangeMembers, DropSet, MakeSet, ReplaceSet
from netfw.linux.ipset.operations import Operation as SetOperation
from netfw.linux.ipset.plan import KernelSet
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.operations import AddHook, DropHook, TableChange
from netfw.linux.iptables.rule import Family, render_rule
from netfw.model.values.ids import PortId, SecurityGroupId
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.iptables.plan.group_chains import TABLE
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
from netfw_drivers.iptables.plan.requested_changes import RequestedChanges, classify_update
from netfw_drivers.iptables.plan.ruleset_builder import (
    DesiredIptablesRuleset,
    IptablesRulesetBuilder,
)
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex
from netfw_drivers.iptables.plan.shadow_sets import ShadowSets, plan_shadow_sets

_LISTS = (SENT, SOURCES, RECEIVED, EGRESS, INGRESS, SENDING_MACS)
"""Chains in which each line allows something."""

FRAMES_BACKEND, SETS_BACKEND = "ebtables", "ipset"

TablePlanner = Callable[[Update[ChainKey, Chain]], tuple[TableChange, ...]]


@frozen(kw_only=True)
class Observed:
    """Installed rules, sets and frame rules, and the bridges of devices."""

    index: IptablesRulesetIndex
    chains: Mapping[ChainKey, tuple[str, ...]]
    sets: Mapping[str, KernelSet]
    frames: Mapping[str, FoundChain]
    bridge_ports: BridgePorts
    tables: TablePlanner
    """Planner from the installed tables to an update of chains."""
    disabled_sysctls: tuple[str, ...] = ()
    """Sysctls that are off, and without which iptables sees no bridged packet."""
    fresh: bool
    """Nothing was changed since the read: a killed process may have left garbage."""


def plan_firewall(update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
    """Plan the stages of *update*."""
    thorough = update.complete or observed.fresh
    requested = classify_update(update, observed.index, observed.sets, observed.bridge_ports)
    private = observed.bridge_ports.private
    builder = IptablesRulesetBuilder(
        requested, observed.index, observed.sets, thorough=thorough, private=private
    )
    ruleset = builder.run()
    shadow = plan_shadow_sets(
        builder, observed.index, observed.sets, observed.chains, observed.bridge_ports.owner
    )
    stages = [
        *sysctl_stages(
            observed.disabled_sysctls, filters=bool(ruleset.chains or observed.index.ports)
        ),
        *flush_stages(frozenset(), ruleset.new_zones),
        *_frames(builder, observed, drop=False, thorough=thorough),
        *_sets([*_growing(ruleset.sets, shadow), *shadow.make], ruleset),
        *_tables(builder, observed, shadow, thorough=thorough),
        *_frames(builder, observed, drop=True, thorough=thorough),
        *_sets([*_shrinking(ruleset.sets, shadow), *ruleset.gone_sets], ruleset),
        *_leave_shadow_sets(shadow, ruleset),
        *flush_stages(_affected(requested, builder, observed), ruleset.gone_zones),
    ]
    return Plan(stages, requested.waiting, requested.refused)


def _growing(operations: Iterable[SetOperation], shadow: ShadowSets) -> Iterator[SetOperation]:
    """Yield operations before the rules: all but removals, and sets with a shadow set."""
    for operation in operations:
        if operation.name in shadow.names:
            continue
        if not isinstance(operation, ChangeMembers):
            yield operation
        elif operation.add:
            yield evolve(operation, remove=())


def _shrinking(operations: Iterable[SetOperation], shadow: ShadowSets) -> Iterator[SetOperation]:
    """Yield operations after the rules."""
    for operation in operations:
        if operation.name in shadow.names:
            yield operation
        elif isinstance(operation, ChangeMembers) and operation.remove:
            yield evolve(operation, add=())


def _leave_shadow_sets(shadow: ShadowSets, ruleset: DesiredIptablesRuleset) -> Iterator[Stage]:
    """Have rules refer to the final sets again, and drop the shadow sets."""
    for family in Family:
        puts = tuple(put for put in shadow.back if put.key.family is family)
        if puts:
            yield from _stages([TableChange(family, TABLE, puts)], ruleset)
    yield from _sets(shadow.drop, ruleset)


def _losing(ruleset: DesiredIptablesRuleset, observed: Observed) -> Iterator[ChainKey]:
    """Yield the chains that lose lines."""
    for key, chain in ruleset.chains.items():
        have = observed.chains.get(key)
        if (
            have
            and key.name[:1] in _LISTS
            and set(have) - set(_lines(chain, observed.bridge_ports.owner))
        ):
            yield key


def _lines(chain: Chain, owner: str) -> list[str]:
    return [render_rule(rule, owner) for rule in chain.rules]


def _tables(
    builder: IptablesRulesetBuilder, observed: Observed, shadow: ShadowSets, *, thorough: bool
) -> Iterator[Stage]:
    ruleset = builder.ruleset
    gone = ruleset.gone_chains - ruleset.chains.keys()
    if thorough:
        gone |= observed.chains.keys() - ruleset.chains.keys() - set(builder.staying)
    put = {**ruleset.chains, **shadow.chains, **ruleset.tracking}
    update: Update[ChainKey, Chain] = Update(put=put, drop=frozenset(gone))
    changes = observed.tables(update)
    order = ("raw", "filter", "mangle")
    yield from _stages(sorted(changes, key=lambda c: (order.index(c.table), c.family)), ruleset)
    last: Update[ChainKey, Chain] = Update(
        put={key: ruleset.chains[key] for key in ruleset.tracking}
    )
    yield from _stages(sorted(observed.tables(last), key=lambda c: c.family), ruleset)


def _stages(changes: Iterable[TableChange], ruleset: DesiredIptablesRuleset) -> Iterator[Stage]:
    for change in changes:
        backend = f"iptables/{change.family}/{change.table}"
        yield Stage(
            Operation(backend, operation.__str__, _owners(operation, ruleset), operation)
            for operation in sorted(change.operations, key=str)
        )


def _owners(operation: object, ruleset: DesiredIptablesRuleset) -> frozenset[FirewallKey]:
    if isinstance(operation, AddHook | DropHook):
        return frozenset()
    return ruleset.owners.get(getattr(operation, "key", None), frozenset())


def _sets(operations: Iterable[SetOperation], ruleset: DesiredIptablesRuleset) -> Iterator[Stage]:
    rendered = [
        Operation(
            SETS_BACKEND,
            f"{_verb(operation)} {operation.name}",
            ruleset.owners.get(operation.name, frozenset()),
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
    builder: IptablesRulesetBuilder, observed: Observed, *, drop: bool, thorough: bool
) -> Iterator[Stage]:
    """Add frame rules before the tables change, and remove them afterwards."""
    ruleset = builder.ruleset
    leaving = ruleset.gone_frames - ruleset.frames.keys()
    if thorough:
        leaving |= observed.frames.keys() - ruleset.frames.keys() - set(builder.staying_frames)
    gone = sorted(leaving) if drop else []
    put = {} if drop else dict(sorted(ruleset.frames.items()))
    operations = plan_frames(put, gone, observed.frames, observed.bridge_ports.owner)
    if operations:
        yield Stage(
            Operation(
                FRAMES_BACKEND,
                operation.__str__,
                ruleset.owners.get(operation.name, frozenset()),
                operation,
            )
            for operation in operations
        )


def _affected(
    requested: RequestedChanges, builder: IptablesRulesetBuilder, observed: Observed
) -> frozenset[PortId]:
    """Return the ports that lose permissions."""
    losses = Losses(remotes=set(_shrunk(builder.ruleset.sets)))
    for key in _losing(builder.ruleset, observed):
        kind = key.name[:1]
        found = id_in(kind, key.name)
        if found is None:
            continue
        if kind in (SENT, SOURCES, RECEIVED):
            losses.ports.add(PortId(found))
        elif kind in (EGRESS, INGRESS):
            losses.groups.add(SecurityGroupId(found))
        else:
            losses.remotes.add((GroupKey(SecurityGroupId(found)), int(key.family)))
    return losses.affected_ports(requested, observed.index, builder.relations)


def _shrunk(operations: Iterable[SetOperation]) -> Iterator[Remote]:
    for operation in operations:
        replaced = isinstance(operation, ReplaceSet)
        if replaced or (isinstance(operation, ChangeMembers) and operation.remove):
            remote = read_set_name(operation.name)
            if remote is not None:
                yield remote
