"""Firewall drivers for ports of Linux bridges: iptables, ipset and ebtables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any, ClassVar, Self, cast

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import FirewallCapability, FirewallKey, FirewallValue, Member
from netfw.drivers.host_driver import HostCapability
from netfw.linux.bridge_firewall.bridge_driver import (
    CAPABILITIES,
    BridgeFirewallDriver,
    HybridPlugged,
)
from netfw.linux.bridge_firewall.denied_connections import DenialFinder
from netfw.linux.bridge_firewall.remote_groups import EVERYTHING, make_mac_member
from netfw.linux.ebtables import Ebtables
from netfw.linux.ipset import IpSets
from netfw.linux.iptables import Backend, Iptables, IptablesBinaries
from netfw.linux.iptables.operations import DropChain, PutChain, TableChange
from netfw.linux.iptables.operations import Operation as TableOperation
from netfw.linux.iptables.refusal import RulesRefused
from netfw.linux.iptables.rule import IptablesRule
from netfw.linux.netns import Namespace
from netfw.model.values.address import IpNetwork
from netfw.plan import Outcome, Plan, Update
from netfw_drivers.iptables.plan.conntrack_eval import ConnectionEvaluator
from netfw_drivers.iptables.plan.names import HYBRID_OWNER, OWNER, read_set_name
from netfw_drivers.iptables.plan.plan import (
    FRAMES_BACKEND,
    SETS_BACKEND,
    Observed,
    plan_firewall,
)
from netfw_drivers.iptables.plan.refused_rules import EnforceableUpdate, Refusals
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex


class IptablesFirewallDriver(BridgeFirewallDriver[Observed, IptablesRulesetIndex]):
    """Filters devices that are ports of Linux bridges by chains, sets and frame rules."""

    VERSION: ClassVar[int] = 2
    OWNER: ClassVar[str] = OWNER
    UNFILTERED: ClassVar[str] = "nothing is filtered, as iptables sees nothing of bridges"
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            "iptables_tool",
            default="system",
            choices=[
                ("system", "the one that the system chose"),
                ("nft", "iptables-nft"),
                ("legacy", "iptables-legacy"),
            ],
            help="Which iptables: the one the system chose, or one of the two by name.",
        ),
    )

    def __init__(
        self, tool: IptablesBinaries | None = None, *, namespace: Namespace = None
    ) -> None:
        super().__init__(namespace=namespace)
        self._tables = Iptables(self.OWNER, namespace=namespace, tool=tool)
        self._sets = IpSets(self.OWNER, namespace=namespace)
        self._frames = Ebtables(self.OWNER, namespace=namespace)
        self._refused_lines: dict[object, IptablesRule] = {}
        """By operation on tables, the line that iptables refused since `converge` was called."""
        self._refusals: Refusals = {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        name = options["iptables_tool"]
        return cls(IptablesBinaries(Backend.SYSTEM if name == "system" else Backend(f"-{name}")))

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("iptables", CAPABILITIES)

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> Observed:
        if scope is None:
            self._read()
        return Observed(
            index=self._current_index(),
            chains=self._tables.chains,
            sets=self._sets.sets,
            frames=self._frames.chains,
            bridge_ports=self._bridge_ports(scope),
            tables=self._tables.plan,
            disabled_sysctls=self._disabled_sysctls or (),
            fresh=self._fresh,
        )

    def plan(self, update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
        return plan_firewall(update, observed)

    def converge(self, update: Update[FirewallKey, FirewallValue]) -> Outcome[FirewallKey]:
        """Converge as every reconciler does; once more without rules that iptables refuses.

        They are not tried again before their group changes or the update is complete.
        """
        self._refused_lines.clear()
        enforceable = EnforceableUpdate.of(update, self.OWNER, self._refusals)
        while True:
            outcome = super().converge(enforceable.update)
            rest = enforceable.without_refused(outcome.failed, self._refused_lines)
            if rest is enforceable:
                self._refusals = enforceable.refusals(update, self._refusals)
                return enforceable.report(outcome)
            enforceable = rest

    def _check_backend(self) -> None:
        self._read()

    def _read_rules(self) -> None:
        self._tables.observe()
        self._sets.observe()
        self._frames.observe()

    def _make_index(self) -> IptablesRulesetIndex:
        index = IptablesRulesetIndex()
        index.update_all(self._tables.chains)
        return index

    def _present_members(self) -> Iterator[Member]:
        for name, present in self._sets.sets.items():
            remote = read_set_name(name)
            if remote is not None:
                yield from (Member(remote[0], prefix) for prefix in _prefixes(present.elements))
        for with_macs, macs in self._current_index().macs.items():
            yield from (make_mac_member(with_macs, mac) for mac in macs)

    def _change_rules(self, backend: str, operations: tuple[Any, ...]) -> None:
        if backend == FRAMES_BACKEND:
            self._frames.apply(operations)
        elif backend == SETS_BACKEND:
            self._sets.apply(operations)
        else:
            try:
                self._change_table(operations)
            except RulesRefused as error:
                self._refused_lines |= error.rules
                raise

    def _change_table(self, operations: tuple[TableOperation, ...]) -> None:
        first = operations[0]
        where = first.key if isinstance(first, PutChain | DropChain) else first.point
        self._tables.apply(TableChange(where.family, where.table, operations))
        index = self._current_index()
        for operation in operations:
            if isinstance(operation, PutChain):
                index.update(operation.key, operation.lines)
            elif isinstance(operation, DropChain):
                index.update(operation.key, None)

    def _denial_finder(self) -> DenialFinder:
        evaluator = ConnectionEvaluator(
            index=self._current_index(), chains=self._tables.chains, sets=self._sets.sets
        )
        return evaluator.finder


class IptablesHybridFirewallDriver(HybridPlugged, IptablesFirewallDriver):
    """Filters instances that are plugged through a Linux bridge of their own."""

    OWNER = HYBRID_OWNER

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("iptables_hybrid", (*CAPABILITIES, FirewallCapability.HYBRID_PLUG))


def _prefixes(words: Iterable[str]) -> Iterator[IpNetwork]:
    """Yield the prefixes in a set; two halves are joined to the whole range."""
    prefixes = {ip_network(word) for word in words}
    for everything in EVERYTHING.values():
        halves = set(everything.subnets())
        if halves <= prefixes:
            prefixes = cast(Any, (prefixes - halves) | {everything})
    yield from prefixes
