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
from netfw.model.wire.object_codec import NamedField, ObjectCodec
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
        NamedField("action", choice(FirewallAction)),
        NamedField("ip_version", integer(4, 6)),
        NamedField("protocol", PROTOCOL),
        NamedField("source", Nullable(CIDR, silent=True)),
        NamedField("destination", Nullable(CIDR, silent=True)),
        NamedField("source_ports", Nullable(PORT_RANGE, silent=True)),
        NamedField("destination_ports", Nullable(PORT_RANGE, silent=True)),
    ),
)
FIREWALL_GROUP = ObjectCodec(
    FirewallGroup,
    (
        IDENTITY,
        NamedField("ports", Listed(ID, limit=MAX_FIREWALL_PORTS)),
        NamedField("ingress", Listed(FIREWALL_RULE, limit=MAX_FIREWALL_RULES)),
        NamedField("egress", Listed(FIREWALL_RULE, limit=MAX_FIREWALL_RULES)),
    ),
)
GATEWAY = ObjectCodec(
    ExternalGateway,
    (
        NamedField("network_id", ID),
        NamedField("enable_snat", BOOLEAN),
        NamedField("external_fixed_ips", Listed(FIXED_IP), "fixed_ips"),
        QOS_POLICY_ID,
    ),
)
CONNTRACK_HELPER = ObjectCodec(
    ConntrackHelper,
    (
        IDENTITY,
        NamedField("protocol", choice(HelperProtocol, fold=True)),
        NamedField("port", PORT_NUMBER),
        NamedField("helper", TOKEN),
    ),
)
ROUTER = ObjectCodec(
    Router,
    (
        IDENTITY,
        *NAMED,
        NamedField("external_gateway_info", Nullable(GATEWAY), "gateway"),
        NamedField("routes", Listed(ROUTE)),
        ADMIN_STATE,
        NamedField("status", STATUS),
        NamedField("ha", BOOLEAN),
        NamedField("vrid", Nullable(VRID, silent=True)),
        NamedField("distributed", BOOLEAN),
        NamedField("availability_zone_hints", ZONES),
        NamedField("availability_zones", ZONES),
        NamedField("flavor_id", Nullable(ID)),
        NamedField("firewall_groups", Listed(FIREWALL_GROUP, silent=True)),
        NamedField("enable_ndp_proxy", BOOLEAN),
        NamedField("conntrack_helpers", Listed(CONNTRACK_HELPER, silent=True)),
    ),
)
FLOATING_IP = ObjectCodec(
    FloatingIp,
    (
        IDENTITY,
        *OWNED,
        NamedField("floating_network_id", ID, "network_id"),
        NamedField("floating_ip_address", ADDRESS, "address"),
        NamedField("port_id", Nullable(ID)),
        NamedField("fixed_ip_address", Nullable(ADDRESS), "fixed_address"),
        NamedField("router_id", Nullable(ID)),
        NamedField("host", Nullable(HOST, silent=True)),
        NamedField("status", STATUS),
        QOS_POLICY_ID,
        NamedField("dns_name", DNS_NAME),
        NamedField("dns_domain", DNS_NAME),
    ),
)
PORT_FORWARDING = ObjectCodec(
    PortForwarding,
    (
        IDENTITY,
        *OWNED,
        NamedField("floatingip_id", ID, "floating_ip_id"),
        NamedField("protocol", choice(ForwardedProtocol, fold=True)),
        NamedField("external_port", SINGLE_PORT, "external_ports"),
        NamedField("external_port_range", PORT_RANGE, "external_ports"),
        NamedField("internal_port", SINGLE_PORT, "internal_ports"),
        NamedField("internal_port_range", PORT_RANGE, "internal_ports"),
        NamedField("internal_port_id", ID),
        NamedField("internal_ip_address", ADDRESS, "internal_address"),
    ),
)
NDP_PROXY = ObjectCodec(
    NdpProxy,
    (
        IDENTITY,
        *NAMED,
        NamedField("router_id", ID),
        NamedField("port_id", ID),
        NamedField("ip_address", ADDRESS, "address"),
    ),
)
