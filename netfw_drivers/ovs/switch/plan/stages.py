"""A plan of the switch driver: rows and flows as stages.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from netfw.drivers.switch_values import SwitchKey
from netfw.errors import OperationRefused
from netfw.flows import Flow
from netfw.ovs.openflow.encode import Key, describe_key
from netfw.ovs.openflow.flow_cache import FlowPlan
from netfw.ovs.ovsdb.operations import SetColumns, Table
from netfw.plan import Operation, Plan, Stage
from netfw_drivers.ovs.switch.plan.flow_groups import BASE
from netfw_drivers.ovs.switch.plan.plan import PlanOutline

FLOWS = "flows/"


@frozen
class UnwantedFlow:
    """A flow that is known by its key only."""

    key: Key

    def __str__(self) -> str:
        return describe_key(self.key)


@frozen
class FlowStep:
    """One flow to add, change or remove; ``subject`` is what the toolbox names as the text says."""

    lead: str
    subject: Flow | UnwantedFlow

    def __str__(self) -> str:
        return self.lead + str(self.subject)


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
            yield Stage(tuple(_steps(bridge, plan)))


def _steps(bridge: str, plan: FlowPlan) -> Iterator[Operation]:
    changes = plan.changes
    owners = {key: owner for owner, held in plan.holds.items() for key in held.flows}

    def step(lead: str, key: Key, subject: Flow | UnwantedFlow) -> Operation:
        mine = owners.get(key)
        named = frozenset({mine[1]}) if isinstance(mine, tuple) and mine[1] != BASE else frozenset()
        done = FlowStep(lead, subject)
        return Operation(FLOWS + bridge, done.__str__, named, done)

    for key, cookie in changes.removed.items():
        yield step(f"remove cookie={cookie:#x},", key, UnwantedFlow(key))
    for encoded in changes.added:
        yield step("add ", encoded.key, encoded.flow)
    for encoded in changes.changed:
        yield step("change ", encoded.key, encoded.flow)


def _changed_bridges(rows: list[Operation]) -> Iterator[str]:
    """Bridges that the switch makes anew, or empties, when their rows change."""
    for operation in rows:
        change = operation.payload
        if isinstance(change, SetColumns) and change.table is Table.BRIDGE and change.values:
            yield change.record
