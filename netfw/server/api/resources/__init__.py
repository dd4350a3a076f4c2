"""The resources that netfw itself declares."""

from __future__ import annotations

from netfw.server.api.resources.agents import AGENT_RESOURCES
from netfw.server.api.resources.firewalls import FIREWALL_RESOURCES
from netfw.server.api.resources.flavors import FLAVOR_RESOURCES
from netfw.server.api.resources.floating_ip_pools import FLOATING_IP_POOL
from netfw.server.api.resources.ip_availability import IP_AVAILABILITY
from netfw.server.api.resources.local_ips import LOCAL_IP_RESOURCES
from netfw.server.api.resources.metering import METERING_RESOURCES
from netfw.server.api.resources.networks import NETWORK_RESOURCES
from netfw.server.api.resources.ports import PORT_RESOURCES
from netfw.server.api.resources.qos import QOS_RESOURCES
from netfw.server.api.resources.quotas import quota_resource
from netfw.server.api.resources.rbac import RBAC_RESOURCES
from netfw.server.api.resources.routers import ROUTER_RESOURCES
from netfw.server.api.resources.security_groups import SECURITY_RESOURCES
from netfw.server.api.resources.segment_ranges import NETWORK_SEGMENT_RANGE
from netfw.server.api.resources.subnet_pools import SUBNET_POOL_RESOURCES
from netfw.server.api.resources.trunks import TRUNK_RESOURCES
from netfw.server.api.schema.resource_schema import ApiResource

__all__ = ["RESOURCES", "quota_resource"]

RESOURCES: tuple[ApiResource, ...] = (
    *NETWORK_RESOURCES,
    NETWORK_SEGMENT_RANGE,
    *PORT_RESOURCES,
    *ROUTER_RESOURCES,
    *SECURITY_RESOURCES,
    *SUBNET_POOL_RESOURCES,
    *RBAC_RESOURCES,
    *QOS_RESOURCES,
    *TRUNK_RESOURCES,
    *LOCAL_IP_RESOURCES,
    *AGENT_RESOURCES,
    FLOATING_IP_POOL,
    IP_AVAILABILITY,
    *FLAVOR_RESOURCES,
    *METERING_RESOURCES,
    *FIREWALL_RESOURCES,
)
"""All resources but the quotas, which are derived from the others."""
