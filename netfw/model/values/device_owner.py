"""Device owners of ports, and predicates on them.

``Port.device_owner`` is free text: the API accepts any token.  The predicates take that text, and
match prefixes where a family of owners counts.  Two families are easily confused:

- :func:`is_router_port`: the ``device_id`` of the port is the id of a router;
- :func:`is_l3_agent_port`: a router port, or the gateway that an L3 agent has on an external
  network, whose ``device_id`` names an agent.
"""

from __future__ import annotations

import enum
from typing import Final


class DeviceOwner(enum.StrEnum):
    """The device owners that netfw itself gives to ports."""

    DHCP = "network:dhcp"
    ROUTER_INTERFACE = "network:router_interface"
    ROUTER_INTERFACE_DISTRIBUTED = "network:router_interface_distributed"
    HA_ROUTER_REPLICATED_INTERFACE = "network:ha_router_replicated_interface"
    """The interface of a highly available router: its MAC is on the host of the active instance."""
    ROUTER_HA_INTERFACE = "network:router_ha_interface"
    """The port by which the instances of a highly available router elect the active one."""
    ROUTER_GATEWAY = "network:router_gateway"
    ROUTER_CENTRALIZED_SNAT = "network:router_centralized_snat"
    FLOATING_IP = "network:floatingip"
    FLOATING_IP_AGENT_GATEWAY = "network:floatingip_agent_gateway"
    LOCAL_IP = "network:local_ip"
    """The port that has the address of a local IP, and no device."""
    TRUNK_SUB_PORT = "trunk:subport"


NETWORK_PREFIX: Final = "network:"
"""Beginning of the owners of ports that belong to the network itself."""
COMPUTE_PREFIX: Final = "compute:"
"""Beginning of the owners of ports of instances; an availability zone follows."""
ROUTER_PORT_PREFIXES: Final = ("network:router_", "network:ha_router_")
"""Beginnings of the owners of ports whose ``device_id`` is the id of a router."""
L3_AGENT_PORT_PREFIXES: Final = (
    *ROUTER_PORT_PREFIXES,
    DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
)
"""Beginnings of the owners of router ports and of the gateways of L3 agents."""
ROUTER_INTERFACES: Final = (
    DeviceOwner.ROUTER_INTERFACE.value,
    DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value,
    DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE.value,
)
"""Owners of the ports that connect routers to the networks of projects."""
ROUTER_ATTACHMENTS: Final = (*ROUTER_INTERFACES, DeviceOwner.ROUTER_GATEWAY.value)
"""Owners of the interfaces and of the gateway of a router."""
DISTRIBUTED_DHCP_DEVICE: Final = "distributed_dhcp_port"
"""The ``device_id`` of the DHCP port of a network that every host answers from."""
_L3_PREFIXES: Final = (*L3_AGENT_PORT_PREFIXES, DeviceOwner.FLOATING_IP.value)


def is_trusted(owner: str) -> bool:
    """Return whether *owner* is the network itself: such a port is never filtered."""
    return owner.startswith(NETWORK_PREFIX)


def is_compute(owner: str) -> bool:
    """Return whether *owner* is an instance."""
    return owner.startswith(COMPUTE_PREFIX)


def is_dhcp(owner: str) -> bool:
    """Return whether *owner* is a DHCP server."""
    return owner == DeviceOwner.DHCP


def is_distributed_dhcp(owner: str, device_id: str) -> bool:
    """Return whether every host answers DHCP from a port: it is bound to none."""
    return is_dhcp(owner) and device_id == DISTRIBUTED_DHCP_DEVICE


def is_distributed(owner: str) -> bool:
    """Return whether a port of *owner* is on every host of its router at once."""
    return owner == DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED


def is_router_interface(owner: str) -> bool:
    """Return whether *owner* is a router that the port connects to a network of a project."""
    return owner in ROUTER_INTERFACES


def is_router_attachment(owner: str) -> bool:
    """Return whether *owner* is a router whose interface or gateway the port is."""
    return owner in ROUTER_ATTACHMENTS


def is_router_port(owner: str) -> bool:
    """Return whether *owner* is a router: the ``device_id`` of the port is its id."""
    return owner.startswith(ROUTER_PORT_PREFIXES)


def is_l3_agent_port(owner: str) -> bool:
    """Return whether *owner* is a router or an L3 agent: the port may have any address."""
    return owner.startswith(L3_AGENT_PORT_PREFIXES)


def is_l3_reserved(owner: str) -> bool:
    """Return whether only the L3 service and administrators may give a port this *owner*."""
    return owner.startswith(_L3_PREFIXES)
