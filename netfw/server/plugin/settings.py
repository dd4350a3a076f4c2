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
    allow_overlapping_ips: bool = True
    default_quota: int = -1
    """For what has no quota of its own; -1: any number."""
