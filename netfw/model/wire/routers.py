"""Routers, floating IPs and port forwardings as the API writes them."""

from __future__ import annotations

from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.router import ConntrackHelper, ExternalGateway, HelperProtocol, Router
from netfw.model.router_firewall import (
    MAX_FIREWALL_PORTS,
    MAX_FIREWALL_RULES,
    FirewallAction,
    FirewallGroup,
    FirewallRule,
)
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.common import (
    ADMIN_STATE,
    FIXED_IP,
    IDENTITY,
    NAMED,
    OWNED,
    QOS_POLICY_ID,
    ROUTE,
    STATUS,
    ZONES,
)
from netfw.model.wire.object_codec import Attribute, ObjectCodec
from netfw.model.wire.scalars import (
    ADDRESS,
    BOOLEAN,
    CIDR,
    DNS_NAME,
    HOST,
    ID,
    PORT_NUMBER,
    PORT_RANGE,
    PROTOCOL,
    SINGLE_PORT,
    TOKEN,
    VRID,
    choice,
    integer,
)

FIREWALL_RULE = ObjectCodec(
    FirewallRule,
    (
        IDENTITY,
        Attribute("action", choice(FirewallAction)),
        Attribute("ip_version", integer(4, 6)),
        Attribute("protocol", PROTOCOL),
        Attribute("source", Nullable(CIDR, silent=True)),
        Attribute("destination", Nullable(CIDR, silent=True)),
        Attribute("source_ports", Nullable(PORT_RANGE, silent=True)),
        Attribute("destination_ports", Nullable(PORT_RANGE, silent=True)),
    ),
)
FIREWALL_GROUP = ObjectCodec(
    FirewallGroup,
    (
        IDENTITY,
        Attribute("ports", Listed(ID, limit=MAX_FIREWALL_PORTS)),
        Attribute("ingress", Listed(FIREWALL_RULE, limit=MAX_FIREWALL_RULES)),
        Attribute("egress", Listed(FIREWALL_RULE, limit=MAX_FIREWALL_RULES)),
    ),
)
GATEWAY = ObjectCodec(
    ExternalGateway,
    (
        Attribute("network_id", ID),
        Attribute("enable_snat", BOOLEAN),
        Attribute("external_fixed_ips", Listed(FIXED_IP), "fixed_ips"),
        QOS_POLICY_ID,
    ),
)
CONNTRACK_HELPER = ObjectCodec(
    ConntrackHelper,
    (
        IDENTITY,
        Attribute("protocol", choice(HelperProtocol, fold=True)),
        Attribute("port", PORT_NUMBER),
        Attribute("helper", TOKEN),
    ),
)
ROUTER = ObjectCodec(
    Router,
    (
        IDENTITY,
        *NAMED,
        Attribute("external_gateway_info", Nullable(GATEWAY), "gateway"),
        Attribute("routes", Listed(ROUTE)),
        ADMIN_STATE,
        Attribute("status", STATUS),
        Attribute("ha", BOOLEAN),
        Attribute("vrid", Nullable(VRID, silent=True)),
        Attribute("distributed", BOOLEAN),
        Attribute("availability_zone_hints", ZONES),
        Attribute("availability_zones", ZONES),
        Attribute("flavor_id", Nullable(ID)),
        Attribute("firewall_groups", Listed(FIREWALL_GROUP, silent=True)),
        Attribute("enable_ndp_proxy", BOOLEAN),
        Attribute("conntrack_helpers", Listed(CONNTRACK_HELPER, silent=True)),
    ),
)
FLOATING_IP = ObjectCodec(
    FloatingIp,
    (
        IDENTITY,
        *OWNED,
        Attribute("floating_network_id", ID, "network_id"),
        Attribute("floating_ip_address", ADDRESS, "address"),
        Attribute("port_id", Nullable(ID)),
        Attribute("fixed_ip_address", Nullable(ADDRESS), "fixed_address"),
        Attribute("router_id", Nullable(ID)),
        Attribute("host", Nullable(HOST, silent=True)),
        Attribute("status", STATUS),
        QOS_POLICY_ID,
        Attribute("dns_name", DNS_NAME),
        Attribute("dns_domain", DNS_NAME),
    ),
)
PORT_FORWARDING = ObjectCodec(
    PortForwarding,
    (
        IDENTITY,
        *OWNED,
        Attribute("floatingip_id", ID, "floating_ip_id"),
        Attribute("protocol", choice(ForwardedProtocol, fold=True)),
        Attribute("external_port", SINGLE_PORT, "external_ports"),
        Attribute("external_port_range", PORT_RANGE, "external_ports"),
        Attribute("internal_port", SINGLE_PORT, "internal_ports"),
        Attribute("internal_port_range", PORT_RANGE, "internal_ports"),
        Attribute("internal_port_id", ID),
        Attribute("internal_ip_address", ADDRESS, "internal_address"),
    ),
)
NDP_PROXY = ObjectCodec(
    NdpProxy,
    (
        IDENTITY,
        *NAMED,
        Attribute("router_id", ID),
        Attribute("port_id", ID),
        Attribute("ip_address", ADDRESS, "address"),
    ),
)
