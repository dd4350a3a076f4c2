"""What drivers for firewalls of Linux bridges have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

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
from netfw.errors import BackendBroken, Conflict, NetfwError, NotFound, OperationRefused
from netfw.linux.bridge_firewall.bridge_netfilter import (
    enable_sysctl,
    flush_connections,
    read_bridges,
    read_disabled_sysctls,
    read_missing_sysctls,
)
from netfw.linux.bridge_firewall.denied_connections import DenialFinder
from netfw.linux.bridge_firewall.hybrid_plug import HybridPlug
from netfw.linux.bridge_firewall.policy_index import PolicyIndex
from netfw.linux.bridge_firewall.stages_plan import CONNECTIONS_BACKEND, SYSCTL_BACKEND
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.ip.operations import SetSysctl
from netfw.linux.netns import Namespace
from netfw.plan import Plan, Stage, Update

CAPABILITIES = (
    HostCapability.PLAN,
    FirewallCapability.FILTERING,
    FirewallCapability.SPOOF_GUARD,
    FirewallCapability.STATELESS_GROUPS,
    FirewallCapability.ADDRESS_GROUPS,
    FirewallCapability.DCCP_PORTS,
    FirewallCapability.UDPLITE_PORTS,
)

O = TypeVar("O")  # noqa: E741 - the observed state, as the contracts name it
I = TypeVar("I", bound=PolicyIndex[Any])  # noqa: E741


class BridgeFirewallDriver(
    FirewallDriver, Reconciler[FirewallKey, FirewallValue, O], Generic[O, I]
):
    """Filters devices that are ports of Linux bridges.

    Its rules are its only record: they are read at its start and by a full observation, and
    mirrored in between, with the index *I* over the mirror.
    """

    OWNER: ClassVar[str]
    """Prefix of the driver's chains and sets, or its table."""
    PRIVATE: ClassVar[bool] = False
    """Each port has a Linux bridge of its own."""
    UNFILTERED: ClassVar[str]
    """What is wrong where the kernel lacks br_netfilter."""

    def __init__(self, *, namespace: Namespace = None) -> None:
        self._namespace = namespace
        self._index: I | None = None
        self._disabled_sysctls: tuple[str, ...] | None = None
        self._fresh = True
        """Nothing was changed since the read."""

    @abstractmethod
    def _check_backend(self) -> None:
        """Raise a `NetfwError` if this host cannot filter bridges; change nothing."""

    @abstractmethod
    def _read_rules(self) -> None:
        """Read the rules of the host into the mirror."""

    @abstractmethod
    def _make_index(self) -> I:
        """Index the mirror."""

    @abstractmethod
    def _present_members(self) -> Iterator[Member]:
        """Yield the members that the mirror has."""

    @abstractmethod
    def _change_rules(self, backend: str, operations: tuple[Any, ...]) -> None:
        """Execute the operations of a stage, at once, and index what they changed."""

    @abstractmethod
    def _denial_finder(self) -> DenialFinder:
        """Return what finds connections that the installed rules deny."""

    def problems(self) -> tuple[str, ...]:
        try:
            self._check_backend()
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
        return frozenset(keys.union(self._present_members()))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self._execute(stage)
            checkpoint(stage)
        fresh, self._fresh = self._fresh, False
        missing = read_missing_sysctls(self._namespace) if fresh else ()
        if missing and self._current_index().ports:
            self._invalidate()
            raise BackendBroken(
                f"{self.UNFILTERED}: there is no {missing[0]} (modprobe br_netfilter)"
            )

    @staticmethod
    def locate(device: str) -> str:
        """Return the device on a Linux bridge that belongs to a port's device."""
        return device

    def _bridge_ports(self, scope: Update[FirewallKey, FirewallValue] | None) -> BridgePorts:
        bridges = read_bridges(scope, self.locate, self._namespace)
        return BridgePorts(bridges, self.locate, self.OWNER, self.PRIVATE)

    def _read(self) -> None:
        self._read_rules()
        self._invalidate()
        self._disabled_sysctls = read_disabled_sysctls(self._namespace)

    def _invalidate(self) -> None:
        """Invalidate the index of the mirror: it was read again, or is in doubt."""
        self._index, self._fresh = None, True

    def _current_index(self) -> I:
        if self._disabled_sysctls is None:
            self._read()
        if self._index is None:
            self._index = self._make_index()
        return self._index

    def _execute(self, stage: Stage) -> None:
        by_payload: dict[Any, object] = {each.payload: each for each in stage.operations}
        try:
            self._execute_payloads(stage.backend, tuple(by_payload))
        except NetfwError as error:
            self._invalidate()
            match error:
                case OperationRefused():
                    reasons = {by_payload.get(key, key): why for key, why in error.reasons.items()}
                    raise OperationRefused(reasons) from error
                case Conflict() | NotFound():
                    raise OperationRefused(dict.fromkeys(stage.operations, str(error))) from error
            raise

    def _execute_payloads(self, backend: str, payloads: tuple[Any, ...]) -> None:
        if backend == CONNECTIONS_BACKEND:
            for flush in payloads:
                flush_connections(flush, self._denial_finder(), self._namespace)
        elif backend == SYSCTL_BACKEND:
            for switch in payloads:
                self._enable_sysctl(switch)
        else:
            self._change_rules(backend, payloads)

    def _enable_sysctl(self, switch: SetSysctl) -> None:
        enable_sysctl(switch, self._namespace)
        self._disabled_sysctls = tuple(
            name for name in self._disabled_sysctls or () if name != switch.name
        )


class HybridPlugged:
    """Filters instances that are plugged through a Linux bridge of their own.

    The port's device is ``qvo...`` on the integration bridge; ``qvb...``, its other end, and
    ``tap...``, the instance's device, are on the Linux bridge ``qbr...``.
    """

    PRIVATE: ClassVar[bool] = True

    @staticmethod
    def locate(device: str) -> str:
        """Return the device on a Linux bridge that belongs to a port's device."""
        return HybridPlug.with_switch_end(device).tap
