"""Planner of the firewall: one bundle for each update, all of it or nothing.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from attrs import field, frozen

from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallKey,
    FirewallValue,
    Member,
    Rules,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.support.firewall_capabilities import left_out_error, restrict_rules
from netfw.drivers.support.firewall_validation import validation_error
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import InvalidInput, NetfwError
from netfw.ovs.openflow.encode import Key
from netfw.ovs.openflow.flow_cache import FlowPlan
from netfw.ovs.openflow.flow_diff import CookieSpace
from netfw.ovs.ovsdb.values import OvsdbPort
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.ovs.common.flow_operations import FlowPlanner, make_flow_operations
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.firewall.plan.changes import (
    MAX_CLAUSES,
    FirewallChanges,
    FlowOwner,
    Owner,
    parts_of,
)
from netfw_drivers.ovs.firewall.plan.ct_zones import zone_of
from netfw_drivers.ovs.firewall.plan.state import FirewallState
from netfw_drivers.ovs.pipeline.tables import FIREWALL_SPACE, SPACE_MASK

CAPABILITIES = (
    HostCapability.PLAN,
    HostCapability.WATCH,
    FirewallCapability.FILTERING,
    FirewallCapability.SPOOF_GUARD,
    FirewallCapability.STATELESS_GROUPS,
    FirewallCapability.ADDRESS_GROUPS,
    FirewallCapability.IN_SWITCH,
)
"""The switch has no match for ports of DCCP and UDP-Lite."""
OURS = CookieSpace(FIREWALL_SPACE, SPACE_MASK)
FirewallUpdate = Update[FirewallKey, FirewallValue]
K = TypeVar("K", bound=FirewallKey)
_CROWDED = (
    f"more than {MAX_CLAUSES} groups, or rules with remote groups, concern one port or address: "
    "use fewer groups"
)


@frozen(kw_only=True)
class Observed:
    """The state on the switch, its flows, and the numbers of its ports."""

    bridge: str
    ports: Mapping[str, OvsdbPort]
    """Those of the switch's database, by name."""
    state: FirewallState
    flows: FlowPlanner
    drifted: frozenset[FlowOwner] = frozenset()
    """Owners of flows that another process changed."""
    revision: int = 0
    """How often the state was changed before this was observed."""
    absent: bool = False
    """There is no such bridge."""

    def zone(self, device: str) -> int | None:
        """Return the zone in which connections of *device* are tracked."""
        port = self.ports.get(device)
        return zone_of(port) if port is not None else None

    def number(self, device: str) -> int | None:
        """Return the switch's number of *device*, once it has one."""
        port = self.ports.get(device)
        return ofport_of(port) if port is not None and port.bridge == self.bridge else None


@frozen(kw_only=True)
class FirewallPlan(Plan):
    """A plan, and the state to record when it is executed."""

    draft: FirewallChanges | None = field(default=None, eq=False, repr=False)
    flows: FlowPlan | None = field(default=None, eq=False, repr=False)
    zones: Mapping[PortKey, int | None] = field(factory=dict, eq=False, repr=False)
    """Where the connections of ports that are put are tracked; ``None``: unknown."""
    revision: int = field(default=0, eq=False, repr=False)
    absent: bool = field(default=False, eq=False, repr=False)

    @property
    def dropped(self) -> frozenset[PortKey]:
        """Ports without flows that do not wait for their device either."""
        gone = self.draft.state.gone() if self.draft is not None else ()
        return frozenset(gone) - self.waiting.keys()


