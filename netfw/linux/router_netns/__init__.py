"""Router namespaces: ports, addresses, routes, policy rules, sysctls and filters as one value."""

from netfw.linux.router_netns.executor import RouterNetnsExecutor
from netfw.linux.router_netns.plan import plan_router_netns, plan_router_removal
from netfw.linux.router_netns.values import NetnsLink, NetnsPort, RouterNetns

__all__ = [
    "NetnsLink",
    "NetnsPort",
    "RouterNetns",
    "RouterNetnsExecutor",
    "plan_router_netns",
    "plan_router_removal",
]
