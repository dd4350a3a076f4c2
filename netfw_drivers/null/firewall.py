"""NullFirewallDriver: accepts every policy, and filters nothing."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any, ClassVar, Self

from attrs import define, field

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import FirewallCapability, FirewallDriver, FirewallKey, FirewallValue
from netfw.drivers.host_driver import HostCapability
from netfw.plan import Outcome, Update


@define
class NullFirewallState:
    """In-memory policy; drivers of one host share it."""

    policy: dict[FirewallKey, FirewallValue] = field(factory=dict)
    lock: Lock = field(factory=Lock, repr=False)


class NullFirewallDriver(FirewallDriver):
    """Filters nothing, for hosts whose ports need no filters, or are filtered elsewhere.

    It does not declare ``FirewallCapability.FILTERING``: security groups of its ports are not in
    force, and only the switch prevents spoofing.  Its state lives as long as the host object
    that it was made with.
    """

    VERSION: ClassVar[int] = 2

    def __init__(self, firewall: NullFirewallState | None = None) -> None:
        self._firewall = firewall if firewall is not None else NullFirewallState()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(host.share(NullFirewallState, NullFirewallState))

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("noop")

    def converge(self, update: Update[FirewallKey, FirewallValue]) -> Outcome[FirewallKey]:
        with self._firewall.lock:
            policy = self._firewall.policy
            leaving = set(update.drop)
            if update.complete:
                leaving |= policy.keys() - update.put.keys() - update.keep
            for key in leaving:
                policy.pop(key, None)
            policy.update(update.put)
        return Outcome(done=frozenset(update))

    def present(self) -> frozenset[FirewallKey]:
        with self._firewall.lock:
            return frozenset(self._firewall.policy)