class FirewallOutline:
    """Plans one update, given the keys that are refused."""

    def __init__(
        self, update: FirewallUpdate, observed: Observed, refused: Mapping[FirewallKey, NetfwError]
    ) -> None:
        self._update, self._observed = update, observed
        self.refused: dict[FirewallKey, NetfwError] = dict(refused)
        self.left_out: dict[FirewallKey, dict[str, str]] = {}
        """Groups that are in force without these rules."""
        self.waiting: dict[FirewallKey, str] = {}
        self.zones: dict[PortKey, int | None] = {}
        self.draft = FirewallChanges(observed.state)
        for key, value in update.put.items():
            error = validation_error(key, value)
            if error is not None:
                self.refused.setdefault(key, error)
        for key in self._dropped_keys():
            self._drop(key)
        for key in _ordered(key for key in update.put if key not in self.refused):
            self._put(key, update.put[key])
        if update.complete:
            self.draft.touch_everything()
        for part in observed.drifted:
            self.draft.touch(part)
        self._groups = self.draft.groups()

    def crowding(self) -> dict[FirewallKey, NetfwError]:
        """Return as few keys as possible, of those put, that make a flow too long."""
        found: dict[FirewallKey, NetfwError] = {}
        for part in self.draft.crowded:
            requested = self.draft.concerned(part) & self._update.put.keys() - self.refused.keys()
            kinds = [_of(requested, kind) for kind in (GroupKey, Member, PortKey)]
            blamed = min(filter(None, kinds), key=len, default=[])
            found |= {key: InvalidInput({str(key): _CROWDED}) for key in blamed}
        return found

    def flows(self) -> FlowPlan:
        """Return what to change on the bridge."""
        put, drop = self._groups
        kept = [Owner(key) for key in self.draft.state.inherited()]
        space = OURS if self._update.complete else None
        return self._observed.flows.plan(put, drop, complete=space, keep=kept)

    def _dropped_keys(self) -> Iterator[FirewallKey]:
        kept = self._update.keep | self.refused.keys()
        yield from (key for key in self._update.drop if key not in kept)
        if self._update.complete:
            staying = self._update.put.keys() | kept | self._update.drop
            yield from [key for key in self._observed.state.present() if key not in staying]

    def _put(self, key: FirewallKey, value: FirewallValue) -> None:
        try:
            match key, value:
                case PortKey(), FilteredPort():
                    self._put_port(key, value)
                case GroupKey(), Rules():
                    self._put_group(key, value)
                case Member(), _:
                    self.draft.put_member(key)
        except InvalidInput as error:
            self.refused[key] = error

    def _put_group(self, key: GroupKey, rules: Rules) -> None:
        supported = restrict_rules(rules, CAPABILITIES)
        left_out = {**supported.left_out, **self.draft.put_group(key, supported.rules)}
        if left_out:
            self.left_out[key] = left_out

    def _put_port(self, key: PortKey, port: FilteredPort) -> None:
        number = self._observed.number(port.device)
        if number is not None:
            self.draft.put_port(key, port, number)
            self.zones[key] = self._observed.zone(port.device)
            return
        self.draft.drop_port(key)  # its former number may be another's by now
        bridge = self._observed.bridge
        self.waiting[key] = f"the switch has no number for {port.device} on {bridge} yet"

    def _drop(self, key: FirewallKey) -> None:
        match key:
            case PortKey():
                self.draft.drop_port(key)
            case GroupKey():
                self.draft.drop_group(key)
            case Member() if validation_error(key, key) is None:  # else it was never there
                self.draft.drop_member(key)


def plan_firewall(update: FirewallUpdate, observed: Observed) -> Plan:
    """Plan what turns *observed* into *update*.

    Keys that are refused are left out in this one loop, until no more are refused.
    """
    refused: dict[FirewallKey, NetfwError] = {}
    while True:
        found = FirewallOutline(update, observed, refused)
        more = found.crowding()
        if not more:
            flows = found.flows()
            more = {
                part: flows.refused[Owner(part)]
                for part in parts_of(flows.refused)
                if isinstance(part, PortKey) and part not in refused
            }
        if not more:
            break
        refused |= more
    operations = tuple(_operations(observed.bridge, flows, found.draft))
    return FirewallPlan(
        stages=(Stage(operations),) if operations else (),
        waiting=found.waiting,
        refused={
            **{key: left_out_error(left_out) for key, left_out in found.left_out.items()},
            **found.refused,
        },
        draft=found.draft,
        flows=flows,
        zones=found.zones,
        revision=observed.revision,
        absent=observed.absent,
    )


def _operations(bridge: str, plan: FlowPlan, draft: FirewallChanges) -> Iterable[Operation]:
    if not plan.changes:
        return ()
    concerned: dict[Key, frozenset[Hashable]] = {}
    for owned_flows in (plan.before, plan.holds):
        for owner, owned in owned_flows.items():
            for part in parts_of([owner]):
                concerned |= dict.fromkeys(owned.flows, draft.concerned(part))
    return make_flow_operations(bridge, plan.changes, lambda key: concerned.get(key, frozenset()))


def _ordered(keys: Iterable[FirewallKey]) -> list[FirewallKey]:
    """Return *keys* in the order in which numbers are allocated, the same in every run."""
    requested = list(keys)
    ports, groups = _of(requested, PortKey), _of(requested, GroupKey)
    return [
        *sorted(groups, key=lambda key: key.group),
        *_of(requested, Member),
        *sorted(ports, key=lambda key: key.port),
    ]


def _of(keys: Iterable[FirewallKey], kind: type[K]) -> list[K]:
    return [key for key in keys if isinstance(key, kind)]
