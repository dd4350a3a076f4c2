"""FakeRouter: a router driver in memory for the L3 agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, cast

from attrs import evolve

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.router_values import (
    AgentGateway,
    FloatingIpNat,
    RoleChanged,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterPort,
    RouterState,
    RouterStatus,
)
from netfw.errors import NotFound, PartlyInvalid
from netfw.model.router import HaRole
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId, RouterId
from netfw.plan import Plan, Update
from netfw.testing.fakes.backend import FakeBackend
from netfw.testing.fakes.gated_calls import GatedReconciler

FakeGroup = RouterId | AgentGatewayKey


class FakeRouter(RouterDriver, GatedReconciler[FakeGroup, RouterDriverKey, RouterDriverValue]):
    """Routers in memory; a floating IP waits for its router's gateway, as the contract says.

    One at the local part of a router waits for the agent gateway, which goes after it.
    """

    VERSION: ClassVar[int] = 2
    CAPABILITIES = (
        HostCapability.PLAN,
        HostCapability.WATCH,
        RouterCapability.HA,
        RouterCapability.DISTRIBUTED,
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
        with_ha = state.full or state.central
        is_ha = with_ha is not None and with_ha.ha is not None
        return RouterStatus(
            namespaces={part: _namespace(router, part) for part in state.parts},
            role=self.roles.get(router, HaRole.STANDBY) if is_ha else None,
        )

    def change_role(self, router: RouterId, role: HaRole) -> None:
        """Change the role of a router, and send the event."""
        self.roles[router] = role
        self.machine.notify(RoleChanged("election", router, role))

    def grant(self, request: GrantRequest) -> Grant:
        return Grant(owner=request.owner, cookie=0, cookie_mask=0, prefix=request.owner)

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        return _namespace(router, part)

    def unwired_ports(self, router: RouterId) -> frozenset[PortId]:
        state = self.routers().get(router)
        ports = () if state is None else _ports(state)
        return frozenset(port.id for port in ports) & self.unwired

    def namespaces(self) -> frozenset[str]:
        return frozenset(
            _namespace(router, part)
            for router, state in self.routers().items()
            for part in state.parts
        )

    def agent_gateways(self) -> Mapping[NetworkId, AgentGateway]:
        """Return the agent gateways on the machine."""
        return {
            key.network: value
            for key, value in dict(self.machine.present).items()
            if isinstance(key, AgentGatewayKey) and isinstance(value, AgentGateway)
        }

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

    def groups(self, update: Update[RouterDriverKey, RouterDriverValue]) -> set[FakeGroup]:
        present = self.floating_ips()
        routers: set[FakeGroup] = {key.router for key in update if isinstance(key, RouterKey)}
        routers |= {key for key in update if isinstance(key, AgentGatewayKey)}
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
        if not isinstance(router, RouterState) or value.part not in router.parts:
            return f"its router has no {value.part} part here"
        if value.part is RouterPart.LOCAL:
            gateway = final.get(AgentGatewayKey(value.external_network))
            port = gateway.port if isinstance(gateway, AgentGateway) else None
        else:
            port = _gateway_port(router)
        if port is None:
            return "its router has no gateway here"
        return "the gateway is not wired" if port.id in self.unwired else ""

    def plan(
        self,
        update: Update[RouterDriverKey, RouterDriverValue],
        observed: Mapping[RouterDriverKey, RouterDriverValue],
    ) -> Plan:
        planned = super().plan(update, observed)
        self._assert_gateways_go_last(update, observed)
        partly = {k: PartlyInvalid({"part": why}) for k, why in self.left_out.items()}
        put = {key: error for key, error in partly.items() if key in update.put}
        return evolve(planned, refused={**put, **planned.refused})

    def _assert_gateways_go_last(
        self,
        update: Update[RouterDriverKey, RouterDriverValue],
        observed: Mapping[RouterDriverKey, RouterDriverValue],
    ) -> None:
        """Refuse to remove an agent gateway whose floating IPs stay."""
        if update.complete:
            return  # the driver has its own order
        final = {**observed, **update.put}
        gone = {key.network for key in update.drop if isinstance(key, AgentGatewayKey)}
        for key, nat in final.items():
            if isinstance(nat, FloatingIpNat) and nat.part is RouterPart.LOCAL:
                is_early = nat.external_network in gone and key not in update.drop
                assert not is_early, "an agent gateway went before its floating IPs"

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for operation in plan:
            key, value = cast(tuple[RouterDriverKey, object], operation.payload)
            if isinstance(key, RouterKey) and value is None:
                for part in RouterPart:
                    self.assert_unused(_namespace(key.router, part))
        super().apply(plan, checkpoint)


def _namespace(router: RouterId, part: RouterPart) -> str:
    return f"{'snat' if part is RouterPart.CENTRAL else 'qrouter'}-{router}"


def _gateway_port(state: RouterState) -> RouterPort | None:
    if state.central is not None:
        return state.central.gateway.port
    gateway = None if state.full is None else state.full.gateway
    return None if gateway is None else gateway.port


def _ports(state: RouterState) -> Iterator[RouterPort]:
    """Yield the ports of all parts of a router."""
    inside = state.full or state.local
    yield from () if inside is None else inside.interfaces
    yield from () if state.central is None else state.central.ports
    gateway, with_ha = _gateway_port(state), state.full or state.central
    yield from () if gateway is None else (gateway,)
    if with_ha is not None and with_ha.ha is not None:
        yield with_ha.ha.port
