"""Tables of routers, floating IPs, port forwardings and NDP proxies."""

from __future__ import annotations

from netfw.model.resource import Kind
from netfw.server.db.schema.qos_tables import FLOATING_IP_POLICY, ROUTER_POLICY
from netfw.server.db.schema.table_mapping import (
    flag_column,
    id_column,
    mapping,
    number_column,
    text_column,
)

_ROUTER = (
    text_column("status"),
    flag_column("admin_state_up"),
    flag_column("ha"),
    flag_column("distributed"),
    flag_column("enable_ndp_proxy"),
    id_column("flavor_id", index=False),
    id_column("gateway_network_id", "external_gateway_info", "network_id"),
)
_FLOATING_IP = (
    id_column("floating_network_id", refers="networks", index=False),
    text_column("floating_ip_address", index=True),
    id_column("port_id"),
    text_column("fixed_ip_address"),
    id_column("router_id"),
    text_column("host", index=True),
    text_column("status"),
    id_column("qos_policy_id", index=False),
)
_PORT_FORWARDING = (
    id_column("floatingip_id", refers="floating_ips"),
    text_column("protocol"),
    number_column("external_port"),
    text_column("external_port_range"),
    number_column("internal_port"),
    text_column("internal_port_range"),
    id_column("internal_port_id"),
    text_column("internal_ip_address"),
)
_NDP_PROXY = (
    id_column("router_id", refers="routers"),
    id_column("port_id"),
    text_column("ip_address"),
)
ROUTER_TABLES = (
    mapping(Kind.ROUTER, "routers", _ROUTER, relations=(ROUTER_POLICY,)),
    mapping(
        Kind.FLOATING_IP,
        "floating_ips",
        _FLOATING_IP,
        "floating_network_id",
        "floating_ip_address",
        relations=(FLOATING_IP_POLICY,),
    ),
    mapping(Kind.PORT_FORWARDING, "port_forwardings", _PORT_FORWARDING),
    mapping(Kind.NDP_PROXY, "ndp_proxies", _NDP_PROXY),
)
