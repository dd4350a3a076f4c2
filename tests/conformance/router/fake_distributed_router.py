"""A fake router driver that keeps every promise, also those of distributed routers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from attrs import evolve, frozen

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.router import RouterCapability
from netfw.drivers.values.keys import AgentGatewayKey
from netfw.drivers.values.router_values import (
    AgentGateway,
    RouterPart,
    RouterState,
    RouterStatus,
)
from netfw.errors import NotFound
from netfw.model.values.ids import NetworkId, RouterId
from netfw.plan import Operation, Plan, Stage, Update
from tests.conformance.router.fake_distributed_backend import FakeDistributedBackend
from tests.conformance.router.fake_parts import (
    CentralPart,
    LocalState,
    part_of,
    part_update,
    public_key,
    public_router,
)
from tests.conformance.router.fake_router import Change, FakeRouterDriver, Observed

NO_GATEWAY = "its router has no gateway here"


@frozen
class ObservedParts(Observed):
    agent_gateways: Mapping[NetworkId, AgentGateway]


class FakeDistributedRouterDriver(FakeRouterDriver):
    """The fake driver, for which each part of a distributed router is a full one."""

    VERSION = 2
    backend: FakeDistributedBackend

    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        known = super().describe()
        return DriverInfo(known.name, {*known.capabilities, RouterCapability.DISTRIBUTED})

    def supports(self, value) -> bool:
        distributed = RouterCapability.DISTRIBUTED in self.describe().capabilities
        return super().supports(value) or distributed

    # What the host has

    def parts(self, router: RouterId) -> list:
        return [each for each in (router, CentralPart(router)) if each in self.backend.routers]

    def status(self, router: RouterId) -> RouterStatus:
        self.backend.check_online()
        parts = self.parts(router)
        if not parts:
            raise NotFound(f"router {router} is not on this host")
        devices = {
            port.id: f"qr-{port.id}"[:14] for each in parts for port in self.backend.all_ports(each)
        }
        kinds = {self.kind(each) for each in parts}
        roles = [self.backend.roles.get(each) for each in parts]
        return RouterStatus(
            namespaces={part: self.namespace_of(router, part) for part in kinds},
            devices=devices,
            role=next((role for role in roles if role is not None), None),
        )

    def kind(self, router) -> RouterPart:
        plain = router in self.backend.routers and self.backend.local_part(router) is None
        return RouterPart.FULL if plain and router == public_router(router) else part_of(router)

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        return f"{'snat' if part is RouterPart.CENTRAL else 'qrouter'}-{router}"

    def unwired_ports(self, router: RouterId) -> frozenset:
        ports = (port for each in self.parts(router) for port in self.backend.all_ports(each))
        return frozenset(port.id for port in ports) - self.backend.wired

    def present(self) -> frozenset:
        gateways = map(AgentGatewayKey, self.backend.agent_gateways)
        return frozenset({*map(public_key, super().present()), *gateways})

    def observe(self, scope) -> ObservedParts:
        have = super().observe(scope)
        gateways = dict(self.backend.agent_gateways)
        return ObservedParts(have.routers, have.nat, have.wired, have.foreign, gateways)

    # Plans

    def plan(self, update: Update, observed: ObservedParts) -> Plan:
        if any(not self.supports(value) for value in update.put.values()):
            inside = update
        else:
            inside = part_update(update, observed.routers)
        arriving = self.arriving(inside) if self.supports_gateways() else {}
        final = {**observed.agent_gateways, **arriving}
        planned = super().plan(inside, evolve(observed, agent_gateways=final))
        first = [
            self.operation("put", AgentGatewayKey(network), value)
            for network, value in arriving.items()
            if observed.agent_gateways.get(network) != value
        ]
        last = [self.operation("remove", key) for key in self.gone_gateways(update, observed)]
        stages = (*planned.stages, *(Stage((each,)) for each in last))
        return Plan(
            stages=[*(Stage((each,)) for each in first), *stages],
            refused={public_key(key): error for key, error in planned.refused.items()},
            waiting=planned.waiting,
        )

    def supports_gateways(self) -> bool:
        return RouterCapability.DISTRIBUTED in self.describe().capabilities

    def arriving(self, update: Update) -> dict[NetworkId, AgentGateway]:
        return {
            key.network: value
            for key, value in update.put.items()
            if isinstance(key, AgentGatewayKey) and isinstance(value, AgentGateway)
        }

    def gone_gateways(self, update: Update, observed: ObservedParts) -> list[AgentGatewayKey]:
        have = {AgentGatewayKey(each) for each in observed.agent_gateways}
        gone = update.drop & have
        if update.complete:
            gone |= have - update.put.keys() - update.keep
        return sorted(gone, key=str)

    def waiting(self, nat, routers, observed: ObservedParts) -> dict:
        central = {k: v for k, v in nat.items() if v.part is not RouterPart.LOCAL}
        waits = super().waiting(central, routers, observed)
        present = {**observed.routers, **{key.router: value for key, value in routers.items()}}
        for key, value in nat.items():
            if value.part is RouterPart.LOCAL:
                gateway = observed.agent_gateways.get(value.external_network)
                if gateway is None or not isinstance(present.get(value.router), LocalState):
                    waits[key] = NO_GATEWAY
                elif gateway.port.id not in observed.wired:
                    waits[key] = "the gateway is not wired"
        return waits

    def lacks_gateway(self, state: RouterState) -> bool:
        return not isinstance(state, LocalState) and super().lacks_gateway(state)

    def operation(self, verb, key, value=None) -> Operation:
        made = super().operation(verb, key, value)
        return evolve(made, owners=frozenset({public_key(key)}))

    # Steps

    def execute(self, operation: Operation) -> None:
        verb, key, value = cast(Change, operation.payload)
        if not isinstance(key, AgentGatewayKey):
            super().execute(operation)
        elif verb == "put":
            self.put_agent_gateway(key.network, value)
        else:
            self.remove_agent_gateway(key.network)

    def put_agent_gateway(self, network: NetworkId, value: AgentGateway) -> None:
        self.backend.agent_gateways[network] = value
        for address in value.port.addresses:
            self.backend.announce(value.port, address.ip)

    def remove_agent_gateway(self, network: NetworkId) -> None:
        self.backend.agent_gateways.pop(network, None)

    def announce(self, router, address) -> None:
        port = self.backend.outside_port(router)
        if port is not None and self.backend.is_active(router):
            self.backend.announce(port, address)
