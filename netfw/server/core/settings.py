"""Settings of the server, as values."""

from __future__ import annotations

from attrs import frozen

from netfw.conf.plugin import ALLOWED_CONNTRACK_HELPERS
from netfw.model.segment import NetworkType


@frozen(kw_only=True)
class Settings:
    """The plugin's options; each default is that of its option."""

    tenant_network_types: tuple[NetworkType, ...] = (NetworkType.VXLAN,)
    """Types tried in order for a network without provider attributes."""
    external_network_type: NetworkType | None = None
    """Type of external networks without provider attributes; ``None``: as for other networks."""
    base_mac: str = "fa:16:3e:00:00:00"
    """Prefix of generated MAC addresses: its first three octets, or four if the fourth is not
    zero."""
    global_physnet_mtu: int = 1500
    max_dns_nameservers: int = 5
    """Maximum per subnet."""
    max_subnet_host_routes: int = 20
    default_quota: int = -1
    """Limit of resources that have no quota option; -1: unlimited."""
    agent_down_time: float = 75.0
    """Seconds of silence after which an agent counts as dead."""
    further_agent_types: tuple[str, ...] = ()
    """Agent types that may register besides those of netfw."""
    failover_grace: float = 40.0
    """Seconds for which a server must have seen an agent dead before it reschedules its work."""
    dhcp_agents_per_network: int = 1
    distributed_dhcp: bool = False
    """Whether every host answers DHCP for its own ports, and networks get no DHCP agents."""
    max_l3_agents_per_router: int = 3
    """Maximum for routers that are on several hosts; 0: all agents."""
    allow_automatic_dhcp_failover: bool = True
    """Whether networks are moved from dead DHCP agents."""
    allow_automatic_l3agent_failover: bool = False
    """Whether plain routers are moved from dead L3 agents, which may still forward."""
    l3_ha: bool = False
    """Whether a router is highly available if the request does not say."""
    router_distributed: bool = False
    """Whether a router is distributed if the request does not say."""
    l3_ha_net_cidr: str = "169.254.192.0/18"
    """IPv4 prefix of HA networks."""
    l3_ha_network_type: NetworkType | None = None
    """Type of HA networks; ``None``: as for other networks."""
    l3_ha_network_physical_name: str = ""
    default_availability_zones: tuple[str, ...] = ()
    """Zones of networks and routers that name none."""
    max_fixed_ips_per_port: int = 10
    """Maximum that a request may name, but for ports of routers and DHCP servers."""
    max_allowed_address_pairs: int = 10
    """Maximum per port."""
    dvr_base_mac: str = "fa:16:3f:00:00:00"
    """Prefix of the MAC addresses of hosts: its first three octets."""
    max_addresses_per_address_group: int = 10_000
    """Maximum of prefixes."""
    max_routes: int = 30
    """Maximum per router, beside the routes that follow from its interfaces."""
    allowed_conntrack_helpers: tuple[str, ...] = ALLOWED_CONNTRACK_HELPERS
    """Helpers that routers may have, each with a protocol."""
    enable_ndp_proxy_by_default: bool = False
    """Whether a router has NDP proxies if the request does not say, and its gateway can."""
    reschedule_interval: float = 30.0
    outbox_delivery_threads: int = 4
    outbox_poll_interval: float = 1.0
    outbox_lease_time: float = 30.0
    outbox_retry_interval_max: float = 60.0
