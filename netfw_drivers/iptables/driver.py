"""Firewall drivers for ports of Linux bridges: iptables, ipset and ebtables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any, ClassVar, Self, cast

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import (
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
    Member,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import (
    BackendBroken,
    Conflict,
    NetfwError,
    NotFound,
    OperationRefused,
)
from netfw.linux.bridge_firewall.connection_plan import FlushConnections
from netfw.linux.bridge_firewall.host import (
    enable_sysctl,
    flush_connections,
    read_bridges,
    read_disabled_sysctls,
    read_missing_sysctls,
)
from netfw.linux.bridge_firewall.hybrid_plug import HybridPlug
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.ebtables import Ebtables
from netfw.linux.ip.operations import SetSysctl
from netfw.linux.ipset import IpSets
from netfw.linux.iptables import Backend, Iptables, IptablesBinaries
from netfw.linux.iptables.operations import DropChain, PutChain, TableChange
from netfw.linux.iptables.operations import Operation as TableOperation
from netfw.linux.iptables.refusal import RulesRefused
from netfw.linux.iptables.rule import Rule
from netfw.linux.netns import Namespace
from netfw.model.values.address import IpNetwork
from netfw.plan import Outcome, Plan, Stage, Update
from netfw_drivers.iptables.plan.conntrack_eval import ConnectionEvaluator
from netfw_drivers.iptables.plan.names import HYBRID_OWNER, OWNER, read_set_name
from netfw_drivers.iptables.plan.plan import (
    CONNECTIONS_BACKEND,
    FRAMES_BACKEND,
    SETS_BACKEND,
    SYSCTL_BACKEND,
    Observed,
    plan_firewall,
)
from netfw_drivers.iptables.plan.refused_rules import EnforceableUpdate, Refusals
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex

_CAPABILITIES = (
    HostCapability.PLAN,
    FirewallCapability.FILTERING,
    FirewallCapability.SPOOF_GUARD,
    FirewallCapability.STATELESS_GROUPS,
    FirewallCapability.ADDRESS_GROUPS,
    FirewallCapability.DCCP_PORTS,
    FirewallCapability.UDPLITE_PORTS,
)


class IptablesFirewallDriver(FirewallDriver, Reconciler[FirewallKey, FirewallValue, Observed]):
    """Filters devices that are ports of Linux bridges.

    Its chains, sets and frame rules are its only record: they are read at its start and by a full
    observation, and mirrored in between.
    """

    VERSION: ClassVar[int] = 2
    OWNER: ClassVar[str] = OWNER
    """Prefix of its chains and sets."""
    PRIVATE: ClassVar[bool] = False
    """Each port has a Linux bridge of its own."""
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            "iptables_tool",
            default="system",
            choices=["system", "nft", "legacy"],
            help="Which iptables: the one the system chose, or one of the two by name.",
        ),
    )

    def __init__(
        self, tool: IptablesBinaries | None = None, *, namespace: Namespace = None
    ) -> None:
        self._namespace = namespace
        self._tables = Iptables(self.OWNER, namespace=namespace, tool=tool)
        self._sets = IpSets(self.OWNER, namespace=namespace)
        self._frames = Ebtables(self.OWNER, namespace=namespace)
        self._index: RulesetIndex | None = None
        self._disabled_sysctls: tuple[str, ...] | None = None
        self._fresh = True
        self._refused_lines: dict[object, Rule] = {}
        """By operation, the line that iptables refused since `converge` was called."""
        self._refusals: Refusals = {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        name = options["iptables_tool"]
        return cls(IptablesBinaries(Backend.SYSTEM if name == "system" else Backend(f"-{name}")))

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("iptables", _CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        try:
            self._read()
        except NetfwError as error:
            return (str(error),)
        return tuple(
            f"there is no {name}: load the kernel's br_netfilter (modprobe br_netfilter)"
            for name in read_missing_sysctls(self._namespace)
        )

    def present(self) -> frozenset[FirewallKey]:
        self._read()
        index = self._current_index()
        keys: set[FirewallKey] = {PortKey(id) for id in index.ports}
        keys |= {GroupKey(id) for id, put in index.groups.items() if put}
        return frozenset(keys | set(self._members()))

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> Observed:
        if scope is None:
            self._read()
        return Observed(
            index=self._current_index(),
            chains=self._tables.chains,
            sets=self._sets.sets,
            frames=self._frames.chains,
            bridge_ports=BridgePorts(
                read_bridges(scope, self.locate, self._namespace),
                self.locate,
                self.OWNER,
                self.PRIVATE,
            ),
            tables=self._tables.plan,
            disabled_sysctls=self._disabled_sysctls or (),
            fresh=self._fresh,
        )

    def plan(self, update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
        return plan_firewall(update, observed)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self._execute(stage)
            checkpoint(stage)
        fresh, self._fresh = self._fresh, False
        missing = read_missing_sysctls(self._namespace) if fresh else ()
        if missing and self._current_index().ports:
            self._invalidate()
            raise BackendBroken(
                f"nothing is filtered, as iptables sees nothing of bridges: there is no "
                f"{missing[0]} (modprobe br_netfilter)"
            )

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

    @staticmethod
    def locate(device: str) -> str:
        """Return the device on a Linux bridge that belongs to a port's device."""
        return device

    def _read(self) -> None:
        self._tables.observe()
        self._sets.observe()
        self._frames.observe()
        self._invalidate()
        self._disabled_sysctls = read_disabled_sysctls(self._namespace)

    def _invalidate(self) -> None:
        """Invalidate the index of the mirrors: they were read again, or are in doubt."""
        self._index, self._fresh = None, True

    def _current_index(self) -> RulesetIndex:
        if self._disabled_sysctls is None:
            self._read()
        if self._index is None:
            self._index = RulesetIndex()
            self._index.update_all(self._tables.chains)
        return self._index

    def _members(self) -> Iterator[Member]:
        for name, present in self._sets.sets.items():
            remote = read_set_name(name)
            if remote is not None:
                yield from (Member(remote[0], prefix) for prefix in _prefixes(present.elements))
        for (group, family), macs in self._current_index().macs.items():
            everything = ip_network("0.0.0.0/0" if family == 4 else "::/0")
            yield from (Member(group, everything, mac) for mac in macs)

    def _enable_sysctl(self, switch: SetSysctl) -> None:
        enable_sysctl(switch, self._namespace)
        self._disabled_sysctls = tuple(
            name for name in self._disabled_sysctls or () if name != switch.name
        )

    def _execute(self, stage: Stage) -> None:
        by_payload = {operation.payload: operation for operation in stage.operations}
        try:
            self._apply_payloads(stage.backend, tuple(by_payload))
        except NetfwError as error:
            self._invalidate()
            if isinstance(error, RulesRefused):
                lines = {by_payload.get(key, key): line for key, line in error.rules.items()}
                self._refused_lines |= lines
            match error:
                case OperationRefused():
                    reasons = {by_payload.get(key, key): why for key, why in error.reasons.items()}
                    raise OperationRefused(reasons) from error
                case Conflict() | NotFound():
                    raise OperationRefused(dict.fromkeys(stage.operations, str(error))) from error
            raise

    def _apply_payloads(self, backend: str, payloads: tuple[Any, ...]) -> None:
        if backend == FRAMES_BACKEND:
            self._frames.apply(payloads)
        elif backend == SETS_BACKEND:
            self._sets.apply(payloads)
        elif backend == CONNECTIONS_BACKEND:
            for flush in payloads:
                self._flush_connections(flush)
        elif backend == SYSCTL_BACKEND:
            for switch in payloads:
                self._enable_sysctl(switch)
        else:
            self._change_table(payloads)

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

    def _flush_connections(self, flush: FlushConnections) -> None:
        evaluator = ConnectionEvaluator(
            index=self._current_index(), chains=self._tables.chains, sets=self._sets.sets
        )
        flush_connections(flush, evaluator.finder, self._namespace)


class IptablesHybridFirewallDriver(IptablesFirewallDriver):
    """Filters instances that are plugged through a Linux bridge of their own.

    The port's device is ``qvo...`` on the integration bridge; ``qvb...``, its other end, and
    ``tap...``, the instance's device, are on the Linux bridge ``qbr...``.
    """

    OWNER = HYBRID_OWNER
    PRIVATE = True

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("iptables_hybrid", (*_CAPABILITIES, FirewallCapability.HYBRID_PLUG))

    @staticmethod
    def locate(device: str) -> str:
        return HybridPlug.with_switch_end(device).tap


def _prefixes(words: Iterable[str]) -> Iterator[IpNetwork]:
    """Yield the prefixes in a set; two halves are joined to the whole range."""
    prefixes = {ip_network(word) for word in words}
    for everything in (ip_network("0.0.0.0/0"), ip_network("::/0")):
        halves = set(everything.subnets())
        if halves <= prefixes:
            prefixes = cast(Any, (prefixes - halves) | {everything})
    yield from prefixes
