"""What the operator decided for all resources, as values."""

from __future__ import annotations

from attrs import frozen

from netfw.model.segment import NetworkType


@frozen(kw_only=True)
class Settings:
    """The plugin's options; each default is the option's own."""

    tenant_network_types: tuple[NetworkType, ...] = (NetworkType.VXLAN,)
    """Tried in order for a network whose segment nobody chose."""
    external_network_type: NetworkType | None = None
    """For external networks whose segment nobody chose; ``None``: as for others."""
    base_mac: str = "fa:16:3e:00:00:00"
    """Generated MAC addresses begin with the first three octets, or four where the fourth is
    not zero."""
    global_physnet_mtu: int = 1500
    max_dns_nameservers: int = 5
    """Of one subnet."""
    max_subnet_host_routes: int = 20
    default_quota: int = -1
    """For what has no quota of its own; -1: any number."""
    agent_down_time: float = 75.0
    """Seconds of silence after which an agent counts as dead."""
    failover_grace: float = 40.0
    """Seconds for which a server must have seen an agent dead before it takes anything from it."""
    dhcp_agents_per_network: int = 1
    max_l3_agents_per_router: int = 3
    """For routers that are on several hosts; 0: as many as there are."""
    allow_automatic_dhcp_failover: bool = True
    """Networks are taken from dead DHCP agents."""
    allow_automatic_l3agent_failover: bool = False
    """Plain routers are taken from dead L3 agents, which may still forward."""
    default_availability_zones: tuple[str, ...] = ()
    """For networks and routers that name none."""
    max_allowed_address_pairs: int = 10
    """How many a port may have."""
    dvr_base_mac: str = "fa:16:3f:00:00:00"
    """The MAC addresses of hosts begin with its first three octets."""
    max_routes: int = 30
    """How many a router may have beside those that follow from its interfaces."""
    reschedule_interval: float = 30.0
    outbox_workers: int = 4
    outbox_poll: float = 1.0
    outbox_lease: float = 30.0
    outbox_longest_pause: float = 60.0
