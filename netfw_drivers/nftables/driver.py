"""Firewall drivers for ports of Linux bridges, on nftables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import FirewallCapability, FirewallKey, FirewallValue, Member
from netfw.drivers.host_driver import HostCapability
from netfw.errors import BackendBroken, NetfwError
from netfw.linux.bridge_firewall.bridge_driver import (
    CAPABILITIES,
    BridgeFirewallDriver,
    HybridPlugged,
)
from netfw.linux.bridge_firewall.denied_connections import DenialFinder
from netfw.linux.netns import Namespace
from netfw.linux.nftables.operations import (
    DropTable,
    MakeNftSet,
    MakeTable,
    NftOperation,
    PutNftChain,
)
from netfw.linux.nftables.tables import Nftables
from netfw.linux.nftables.values import NftTable
from netfw.plan import Plan, Update
from netfw_drivers.nftables.plan.names import HYBRID_OWNER, OWNER, Tables
from netfw_drivers.nftables.plan.plan import Observed, plan_firewall
from netfw_drivers.nftables.plan.port_chains import shared_chains, tracking_chains
from netfw_drivers.nftables.plan.rule_interpreter import RuleInterpreter
from netfw_drivers.nftables.plan.ruleset_builder import FILTER_SETS, TRACKING_SETS
from netfw_drivers.nftables.plan.ruleset_index import NftRulesetIndex


class NftablesFirewallDriver(BridgeFirewallDriver[Observed, NftRulesetIndex]):
    """Filters devices that are ports of Linux bridges by two tables."""

    VERSION: ClassVar[int] = 2
    OWNER: ClassVar[str] = OWNER
    UNFILTERED: ClassVar[str] = "no connection on a bridge is tracked"
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = ()

    def __init__(self, *, namespace: Namespace = None) -> None:
        super().__init__(namespace=namespace)
        self._names = Tables(self.OWNER)
        self._tables = Nftables((self._names.bridge, self._names.inet), namespace=namespace)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("nftables", CAPABILITIES)

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> Observed:
        if scope is None:
            self._read()
        return Observed(
            index=self._current_index(),
            bridge_ports=self._bridge_ports(scope),
            disabled_sysctls=self._disabled_sysctls or (),
            fresh=self._fresh,
        )

    def plan(self, update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
        return plan_firewall(update, observed)

    def close(self) -> None:
        self._tables.close()

    def _check_backend(self) -> None:
        checked = Nftables([_CHECKED.bridge, _CHECKED.inet], namespace=self._namespace)
        try:
            checked.check(_what_every_host_needs())
        except NetfwError as error:
            raise BackendBroken(f"this host cannot filter bridges by nftables: {error}") from error
        finally:
            checked.close()

    def _read_rules(self) -> None:
        self._tables.observe()

    def _make_index(self) -> NftRulesetIndex:
        return NftRulesetIndex.of(self._tables.ruleset)

    def _present_members(self) -> Iterator[Member]:
        return self._current_index().members()

    def _change_rules(self, backend: str, operations: tuple[NftOperation, ...]) -> None:
        index = self._current_index()
        self._tables.apply(operations)
        if any(isinstance(operation, DropTable) for operation in operations):
            self._index = None
        else:
            index.record(operations)

    def _denial_finder(self) -> DenialFinder:
        interpreter = RuleInterpreter(ruleset=self._tables.ruleset, tables=self._names)
        return DenialFinder(index=self._current_index(), group_allows=interpreter.allows)


class NftablesHybridFirewallDriver(HybridPlugged, NftablesFirewallDriver):
    """Filters instances that are plugged through a Linux bridge of their own."""

    OWNER = HYBRID_OWNER

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("nftables_hybrid", (*CAPABILITIES, FirewallCapability.HYBRID_PLUG))


_CHECKED = Tables("netfw-check")
"""Tables that the kernel checks, and that never exist."""


def _what_every_host_needs() -> list[NftOperation]:
    tables: list[NftTable] = [_CHECKED.bridge, _CHECKED.inet]
    operations: list[NftOperation] = [MakeTable(table) for table in tables]
    operations += [MakeNftSet(_CHECKED.filter(name), kind) for name, kind in FILTER_SETS.items()]
    operations += [MakeNftSet(_CHECKED.track(name), kind) for name, kind in TRACKING_SETS.items()]
    operations += [PutNftChain(_CHECKED.filter(name), c) for name, c in shared_chains().items()]
    operations += [PutNftChain(_CHECKED.track(name), c) for name, c in tracking_chains().items()]
    return operations
