"""The desired agent gateways of this host: its own ports on external networks.  Pure.

A host has one for each external network of which it translates a floating IP itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.agents.l3.router_parts import (
    L3HostContext,
    NotOnHost,
    describe_port,
    find_next_hops,
    make_router_port,
    scopes_of,
)
from netfw.drivers.values.agent_requests import EnsureGatewayPort
from netfw.drivers.values.router_values import AgentGateway, RouterPort
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.model.values.ids import AddressScopeId, NetworkId, PortId


@frozen(kw_only=True)
class AgentGatewaySpec:
    """The desired agent gateway to an external network."""

    request: EnsureGatewayPort
    """The request for its port, sent to the source unless *own* is set."""
    own: RouterPort | None = None
    """Its port, if the source published it already."""
    subnets: tuple[Subnet, ...]
    """All subnets of the network."""
    mtu: int
    scopes: Mapping[int, AddressScopeId] = field(factory=dict, hash=False)

    def describe(self, port: Port) -> RouterPort:
        """Return the port that the source returned, for the driver."""
        return describe_port(port, self.subnets, self.mtu, self.scopes)

    def value(self, port: RouterPort) -> AgentGateway:
        """Return the driver's value of the gateway, with *port*.

        :raises Conflict: it has no address.
        """
        if not port.addresses:
            raise Conflict(f"port {port.id} of the agent gateway has no address")
        others = (subnet for subnet in self.subnets if subnet not in port.subnets)
        return AgentGateway(
            port=port,
            next_hops=find_next_hops(port.subnets),
            onlink_subnets=tuple(subnet.cidr for subnet in others),
        )


@frozen(kw_only=True)
class UnusedAgentGateway:
    """An agent gateway that no floating IP of this host needs; its port is to be released."""

    port: PortId


def make_agent_gateway(
    network: NetworkId, index: L3ResourceIndex, context: L3HostContext, *, is_used: bool
) -> AgentGatewaySpec | UnusedAgentGateway | NotOnHost | None:
    """Return the desired agent gateway to *network*; *is_used*: a floating IP needs it."""
    bound = (p for p in index.agent_gateway_ports(network) if p.binding.is_on(context.host))
    port = next(bound, None)
    if not is_used:
        return None if port is None else UnusedAgentGateway(port=port.id)
    found = index.network(network)
    if found is None:
        return NotOnHost(reason=f"network {network} is not known to this host yet", waits=True)
    return AgentGatewaySpec(
        request=EnsureGatewayPort(network=network, host=context.host),
        own=None if port is None else make_router_port(port, index),
        subnets=index.subnets(network),
        mtu=found.mtu,
        scopes=scopes_of(found),
    )
