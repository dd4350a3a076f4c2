"""FakeMetadata: metadata proxies in memory, for the DHCP and the L3 agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.errors import NotFound
from netfw.plan import Plan, Update
from netfw.testing.fakes.backend import FakeReconciler
from netfw.testing.fakes.gated_calls import GatedReconciler


class FakeMetadata(MetadataDriver, FakeReconciler[MetadataKey, MetadataProxy]):
    """Metadata proxies in memory; with *owner*, each needs a namespace of that driver."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH)

    def __init__(self, owner: GatedReconciler[Any, Any, Any] | None = None) -> None:
        super().__init__()
        self._owner = owner
        if owner is not None:
            owner.proxies = self

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def used_namespaces(self) -> frozenset[str]:
        """Return the namespaces that proxies run in."""
        return frozenset(proxy.netns for proxy in dict(self.machine.present).values())

    def plan(
        self,
        update: Update[MetadataKey, MetadataProxy],
        observed: Mapping[MetadataKey, MetadataProxy],
    ) -> Plan:
        if self._owner is not None:
            for key, proxy in update.put.items():
                if proxy.netns not in self._owner.namespaces():
                    raise NotFound(f"{key}: there is no namespace {proxy.netns}")
        return super().plan(update, observed)
