"""FakeDhcp: a DHCP driver in memory for the DHCP agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from attrs import evolve

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
from netfw.drivers.reconciler import Checkpoint
from netfw.drivers.support.unsupported_dhcp import restrict_network, restrict_port
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import PartlyInvalid
from netfw.model.values.device_names import device_name, dhcp_namespace
from netfw.model.values.ids import NetworkId
from netfw.plan import Plan, Update
from netfw.testing.fakes.gated_calls import GatedReconciler


class FakeDhcp(DhcpDriver, GatedReconciler[NetworkId, DhcpKey, DhcpValue]):
    """A DHCP server in memory: dropping a network takes its ports along, as a real one does."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH, DhcpCapability.DHCPV6)

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

    def groups(self, update: Update[DhcpKey, DhcpValue]) -> set[NetworkId]:
        networks = {key.network for key in update if isinstance(key, NetworkKey)}
        return networks | {
            value.network for value in update.put.values() if isinstance(value, DhcpPort)
        }

    def namespaces(self) -> frozenset[str]:
        return frozenset(map(dhcp_namespace, self.networks()))

    def plan(
        self, update: Update[DhcpKey, DhcpValue], observed: Mapping[DhcpKey, DhcpValue]
    ) -> Plan:
        gone = {key.network for key in update.drop if isinstance(key, NetworkKey)}
        along = frozenset(
            key
            for key, value in observed.items()
            if isinstance(value, DhcpPort) and value.network in gone and key not in update.put
        )
        planned = super().plan(
            Update(
                put=update.put,
                drop=update.drop | (along - update.keep),
                complete=update.complete,
                keep=update.keep,
            ),
            observed,
        )
        partly = {
            key: error for key, value in update.put.items() if (error := _unsupported_error(value))
        }
        unserved = planned.waiting.keys() | planned.refused.keys()
        partly = {key: error for key, error in partly.items() if key not in unserved}
        return evolve(planned, refused={**partly, **planned.refused})

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for operation in plan:
            key, value = cast(tuple[DhcpKey, DhcpValue | None], operation.payload)
            if isinstance(key, NetworkKey) and value is None:
                self.assert_unused(dhcp_namespace(key.network))
        super().apply(plan, checkpoint)

    def waits_for(self, key: DhcpKey, value: DhcpValue, final: Mapping[DhcpKey, DhcpValue]) -> str:
        if isinstance(value, DhcpPort) and NetworkKey(value.network) not in final:
            return "its network"
        return ""


def _unsupported_error(value: DhcpValue) -> PartlyInvalid | None:
    """Return the error of a value of which a part cannot be served."""
    found = restrict_port(value) if isinstance(value, DhcpPort) else restrict_network(value)
    return found[1].error
