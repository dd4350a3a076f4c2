"""A plan of the switch driver: rows and flows as stages.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from attrs import field, frozen

from netfw.drivers.switch_values import SwitchKey
from netfw.errors import OperationRefused
from netfw.ovs.openflow.encode import Key
from netfw.ovs.openflow.flow_cache import FlowPlan
from netfw.ovs.ovsdb.operations import SetColumns, Table
from netfw.plan import Operation, Plan, Stage
from netfw_drivers.ovs.common.flow_operations import make_flow_operations
from netfw_drivers.ovs.switch.plan.flow_groups import BASE
from netfw_drivers.ovs.switch.plan.plan import PlanOutline


@frozen(kw_only=True)
class SwitchPlan(Plan):
    """A plan, and what the driver has to note when it is carried out."""

    outline: PlanOutline | None = field(default=None, eq=False, repr=False)
    flows: Mapping[str, FlowPlan] = field(factory=dict, eq=False, repr=False)
    unsettled: frozenset[str] = field(default=frozenset(), eq=False, repr=False)
    """Bridges whose flows are planned again once their rows are done."""


class IncompleteObservation(OperationRefused):
    """A plan that would leave garbage alive, made before the machine was asked what it has."""

    def __init__(self) -> None:
        super().__init__({})  # nobody is to blame
        self.args = ("what is refused has flows that are not known yet: observe all, plan again",)


def compose(
    found: PlanOutline, flows: Mapping[str, FlowPlan], asked: frozenset[SwitchKey]
) -> SwitchPlan:
    """The stages; only what was *asked* about waits."""
    draft = found.draft
    waiting = {key: why for key, why in draft.waiting.items() if key in asked}
    return SwitchPlan(
        stages=(*draft.before(), *_flow_stages(flows), *draft.after()),
        waiting={key: why for key, why in waiting.items() if key not in draft.refused},
        refused=dict(draft.refused),
        outline=found,
        flows=flows,
        unsettled=frozenset(_changed_bridges(draft.prepare)),
    )


def _flow_stages(flows: Mapping[str, FlowPlan]) -> Iterator[Stage]:
    for bridge, plan in flows.items():
        if plan.changes:
            yield Stage(tuple(_operations(bridge, plan)))


def _operations(bridge: str, plan: FlowPlan) -> Iterator[Operation]:
    owners = {key: owner for owner, owned in plan.holds.items() for key in owned.flows}

    def blamed(flow: Key) -> frozenset[Hashable]:
        owner = owners.get(flow)
        if isinstance(owner, tuple) and owner[1] != BASE:
            return frozenset({owner[1]})
        return frozenset()

    return make_flow_operations(bridge, plan.changes, blamed)


def _changed_bridges(rows: list[Operation]) -> Iterator[str]:
    """Bridges that the switch makes anew, or empties, when their rows change."""
    for operation in rows:
        change = operation.payload
        if isinstance(change, SetColumns) and change.table is Table.BRIDGE and change.values:
            yield change.record
