"""Plan from the installed firewall to the desired one.  Pure.

All chains, sets and maps change in one transaction of the kernel, so that there is no moment at
which a new rule meets an old member.  Connections in a zone that a network gets are removed
before, those that no rule allows any more afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from attrs import frozen

from netfw.drivers.firewall import FirewallKey, FirewallValue
from netfw.drivers.values.keys import PortKey
from netfw.linux.bridge_firewall.group_relations import Losses
from netfw.linux.bridge_firewall.stages_plan import flush_stages, sysctl_stages
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.nftables.operations import (
    ChangeElements,
    DropNftChain,
    DropNftSet,
    DropTable,
    MakeNftSet,
    MakeTable,
    NftOperation,
    PutNftChain,
)
from netfw.linux.nftables.values import NftRuleset, NftSetKind, NftTable, ObjectKey
from netfw.model.values.ids import PortId, SecurityGroupId
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.nftables.plan.names import (
    EGRESS,
    INGRESS,
    Tables,
    read_chain,
    read_frames,
    read_remote,
)
from netfw_drivers.nftables.plan.requested_changes import RequestedChanges, classify_update
from netfw_drivers.nftables.plan.ruleset_builder import (
    FILTER_SETS,
    TRACKING_SETS,
    DesiredRuleset,
    NftRulesetBuilder,
    Owners,
)
from netfw_drivers.nftables.plan.ruleset_index import NftRulesetIndex

NFT_BACKEND = "nftables"


@frozen(kw_only=True)
class Observed:
    """Installed rules, and the bridges of devices."""

    index: NftRulesetIndex
    bridge_ports: BridgePorts
    disabled_sysctls: tuple[str, ...] = ()
    """Sysctls that are off, and without which no connection on a bridge is tracked."""
    fresh: bool
    """Nothing was changed since the read: it may have foreign changes."""


def plan_firewall(update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
    """Plan the stages of *update*."""
    thorough = update.complete or observed.fresh
    index = observed.index
    requested = classify_update(update, index, observed.bridge_ports)
    builder = NftRulesetBuilder(
        requested,
        index,
        Tables(observed.bridge_ports.owner),
        thorough=thorough,
        private=observed.bridge_ports.private,
    )
    desired = builder.run()
    if thorough:
        _remove_unknown(desired, builder, index.ruleset)
    operations = list(_operations(desired, index.ruleset, Tables(observed.bridge_ports.owner)))
    filters = bool(desired.chains or index.ports)
    stages = [*sysctl_stages(observed.disabled_sysctls, filters=filters)]
    stages += flush_stages(frozenset(), desired.new_zones)
    if operations:
        stages.append(Stage(_as_stage(operations, desired, requested)))
    stages += flush_stages(_affected(requested, builder, index), desired.gone_zones)
    return Plan(stages, requested.waiting, requested.refused)


def _remove_unknown(
    desired: DesiredRuleset, builder: NftRulesetBuilder, present: NftRuleset
) -> None:
    """Remove all that neither this update nor what stays needs."""
    known = desired.chains.keys() | set(builder.staying)
    desired.gone_chains |= present.chains.keys() - known
    desired.gone_sets |= present.sets.keys() - desired.sets.keys()
    for key in desired.sets.keys() & present.sets.keys():
        if key.name in FILTER_SETS or key.name in TRACKING_SETS:
            desired.remove[key] |= present.sets[key].elements


def _operations(
    desired: DesiredRuleset, present: NftRuleset, tables: Tables
) -> Iterator[NftOperation]:
    for table in (tables.bridge, tables.inet):
        if not _has_any(table, desired, present):
            if table in present.tables | present.dormant:
                yield DropTable(table)
            continue
        if table not in present.tables:
            yield MakeTable(table)
        yield from _set_operations(desired, present, table.family)
        yield from _chain_operations(desired, present, table.family)


def _has_any(table: NftTable, desired: DesiredRuleset, present: NftRuleset) -> bool:
    """Return whether the table will have anything; costs more only where much is removed."""
    if any(key.table == table for key in (*desired.chains, *desired.sets)):
        return True
    if not any(key.table == table for key in (*desired.gone_chains, *desired.gone_sets)):
        return table in present.tables
    chains = (key for key in present.chains if key not in desired.gone_chains)
    sets = (key for key in present.sets if key not in desired.gone_sets)
    return any(key.table == table for key in chain(chains, sets))


def _set_operations(
    desired: DesiredRuleset, present: NftRuleset, family: str
) -> Iterator[NftOperation]:
    for key in sorted(desired.sets.keys() | desired.add.keys() | desired.remove.keys(), key=str):
        if key.table.family != family or (key in desired.gone_sets and key not in desired.sets):
            continue
        found = present.sets.get(key)
        kind = desired.sets.get(key) or (found.kind if found is not None else None)
        if kind is None:
            continue
        if found is None or found.kind != kind:
            found = None
            yield MakeNftSet(key, kind)
        yield from _element_operation(key, kind, desired, {} if found is None else found.elements)
    for key in sorted(desired.gone_sets & present.sets.keys() - desired.sets.keys(), key=str):
        if key.table.family == family:
            yield DropNftSet(key)


def _element_operation(
    key: ObjectKey, kind: NftSetKind, desired: DesiredRuleset, have: dict[tuple[str, ...], str]
) -> Iterator[NftOperation]:
    wanted = desired.add.get(key, {})
    add = {each: target for each, target in wanted.items() if have.get(each) != target}
    replaced = {each: have[each] for each in add if each in have}
    leaving = desired.remove.get(key, {})
    remove = {each: have[each] for each in leaving if each in have and each not in wanted}
    if add or remove:
        yield ChangeElements(key, kind, add, replaced | remove)


def _chain_operations(
    desired: DesiredRuleset, present: NftRuleset, family: str
) -> Iterator[NftOperation]:
    for key, wanted in sorted(desired.chains.items(), key=lambda item: str(item[0])):
        if key.table.family == family and present.chains.get(key) != wanted:
            yield PutNftChain(key, wanted)
    gone = desired.gone_chains & present.chains.keys()
    for key in sorted(gone - desired.chains.keys(), key=str):
        if key.table.family == family:
            yield DropNftChain(key)


def _as_stage(
    operations: Iterable[NftOperation], desired: DesiredRuleset, requested: RequestedChanges
) -> Iterator[Operation]:
    ports: Owners = frozenset(map(PortKey, requested.ports))
    for operation in operations:
        key = getattr(operation, "key", None)
        owners = desired.owners.get(key, ports) if key is not None else frozenset()
        yield Operation(NFT_BACKEND, operation.__str__, owners, operation)


def _affected(
    requested: RequestedChanges, builder: NftRulesetBuilder, index: NftRulesetIndex
) -> frozenset[PortId]:
    """Return the ports that lose permissions."""
    losses = Losses(remotes=set(builder.desired.shrunk))
    for key in _losing(builder.desired, index.ruleset):
        if (port := read_frames(key.name)) is not None:
            losses.ports.add(PortId(port))
        elif (remote := read_remote(key.name)) is not None:
            losses.remotes.add(remote)
        elif (named := read_chain(key.name)) is not None:
            if named[0] in (EGRESS, INGRESS):
                losses.groups.add(SecurityGroupId(named[2]))
            else:
                losses.ports.add(PortId(named[2]))
    return losses.affected_ports(requested, index, builder.relations)


def _losing(desired: DesiredRuleset, present: NftRuleset) -> Iterator[ObjectKey]:
    """Yield the chains that lose rules."""
    for key, wanted in desired.chains.items():
        former = present.chains.get(key)
        if former is not None and set(former.rules) - set(wanted.rules):
            yield key
