"""Names of the extensions of L3 agents that resources of the API need."""

from __future__ import annotations

from typing import Final

ROUTER_FIREWALL: Final = "router_firewall"
"""Filters what enters and leaves by interfaces."""
PORT_FORWARDING: Final = "port_forwarding"
"""Forwards ports of floating IPs."""
CONNTRACK_HELPER: Final = "conntrack_helper"
"""Attaches conntrack helpers."""
NDP_PROXY: Final = "ndp_proxy"
"""Answers for inside IPv6 addresses."""
FIP_QOS: Final = "fip_qos"
"""Limits floating IPs by their QoS policies."""
GATEWAY_IP_QOS: Final = "gateway_ip_qos"
"""Limits gateways by their QoS policies."""
