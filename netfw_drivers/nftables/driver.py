"""Firewall drivers for ports of Linux bridges, on nftables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import (
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import BackendBroken, NetfwError, OperationRefused
from netfw.linux.bridge_firewall.connection_plan import DenialFinder, FlushConnections
from netfw.linux.bridge_firewall.host import (
    enable_sysctl,
    flush_connections,
    read_bridges,
    read_disabled_sysctls,
    read_missing_sysctls,
)
from netfw.linux.bridge_firewall.hybrid_plug import HybridPlug
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.netns import Namespace
from netfw.linux.nftables.operations import DropTable, MakeSet, MakeTable, NftOperation, PutChain
from netfw.linux.nftables.tables import Nftables
from netfw.linux.nftables.values import Table
from netfw.plan import Plan, Stage, Update
from netfw_drivers.nftables.plan.connection_rules import RuleInterpreter
from netfw_drivers.nftables.plan.names import HYBRID_OWNER, OWNER, Tables
from netfw_drivers.nftables.plan.plan import (
    CONNECTIONS_BACKEND,
    SYSCTL_BACKEND,
    Observed,
    plan_firewall,
)
from netfw_drivers.nftables.plan.port_chains import shared_chains, tracking_chains
from netfw_drivers.nftables.plan.ruleset_builder import FILTER_SETS, TRACKING_SETS
from netfw_drivers.nftables.plan.ruleset_index import RulesetIndex

_CAPABILITIES = (
    HostCapability.PLAN,
    FirewallCapability.FILTERING,
    FirewallCapability.SPOOF_GUARD,
    FirewallCapability.STATELESS_GROUPS,
    FirewallCapability.ADDRESS_GROUPS,
    FirewallCapability.DCCP_PORTS,
    FirewallCapability.UDPLITE_PORTS,
)


class NftablesFirewallDriver(FirewallDriver, Reconciler[FirewallKey, FirewallValue, Observed]):
    """Filters devices that are ports of Linux bridges.

    Its two tables are its only record: they are read at its start and by a full observation, and
    mirrored in between.
    """

    VERSION: ClassVar[int] = 2
    OWNER: ClassVar[str] = OWNER
    """Name of its tables."""
    PRIVATE: ClassVar[bool] = False
    """Each port has a Linux bridge of its own."""
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = ()

    def __init__(self, *, namespace: Namespace = None) -> None:
        self._namespace = namespace
        self._names = Tables(self.OWNER)
        self._tables = Nftables((self._names.bridge, self._names.inet), namespace=namespace)
        self._index: RulesetIndex | None = None
        self._disabled_sysctls: tuple[str, ...] = ()
        self._fresh = True

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("nftables", _CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        checked = Nftables([_CHECKED.bridge, _CHECKED.inet], namespace=self._namespace)
        try:
            checked.check(_what_every_host_needs())
        except NetfwError as error:
            return (f"this host cannot filter bridges by nftables: {error}",)
        finally:
            checked.close()
        return tuple(
            f"there is no {name}: load the kernel's br_netfilter (modprobe br_netfilter)"
            for name in read_missing_sysctls(self._namespace)
        )

    def present(self) -> frozenset[FirewallKey]:
        self._read()
        index = self._current_index()
        keys: set[FirewallKey] = {PortKey(id) for id in index.ports}
        keys |= {GroupKey(id) for id, put in index.groups.items() if put}
        return frozenset(keys | set(index.members()))

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> Observed:
        if scope is None:
            self._read()
        return Observed(
            index=self._current_index(),
            bridge_ports=BridgePorts(
                read_bridges(scope, self.locate, self._namespace),
                self.locate,
                self.OWNER,
                self.PRIVATE,
            ),
            disabled_sysctls=self._disabled_sysctls,
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
                f"no connection on a bridge is tracked: there is no {missing[0]} "
                "(modprobe br_netfilter)"
            )

    def close(self) -> None:
        self._tables.close()

    @staticmethod
    def locate(device: str) -> str:
        """Return the device on a Linux bridge that belongs to a port's device."""
        return device

    def _read(self) -> None:
        self._tables.observe()
        self._invalidate()
        self._disabled_sysctls = read_disabled_sysctls(self._namespace)

    def _invalidate(self) -> None:
        """Invalidate the index of the mirror: it was read again, or is in doubt."""
        self._index, self._fresh = None, True

    def _current_index(self) -> RulesetIndex:
        if self._index is None:
            if self._fresh:
                self._disabled_sysctls = read_disabled_sysctls(self._namespace)
            self._index = RulesetIndex.of(self._tables.ruleset)
        return self._index

    def _execute(self, stage: Stage) -> None:
        by_payload: dict[Any, object] = {each.payload: each for each in stage.operations}
        if stage.backend == CONNECTIONS_BACKEND:
            for flush in by_payload:
                self._flush_connections(flush)
        elif stage.backend == SYSCTL_BACKEND:
            for switch in by_payload:
                enable_sysctl(switch, self._namespace)
            self._disabled_sysctls = read_disabled_sysctls(self._namespace)
        else:
            try:
                self._change_rules(tuple(by_payload))
            except OperationRefused as error:
                self._invalidate()
                reasons = {by_payload.get(key, key): why for key, why in error.reasons.items()}
                raise OperationRefused(reasons) from error

    def _change_rules(self, operations: tuple[NftOperation, ...]) -> None:
        index = self._current_index()
        self._tables.apply(operations)
        if any(isinstance(operation, DropTable) for operation in operations):
            self._index = None
        else:
            index.record(operations)

    def _flush_connections(self, flush: FlushConnections) -> None:
        interpreter = RuleInterpreter(ruleset=self._tables.ruleset, tables=self._names)
        finder = DenialFinder(index=self._current_index(), group_allows=interpreter.allows)
        flush_connections(flush, finder, self._namespace)


class NftablesHybridFirewallDriver(NftablesFirewallDriver):
    """Filters instances that are plugged through a Linux bridge of their own.

    The port's device is ``qvo...`` on the integration bridge; ``qvb...``, its other end, and
    ``tap...``, the instance's device, are on the Linux bridge ``qbr...``.
    """

    OWNER = HYBRID_OWNER
    PRIVATE = True

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("nftables_hybrid", (*_CAPABILITIES, FirewallCapability.HYBRID_PLUG))

    @staticmethod
    def locate(device: str) -> str:
        return HybridPlug.with_switch_end(device).tap


_CHECKED = Tables("netfw-check")
"""Tables that the kernel checks, and that never exist."""


def _what_every_host_needs() -> list[NftOperation]:
    tables: list[Table] = [_CHECKED.bridge, _CHECKED.inet]
    operations: list[NftOperation] = [MakeTable(table) for table in tables]
    operations += [MakeSet(_CHECKED.filter(name), kind) for name, kind in FILTER_SETS.items()]
    operations += [MakeSet(_CHECKED.track(name), kind) for name, kind in TRACKING_SETS.items()]
    operations += [PutChain(_CHECKED.filter(name), c) for name, c in shared_chains().items()]
    operations += [PutChain(_CHECKED.track(name), c) for name, c in tracking_chains().items()]
    return operations
