"""Firewall drivers that filter ports of Linux bridges with iptables, ipset and ebtables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_network
from typing import Any, ClassVar, Self, cast

from attrs import frozen
from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
    Member,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.keys import GroupKey, PortKey
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.errors import (
    BackendBroken,
    Conflict,
    InvalidInput,
    NetfwError,
    NotFound,
    OperationRefused,
)
from netfw.linux.conntrack import Connection, Conntrack, Filter
from netfw.linux.ebtables import Ebtables
from netfw.linux.ip import sysctl
from netfw.linux.ip.bridge_ports import read_bridge_masters
from netfw.linux.ip.operations import SetSysctl
from netfw.linux.ipset import IpSets
from netfw.linux.iptables import Backend, Iptables, IptablesBinaries
from netfw.linux.iptables.operations import AddHook, DropChain, DropHook, PutChain, TableChange
from netfw.linux.iptables.operations import Operation as TableOperation
from netfw.linux.netns import Namespace
from netfw.model.address import IpNetwork
from netfw.plan import Plan, Stage, Update
from netfw_drivers.iptables.hybrid import HybridPlug
from netfw_drivers.iptables.plan.conntrack_eval import ConnectionEvaluator
from netfw_drivers.iptables.plan.names import HYBRID_OWNER, OWNER, check_device, read_set_name
from netfw_drivers.iptables.plan.plan import (
    CONNECTIONS_BACKEND,
    FRAMES_BACKEND,
    SETS_BACKEND,
    SWITCH_BACKEND,
    FlushConnections,
    Observed,
    plan_firewall,
)
from netfw_drivers.iptables.plan.requested import BridgePorts
from netfw_drivers.iptables.plan.ruleset_index import RulesetIndex

LOG = logging.getLogger(__name__)

SWITCHES = ("net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables")
"""What makes the kernel show frames of bridges to iptables."""

_MANY = 16
"""From how many devices on it is cheaper to read all."""

_CAPABILITIES = (
    HostCapability.PLAN,
    FirewallCapability.FILTERING,
    FirewallCapability.SPOOF_GUARD,
    FirewallCapability.STATELESS_GROUPS,
    FirewallCapability.ADDRESS_GROUPS,
)


class IptablesFirewallDriver(FirewallDriver, Reconciler[FirewallKey, FirewallValue, Observed]):
    """Filters devices that are ports of Linux bridges.

    Its chains, sets and frames are its only record: they are read when it starts and when
    everything is observed, and mirrored in between.
    """

    VERSION: ClassVar[int] = 1
    OWNER: ClassVar[str] = OWNER
    """What its chains and sets begin with."""
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
        self._picture: RulesetIndex | None = None
        self._switches: tuple[str, ...] | None = None
        self._fresh = True

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
            for name in self._unseen()
        )

    def present(self) -> frozenset[FirewallKey]:
        self._read()
        picture = self._known()
        keys: set[FirewallKey] = {PortKey(id) for id in picture.ports}
        keys |= {GroupKey(id) for id, put in picture.groups.items() if put}
        return frozenset(keys | set(self._members()))

    def observe(self, scope: Update[FirewallKey, FirewallValue] | None) -> Observed:
        if scope is None:
            self._read()
        return Observed(
            picture=self._known(),
            chains=self._tables.chains,
            sets=self._sets.sets,
            frames=self._frames.chains,
            ground=BridgePorts(self._bridges(scope), self.locate, self.OWNER, self.PRIVATE),
            tables=self._tables.plan,
            switches=self._switches or (),
            fresh=self._fresh,
        )

    def plan(self, update: Update[FirewallKey, FirewallValue], observed: Observed) -> Plan:
        return plan_firewall(update, observed)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self._carry_out(stage)
            checkpoint(stage)
        fresh, self._fresh = self._fresh, False
        if fresh and self._known().ports and (unseen := self._unseen()):
            self._forget()
            raise BackendBroken(
                f"nothing is filtered, as iptables sees nothing of bridges: there is no {unseen[0]}"
                " (modprobe br_netfilter)"
            )

    @staticmethod
    def locate(device: str) -> str:
        """The device on a Linux bridge that stands for a port's device."""
        return device

    def _read(self) -> None:
        self._tables.observe()
        self._sets.observe()
        self._frames.observe()
        self._forget()
        found = sysctl.read_many(SWITCHES, self._namespace)
        self._switches = tuple(name for name in SWITCHES if found.get(name, "1") != "1")

    def _forget(self) -> None:
        """What was made of the mirrors: something is in doubt, or was read anew."""
        self._picture, self._fresh = None, True

    def _unseen(self) -> tuple[str, ...]:
        """The switches that this kernel does not have; the first rule for a bridge brings them."""
        found = sysctl.read_many(SWITCHES, self._namespace)
        return tuple(name for name in SWITCHES if name not in found)

    def _known(self) -> RulesetIndex:
        if self._switches is None:
            self._read()
        if self._picture is None:
            self._picture = RulesetIndex()
            self._picture.learn_all(self._tables.chains)
        return self._picture

    def _bridges(self, scope: Update[FirewallKey, FirewallValue] | None) -> dict[str, str | None]:
        """The devices that matter for *scope*, each with the bridge it is on."""
        wanted: set[str] = set()
        for value in scope.put.values() if scope is not None else ():
            if isinstance(value, FilteredPort):
                with suppress(InvalidInput):
                    wanted.add(check_device(self.locate(check_device(value.device))))
        if scope is not None and not wanted:
            return {}
        few = scope is not None and len(wanted) < _MANY
        return read_bridge_masters(wanted if few else None, self._namespace)

    def _members(self) -> Iterator[Member]:
        for name, held in self._sets.sets.items():
            remote = read_set_name(name)
            if remote is not None:
                yield from (Member(remote[0], prefix) for prefix in _prefixes(held.elements))
        for (group, family), macs in self._known().macs.items():
            everything = ip_network("0.0.0.0/0" if family == 4 else "::/0")
            yield from (Member(group, everything, mac) for mac in macs)

    def _turn_on(self, switch: SetSysctl) -> None:
        sysctl.write(switch.name, switch.value, self._namespace)
        LOG.warning("%s was off: turned on, so that ports of bridges are filtered", switch.name)
        self._switches = tuple(name for name in self._switches or () if name != switch.name)

    def _carry_out(self, stage: Stage) -> None:
        by_payload = {operation.payload: operation for operation in stage.operations}
        try:
            self._do(stage.backend, tuple(by_payload))
        except NetfwError as error:
            self._forget()
            match error:
                case OperationRefused():
                    reasons = {by_payload.get(key, key): why for key, why in error.reasons.items()}
                    raise OperationRefused(reasons) from error
                case Conflict() | NotFound():
                    raise OperationRefused(dict.fromkeys(stage.operations, str(error))) from error
            raise

    def _do(self, backend: str, payloads: tuple[Any, ...]) -> None:
        if backend == FRAMES_BACKEND:
            self._frames.apply(payloads)
        elif backend == SETS_BACKEND:
            self._sets.apply(payloads)
        elif backend == CONNECTIONS_BACKEND:
            for cut in payloads:
                self._cut(cut)
        elif backend == SWITCH_BACKEND:
            for switch in payloads:
                self._turn_on(switch)
        else:
            self._change_table(payloads)

    def _change_table(self, operations: tuple[TableOperation, ...]) -> None:
        first = operations[0]
        where = first.point if isinstance(first, AddHook | DropHook) else first.key
        self._tables.apply(TableChange(where.family, where.table, operations))
        picture = self._known()
        for operation in operations:
            if isinstance(operation, PutChain):
                picture.learn(operation.key, operation.lines)
            elif isinstance(operation, DropChain):
                picture.learn(operation.key, None)

    def _cut(self, cut: FlushConnections) -> None:
        court = ConnectionEvaluator(
            picture=self._known(), chains=self._tables.chains, sets=self._sets.sets
        )
        denied = court.denied(cut.ports)
        with Conntrack(self._namespace) as conntrack:
            ended = conntrack.remove(_Denied(judge=lambda c: c.zone in cut.zones or denied(c)))
        LOG.debug("%d connections ended", ended)


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


@frozen(kw_only=True)
class _Denied(Filter):
    """Connections by what is said of each."""

    judge: Callable[[Connection], bool]

    def takes(self, connection: Connection) -> bool:
        return self.judge(connection)


def _prefixes(words: Iterable[str]) -> Iterator[IpNetwork]:
    """The prefixes that a set holds; two halves are everything."""
    prefixes = {ip_network(word) for word in words}
    for everything in (ip_network("0.0.0.0/0"), ip_network("::/0")):
        halves = set(everything.subnets())
        if halves <= prefixes:
            prefixes = cast(Any, (prefixes - halves) | {everything})
    yield from prefixes
