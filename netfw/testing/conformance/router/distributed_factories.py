"""Distributed routers for the suite of router drivers: their parts and agent gateways."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import uuid4

from attrs import evolve, field, frozen

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.keys import AgentGatewayKey, RouterKey
from netfw.drivers.values.router_values import (
    AgentGateway,
    CentralRouter,
    FloatingIpNat,
    Gateway,
    LocalRouter,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterPort,
    RouterState,
)
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import RouterId
from netfw.plan import Update
from netfw.testing.conformance.router.factories import (
    Floating,
    RoutedNetwork,
    make_external,
    make_net,
)
from netfw.testing.lab.wait import wait_until

CENTRAL_NUMBER = 5
"""Number of the central part's addresses on the internal networks."""


@frozen(kw_only=True)
class AgentGatewaySite:
    """The agent gateway of a host on an external network."""

    net: RoutedNetwork
    value: AgentGateway

    @property
    def key(self) -> AgentGatewayKey:
        return AgentGatewayKey(self.net.id)

    @property
    def ports(self) -> tuple[RouterPort, ...]:
        return (self.value.port,)


@frozen(kw_only=True)
class DistributedSite:
    """A distributed router between networks, with a gateway to an external one."""

    router: RouterId = field(factory=lambda: RouterId(uuid4()))
    nets: tuple[RoutedNetwork, ...]
    external: RoutedNetwork
    state: RouterState

    @property
    def key(self) -> RouterKey:
        return RouterKey(self.router)

    @property
    def value(self) -> RouterState:
        return self.state

    @property
    def local(self) -> LocalRouter:
        assert self.state.local is not None
        return self.state.local

    @property
    def central(self) -> CentralRouter:
        assert self.state.central is not None
        return self.state.central

    @property
    def ports(self) -> tuple[RouterPort, ...]:
        """The ports of the parts that this host has."""
        local, central = self.state.local, self.state.central
        return (
            *(() if local is None else local.interfaces),
            *(() if central is None else (*central.ports, central.gateway.port)),
        )

    @property
    def outside_address(self) -> IpAddress:
        """The IPv4 address of the gateway."""
        return self.central.gateway.port.addresses[0].ip

    def floating(
        self, number: int, fixed: IpAddress, part: RouterPart = RouterPart.LOCAL
    ) -> Floating:
        """Return a new floating IP: the external address *number* for the address *fixed*."""
        return Floating(
            value=FloatingIpNat(
                router=self.router,
                part=part,
                external_network=self.external.id,
                floating_address=self.external.address(number),
                fixed_address=fixed,
            )
        )

    def without(self, part: RouterPart) -> DistributedSite:
        """Return the site as a host has it that lacks a part."""
        return self.with_state(**{part.value: None})

    def with_state(self, **changes: Any) -> DistributedSite:
        """Return the site with another state of the router."""
        return evolve(self, state=evolve(self.state, **changes))


def make_distributed(
    *nets: RoutedNetwork, external: RoutedNetwork | None = None, number: int = 10, **state: Any
) -> DistributedSite:
    """Return a router with both parts, whose gateway has the external address *number*."""
    inside = nets or (make_net(1), make_net(2))
    outside = external or make_external()
    interfaces = tuple(net.port() for net in inside)
    gateway = Gateway(
        port=outside.port(number), next_hops=(outside.address(1), outside.address(1, 6))
    )
    snat_addresses = {
        subnet.id: net.address(CENTRAL_NUMBER, subnet.cidr.version)
        for net, port in zip(inside, interfaces, strict=True)
        for subnet in port.subnets
    }
    local = LocalRouter(
        interfaces=interfaces,
        snat_addresses=snat_addresses,
        external_network=outside.id,
        gateway_port=gateway.port.id,
    )
    central = CentralRouter(
        ports=tuple(net.port(CENTRAL_NUMBER) for net in inside), gateway=gateway
    )
    return DistributedSite(
        nets=inside, external=outside, state=RouterState(local=local, central=central, **state)
    )


def make_agent_gateway(external: RoutedNetwork, number: int = 90) -> AgentGatewaySite:
    """Return the agent gateway with the external address *number*."""
    value = AgentGateway(port=external.port(number), next_hops=(external.address(1),))
    return AgentGatewaySite(net=external, value=value)


def entries(
    *sites: DistributedSite,
    gateways: Collection[AgentGatewaySite] = (),
    floating: Collection[Floating] = (),
) -> dict[RouterDriverKey, RouterDriverValue]:
    """Return the entries of an update."""
    return {
        **{each.key: each.value for each in gateways},
        **{each.key: each.state for each in sites},
        **{each.key: each.value for each in floating},
    }


def bring_entries(
    driver: RouterDriver, put: dict[RouterDriverKey, RouterDriverValue], **update: Any
) -> None:
    """Converge *put* until nothing waits for the switch."""
    wait_until(lambda: driver.converge(Update(put=put, **update)).ok, seconds=60)
