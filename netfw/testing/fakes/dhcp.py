"""FakeDhcp and FakeMetadata: drivers in memory for the DHCP agent."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.dhcp import (
    DhcpCapability,
    DhcpDriver,
    DhcpKey,
    DhcpLocation,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.keys import NetworkKey
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.reconciler import Checkpoint
from netfw.errors import NotFound
from netfw.model.device_names import device_name, dhcp_namespace
from netfw.model.ids import NetworkId
from netfw.plan import Outcome, Plan, Update
from netfw.testing.fakes.backend import FakeBackend, FakeReconciler


class FakeDhcp(DhcpDriver, FakeReconciler[DhcpKey, DhcpValue]):
    """A DHCP server in memory: dropping a network takes its ports along, as a real one does.

    A test that clears ``gates[network]`` blocks calls for that network until it sets it again.
    """

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH, DhcpCapability.DHCPV6)

    def __init__(self, machine: FakeBackend[DhcpKey, DhcpValue] | None = None) -> None:
        super().__init__(machine)
        self.gates: dict[NetworkId, threading.Event] = {}
        self.at_gate: set[NetworkId] = set()
        """The networks whose calls are blocked."""
        self.calls: list[Update[DhcpKey, DhcpValue]] = []
        self.proxies: FakeMetadata | None = None
        self._lock = threading.Lock()
        self._busy: set[NetworkId] = set()
        self._alone = False

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation | None:
        return DhcpLocation(netns=dhcp_namespace(network), device=device_name("tap", server.id))

    def networks(self) -> Mapping[NetworkId, DhcpNetwork]:
        """Return the served networks."""
        return {
            key.network: value
            for key, value in dict(self.machine.present).items()
            if isinstance(key, NetworkKey) and isinstance(value, DhcpNetwork)
        }

    def ports(self, network: NetworkId) -> list[DhcpPort]:
        """Return the served ports of a network."""
        values = dict(self.machine.present).values()
        return [
            value for value in values if isinstance(value, DhcpPort) and value.network == network
        ]

    def converge(self, update: Update[DhcpKey, DhcpValue]) -> Outcome[DhcpKey]:
        networks = self._enter(update)
        try:
            for network in networks:
                if network in self.gates:
                    self.at_gate.add(network)
                    assert self.gates[network].wait(30), "a test forgot to open a gate"
                    self.at_gate.discard(network)
            with self._lock:
                return super().converge(update)
        finally:
            with self._lock:
                self._busy -= networks
                self._alone = False

    def plan(
        self, update: Update[DhcpKey, DhcpValue], observed: Mapping[DhcpKey, DhcpValue]
    ) -> Plan:
        gone = {key.network for key in update.drop if isinstance(key, NetworkKey)}
        along = frozenset(
            key
            for key, value in observed.items()
            if isinstance(value, DhcpPort) and value.network in gone and key not in update.put
        )
        return super().plan(
            Update(
                put=update.put,
                drop=update.drop | (along - update.keep),
                complete=update.complete,
                keep=update.keep,
            ),
            observed,
        )

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        held = {} if self.proxies is None else dict(self.proxies.machine.present)
        used = {proxy.netns for proxy in held.values()}
        for operation in plan:
            key, value = cast(tuple[DhcpKey, DhcpValue | None], operation.payload)
            if isinstance(key, NetworkKey) and value is None:
                assert dhcp_namespace(key.network) not in used, "it went before its proxy"
        super().apply(plan, checkpoint)

    def waits_for(self, key: DhcpKey, value: DhcpValue, final: Mapping[DhcpKey, DhcpValue]) -> str:
        if isinstance(value, DhcpPort) and NetworkKey(value.network) not in final:
            return "its network"
        return ""

    def _enter(self, update: Update[DhcpKey, DhcpValue]) -> set[NetworkId]:
        """Refuse what the contract forbids: two calls for one network, or one beside a sweep."""
        networks = {key.network for key in update if isinstance(key, NetworkKey)}
        networks |= {value.network for value in update.put.values() if isinstance(value, DhcpPort)}
        with self._lock:
            self.calls.append(update)
            assert not self._alone, "a call beside one that comes alone"
            assert not (update.complete and self._busy), "a complete update beside another call"
            assert not self._busy & networks, "two calls for one network"
            self._busy |= networks
            self._alone = update.complete
        return networks


class FakeMetadata(MetadataDriver, FakeReconciler[MetadataKey, MetadataProxy]):
    """Metadata proxies in memory; with *dhcp*, each needs the namespace of its network."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH)

    def __init__(self, dhcp: FakeDhcp | None = None) -> None:
        super().__init__()
        self._dhcp = dhcp
        if dhcp is not None:
            dhcp.proxies = self

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def plan(
        self,
        update: Update[MetadataKey, MetadataProxy],
        observed: Mapping[MetadataKey, MetadataProxy],
    ) -> Plan:
        if self._dhcp is not None:
            there = {dhcp_namespace(network) for network in self._dhcp.networks()}
            for key, proxy in update.put.items():
                if proxy.netns not in there:
                    raise NotFound(f"{key}: there is no namespace {proxy.netns}")
        return super().plan(update, observed)
