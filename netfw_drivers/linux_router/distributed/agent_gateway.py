"""The namespace of an agent gateway.  Pure.

It answers ARP for the floating IPs that it has routes to, and tracks no connections: it has no
packet filter rules.
"""

from __future__ import annotations

from netfw.drivers.values.router_values import AgentGateway, Gateway
from netfw.linux.router_netns.values import NetnsPort, RouterNetns
from netfw.model.values.ids import NetworkId
from netfw_drivers.linux_router.plan.desired_netns import DEVICE_SYSCTLS, SYSCTLS, DeviceName
from netfw_drivers.linux_router.plan.names import AGENT_GATEWAY, GATEWAY_END, gateway_namespace
from netfw_drivers.linux_router.plan.router_routes import RouterRoutes, make_routes

_SETTINGS = {**DEVICE_SYSCTLS, "ipv4/proxy_arp": "1", "ipv4/neigh/proxy_delay": "0"}
"""Parameters of its device: by default, the kernel answers for others after up to 0.8 seconds."""


def gateway_routes(value: AgentGateway, device: str) -> RouterRoutes:
    """Return the routes of an agent gateway, and those that are left out."""
    gateway = Gateway(
        port=value.port, next_hops=value.next_hops, onlink_subnets=value.onlink_subnets
    )
    return make_routes((), gateway, device, [(each, device) for each in value.port.addresses])


def gateway_netns(network: NetworkId, value: AgentGateway, device_name: DeviceName) -> RouterNetns:
    """Return the namespace of an agent gateway; the ends of links in it belong to routers."""
    port = value.port
    device = device_name(port.id, AGENT_GATEWAY)
    own = NetnsPort(
        port=port.id,
        device=device,
        mac=port.mac,
        mtu=port.mtu,
        addresses=port.addresses,
        settings=_SETTINGS,
    )
    return RouterNetns(
        netns=gateway_namespace(network),
        ports=(own,),
        kept_prefix=GATEWAY_END,
        routes=tuple(gateway_routes(value, device).routes.values()),
        sysctls=SYSCTLS,
    )
