"""Extension aliases, by which clients discover the features of a server.

Each stands beside what must be served for it to be true: ``router`` a resource, ``port.fixed_ips``
an attribute, ``router/add_extraroutes`` an action; all of several words.  Nothing: it is a
mechanism of the API itself.
Some clients look for the name (``Availability Zone``), not for the alias.
"""

from __future__ import annotations

from collections.abc import Iterable

from netfw.drivers.server.api_extension import ExtensionInfo
from netfw.server.api.schema.resource_schema import ApiResource

UPDATED = "2026-11-15T00:00:00Z"

_ALIASES: tuple[tuple[str, str, str], ...] = (
    ("address-scope", "Address scopes", "address_scope"),
    ("address-group", "Address groups", "address_group"),
    ("agent", "Agents", "agent"),
    ("agent-resources-synced", "Whether an agent's resources are known to placement", "agent"),
    ("allowed-address-pairs", "Allowed address pairs", "port.allowed_address_pairs"),
    ("auto-allocated-topology", "Networks on request", "auto_allocated_topology"),
    ("availability_zone", "Availability Zone", "availability_zone"),
    ("availability_zone_filter", "Filters of availability zones", "availability_zone"),
    ("binding", "Port bindings", "port.binding:host_id"),
    ("binding-extended", "Several bindings of a port", "binding/activate"),
    ("default-subnetpools", "Default subnet pools", "subnetpool.is_default"),
    ("dhcp_agent_scheduler", "DHCP agents of networks", "dhcp_network"),
    ("dns-integration", "DNS names of ports", "port.dns_name"),
    ("dns-domain-ports", "DNS domains of ports", "port.dns_domain"),
    ("dvr", "Distributed routers", "router.distributed"),
    ("empty-string-filtering", "Filters by empty text", ""),
    ("ext-gw-mode", "Source NAT switch of gateways", "router.external_gateway_info"),
    (
        "expose-port-forwarding-in-fip",
        "Port forwardings shown with floating IPs",
        "port_forwarding",
    ),
    (
        "expose-l3-conntrack-helper",
        "Conntrack helpers shown with routers",
        "conntrack_helper",
    ),
    ("external-net", "External networks", "network.router:external"),
    ("extra_dhcp_opt", "Extra DHCP options", "port.extra_dhcp_opts"),
    ("extraroute", "Extra routes of routers", "router.routes"),
    ("extraroute-atomic", "Adding and removing single routes", "router/add_extraroutes"),
    ("filter-validation", "Unknown filters are refused", ""),
    ("fip-port-details", "Details of a floating IP's port", "floatingip.port_details"),
    ("flavors", "Flavors", "flavor"),
    ("floating-ip-port-forwarding", "Port forwardings of floating IPs", "port_forwarding"),
    (
        "floating-ip-port-forwarding-description",
        "Descriptions of port forwardings",
        "port_forwarding.description",
    ),
    (
        "floating-ip-port-forwarding-detail",
        "Ids of port forwardings and of their ports shown with floating IPs",
        "port_forwarding",
    ),
    (
        "floating-ip-port-forwarding-port-ranges",
        "Port forwardings of port ranges",
        "port_forwarding.external_port_range",
    ),
    ("floatingip-pools", "Subnets that floating IPs can be taken from", "floatingip_pool"),
    ("fwaas_v2", "Router firewalls", "firewall_group"),
    ("ip-substring-filtering", "Ports by a part of their address", "port.fixed_ips"),
    ("l3-conntrack-helper", "Conntrack helpers of routers", "conntrack_helper"),
    ("l3-ext-ndp-proxy", "NDP proxies can be enabled on routers", "ndp_proxy"),
    ("l3-ndp-proxy", "NDP proxies", "ndp_proxy"),
    ("l3-ha", "Routers on several hosts", "router.ha"),
    ("l3-flavors", "Flavors of routers", "flavor"),
    ("l3_agent_scheduler", "L3 agents of routers", "l3_router"),
    ("local_ip", "Local IPs", "local_ip local_ip_port_association"),
    ("logging", "Packet logs", "log"),
    ("metering", "Metering labels", "metering_label"),
    (
        "metering_source_and_destination_fields",
        "Rules of metering labels by source and destination",
        "metering_label_rule.source_ip_prefix",
    ),
    ("multi-provider", "Networks with several segments", "network.segments"),
    ("net-mtu", "MTU of networks", "network.mtu"),
    ("net-mtu-writable", "MTU of networks can be chosen", "network.mtu"),
    ("network-ip-availability", "Used addresses of networks", "network_ip_availability"),
    ("network-segment-range", "Ranges of segments", "network_segment_range"),
    ("network_availability_zone", "Zones of networks", "network.availability_zone_hints"),
    ("pagination", "Lists in pages", ""),
    ("port-mac-address-regenerate", "A new MAC address for a port", "port.mac_address"),
    ("port-resource-request", "What hosts must have for ports", "port.resource_request"),
    (
        "port-resource-request-groups",
        "What hosts must have for ports, in groups",
        "port.resource_request",
    ),
    ("port-security", "Port security", "port.port_security_enabled"),
    ("port-security-groups-filtering", "Ports by their groups", "port.security_groups"),
    ("project-id", "project_id beside tenant_id", ""),
    ("provider", "Provider networks", "network.provider:network_type"),
    ("qos", "Quality of Service", "policy"),
    ("qos-bw-limit-direction", "Directions of bandwidth limits", "bandwidth_limit_rule.direction"),
    (
        "qos-bw-minimum-ingress",
        "Minimum bandwidth of incoming traffic",
        "minimum_bandwidth_rule.direction",
    ),
    ("qos-default", "Default policies of projects", "policy.is_default"),
    ("qos-fip", "Policies of floating IPs", "policy floatingip.qos_policy_id"),
    ("qos-gateway-ip", "Policies of gateways of routers", "policy router.external_gateway_info"),
    (
        "qos-port-network-policy",
        "The policy a port has by its network",
        "policy port.qos_network_policy_id",
    ),
    ("qos-pps", "Packet rate limits", "packet_rate_limit_rule"),
    ("qos-pps-minimum", "Minimum packet rates", "minimum_packet_rate_rule"),
    (
        "qos-pps-minimum-rule-alias",
        "Minimum packet rates by their own id",
        "alias_minimum_packet_rate_rule",
    ),
    ("qos-rule-type-details", "Drivers of types of rules", "rule_type.drivers"),
    ("qos-rule-type-filter", "Filters of types of rules", "rule_type.all_rules"),
    ("qos-rules-alias", "Rules by their own id", "alias_bandwidth_limit_rule"),
    ("quota-check-limit", "Limits below what is used are refused", "quota"),
    ("quota-check-limit-default", "They are refused unless forced", "quota"),
    ("quota_details", "What is used of quotas", "quota/details"),
    ("quotas", "Quotas", "quota"),
    ("rbac-address-group", "Sharing of address groups", "rbac_policy address_group"),
    ("rbac-address-scope", "Sharing of address scopes", "rbac_policy address_scope"),
    ("rbac-policies", "RBAC policies", "rbac_policy"),
    ("rbac-security-groups", "Sharing of security groups", "rbac_policy security_group"),
    ("rbac-subnetpool", "Sharing of subnet pools", "rbac_policy subnetpool"),
    ("revision-if-match", "Changes of one revision only", ""),
    ("router", "Routers and floating IPs", "router"),
    (
        "router-admin-state-down-before-update",
        "Routers become distributed only while they are down",
        "router.distributed",
    ),
    ("router_availability_zone", "Zones of routers", "router.availability_zone_hints"),
    ("security-group", "Security groups", "security_group"),
    (
        "security-groups-default-rules",
        "Rules of new groups",
        "default_security_group_rule",
    ),
    (
        "security-groups-normalized-cidr",
        "The prefix that a rule means",
        "security_group_rule.normalized_cidr",
    ),
    (
        "security-groups-remote-address-group",
        "Address groups in rules",
        "security_group_rule.remote_address_group_id",
    ),
    ("security-groups-shared-filtering", "Groups by whether shared", "security_group.shared"),
    ("segment", "Segments of networks", "segment"),
    ("service-type", "Service providers", "service_provider"),
    ("sorting", "Lists in an order", ""),
    ("standard-attr-description", "Descriptions of everything", ""),
    ("standard-attr-revisions", "Revision numbers of everything", ""),
    (
        "standard-attr-segment",
        "Descriptions, revision numbers and times of segments",
        "segment.description segment.updated_at",
    ),
    ("standard-attr-tag", "Tags of everything", ""),
    ("standard-attr-timestamp", "When things were made and changed", ""),
    ("stateful-security-group", "Groups without connection state", "security_group.stateful"),
    ("subnet-service-types", "Subnets for certain devices", "subnet.service_types"),
    ("subnet_allocation", "Subnet pools", "subnetpool"),
    ("subnet_onboard", "Subnets put into pools", "subnetpool/onboard_network_subnets"),
    ("subnetpool-prefix-ops", "Prefixes of pools added or removed", "subnetpool/add_prefixes"),
    ("tag-ports-during-bulk-creation", "Tags of new ports", "port.tags"),
    ("trunk", "Trunks", "trunk"),
    ("trunk-details", "The trunk of a port", "trunk"),
)


def served_aliases(resources: Iterable[ApiResource]) -> tuple[ExtensionInfo, ...]:
    """Return the aliases of a server with these resources."""
    has = set()
    for each in resources:
        has.add(each.name)
        has |= {f"{each.name}.{attribute.name}" for attribute in each.attributes}
        has |= {f"{each.name}/{action.name}" for action in each.actions}
    return tuple(
        ExtensionInfo(alias=alias, name=name, description=f"{name}.", updated=UPDATED)
        for alias, name, needed in _ALIASES
        if has.issuperset(needed.split())
    )
