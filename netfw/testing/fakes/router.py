"""FakeRouter: a router driver in memory for the L3 agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from attrs import evolve

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RoleChanged,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterState,
    RouterStatus,
)
from netfw.errors import NotFound, PartlyInvalid
from netfw.model.ids import FloatingIpId, PortId, RouterId
from netfw.model.router import HaRole
from netfw.plan import Plan, Update
from netfw.testing.fakes.backend import FakeBackend
from netfw.testing.fakes.gated_calls import GatedReconciler


class FakeRouter(RouterDriver, GatedReconciler[RouterId, RouterDriverKey, RouterDriverValue]):
    """Routers in memory; a floating IP waits for its router's gateway, as the contract says."""

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (
        HostCapability.PLAN,
        HostCapability.WATCH,
        RouterCapability.HA,
    )

    def __init__(
        self, machine: FakeBackend[RouterDriverKey, RouterDriverValue] | None = None
    ) -> None:
        super().__init__(machine)
        self.unwired: set[PortId] = set()
        """Ports whose devices are not wired."""
        self.roles: dict[RouterId, HaRole] = {}
        """Roles of highly available routers; those without one here are standbys."""
        self.left_out: dict[RouterDriverKey, str] = {}
        """Keys of which a part is left out, and why."""

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        return DriverInfo("fake", self.CAPABILITIES)

    def status(self, router: RouterId) -> RouterStatus:
        state = self.routers().get(router)
        if state is None:
            raise NotFound(f"router {router} is not on this host")
        is_ha = state.full is not None and state.full.ha is not None
        return RouterStatus(
            namespaces={RouterPart.FULL: f"qrouter-{router}"},
            role=self.roles.get(router, HaRole.STANDBY) if is_ha else None,
        )

    def change_role(self, router: RouterId, role: HaRole) -> None:
        """Change the role of a router, and send the event."""
        self.roles[router] = role
        self.machine.notify(RoleChanged("election", router, role))

    def grant(self, request: GrantRequest) -> Grant:
        return Grant(owner=request.owner, cookie=0, cookie_mask=0, prefix=request.owner)

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        return f"qrouter-{router}"

    def unwired_ports(self, router: RouterId) -> frozenset[PortId]:
        state = self.routers().get(router)
        full = None if state is None else state.full
        if full is None:
            return frozenset()
        gateway = () if full.gateway is None else (full.gateway.port,)
        ha = () if full.ha is None else (full.ha.port,)
        return frozenset(port.id for port in (*full.interfaces, *gateway, *ha)) & self.unwired

    def namespaces(self) -> frozenset[str]:
        return frozenset(f"qrouter-{router}" for router in self.routers())

    def routers(self) -> Mapping[RouterId, RouterState]:
        """Return the routers on the machine."""
        return {
            key.router: value
            for key, value in dict(self.machine.present).items()
            if isinstance(key, RouterKey) and isinstance(value, RouterState)
        }

    def floating_ips(self) -> Mapping[FloatingIpId, FloatingIpNat]:
        """Return the floating IPs on the machine."""
        return {
            key.floating_ip: value
            for key, value in dict(self.machine.present).items()
            if isinstance(key, FloatingIpKey) and isinstance(value, FloatingIpNat)
        }

    def groups(self, update: Update[RouterDriverKey, RouterDriverValue]) -> set[RouterId]:
        present = self.floating_ips()
        routers = {key.router for key in update if isinstance(key, RouterKey)}
        routers |= {nat.router for nat in update.put.values() if isinstance(nat, FloatingIpNat)}
        floating_ips = (key.floating_ip for key in update if isinstance(key, FloatingIpKey))
        return routers | {present[id].router for id in floating_ips if id in present}

    def waits_for(
        self,
        key: RouterDriverKey,
        value: RouterDriverValue,
        final: Mapping[RouterDriverKey, RouterDriverValue],
    ) -> str:
        if not isinstance(value, FloatingIpNat):
            return ""
        router = final.get(RouterKey(value.router))
        full = router.full if isinstance(router, RouterState) else None
        if full is None or full.gateway is None:
            return "its router has no gateway here"
        return "the gateway is not wired" if full.gateway.port.id in self.unwired else ""

    def plan(
        self,
        update: Update[RouterDriverKey, RouterDriverValue],
        observed: Mapping[RouterDriverKey, RouterDriverValue],
    ) -> Plan:
        planned = super().plan(update, observed)
        partly = {k: PartlyInvalid({"part": why}) for k, why in self.left_out.items()}
        put = {key: error for key, error in partly.items() if key in update.put}
        return evolve(planned, refused={**put, **planned.refused})

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for operation in plan:
            key, value = cast(tuple[RouterDriverKey, object], operation.payload)
            if isinstance(key, RouterKey) and value is None:
                self.assert_unused(f"qrouter-{key.router}")
        super().apply(plan, checkpoint)
