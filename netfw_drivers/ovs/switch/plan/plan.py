"""Plans of the switch driver: rows and flows as stages.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from attrs import field, frozen

from netfw.ovs.openflow.encode import Key
from netfw.ovs.openflow.flow_cache import FlowPlan
from netfw.ovs.ovsdb.operations import OvsdbTable, SetColumns
from netfw.plan import Operation, Plan, Stage
from netfw_drivers.ovs.common.flow_operations import make_flow_operations
from netfw_drivers.ovs.switch.plan.flow_groups import BASE
from netfw_drivers.ovs.switch.plan.flow_requests import BridgeFlowPlan
from netfw_drivers.ovs.switch.plan.observed import Observed
from netfw_drivers.ovs.switch.plan.outline import PlanOutline, SwitchUpdate, outline
from netfw_drivers.ovs.switch.plan.settings import Settings


@frozen(kw_only=True)
class SwitchPlan(Plan):
    """A plan, and the state to record when it is executed."""

    outline: PlanOutline = field(eq=False, repr=False)
    replanned: frozenset[str] = field(default=frozenset(), eq=False, repr=False)
    """Bridges that the switch makes anew or empties: their flows are planned again after that."""


def plan_switch(update: SwitchUpdate, observed: Observed, settings: Settings) -> SwitchPlan:
    """Plan what turns *observed* into *update*; only keys of *update* wait."""
    planned = outline(update, observed, settings, with_flows=True)
    draft, concerned = planned.draft, frozenset(update)
    return SwitchPlan(
        stages=(
            *draft.before(),
            *planned.guarantees.puts,
            *_flow_stages(planned.flows),
            *planned.guarantees.removals,
            *draft.after(),
        ),
        waiting={
            key: reason
            for key, reason in draft.waiting.items()
            if key in concerned and key not in draft.refused
        },
        refused=dict(draft.refused),
        needs_full_observation=planned.unknown_flows and not observed.recovered,
        outline=planned,
        replanned=frozenset(_changed_bridges(draft.prepare)),
    )


def _flow_stages(planned: Mapping[str, BridgeFlowPlan]) -> Iterator[Stage]:
    for bridge, plan in planned.items():
        if plan.flows.changes:
            yield Stage(tuple(_operations(bridge, plan.flows)))


def _operations(bridge: str, plan: FlowPlan) -> Iterator[Operation]:
    owners = {key: owner for owner, owned in plan.holds.items() for key in owned.flows}

    def blamed(flow: Key) -> frozenset[Hashable]:
        owner = owners.get(flow)
        if isinstance(owner, tuple) and owner[1] != BASE:
            return frozenset({owner[1]})
        return frozenset()

    return make_flow_operations(bridge, plan.changes, blamed)


def _changed_bridges(rows: list[Operation]) -> Iterator[str]:
    """Yield the bridges that the switch makes anew or empties when their rows change."""
    for operation in rows:
        change = operation.payload
        if isinstance(change, SetColumns) and change.table is OvsdbTable.BRIDGE and change.values:
            yield change.record
