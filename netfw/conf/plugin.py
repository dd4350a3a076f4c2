"""Options of the plugins: which are loaded, their drivers, and defaults of resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

GROUP = "ml2"
"""Group of the drivers; the plugins themselves are named without a group."""

ALLOWED_CONNTRACK_HELPERS = (
    "amanda:udp",
    "ftp:tcp",
    "h323:tcp",
    "h323:udp",
    "irc:tcp",
    "netbios-ns:udp",
    "pptp:tcp",
    "sane:tcp",
    "sip:tcp",
    "sip:udp",
    "snmp:udp",
    "tftp:udp",
)
"""Each with a protocol."""

PLUGINS = (
    cfg.StrOpt(
        "core_plugin",
        default="ml2",
        help="The plugin that implements networks, subnets, ports and agents.",
    ),
    cfg.ListOpt(
        "service_plugins",
        default=[
            "security_groups",
            "router",
            "port_forwarding",
            "conntrack_helper",
            "ndp_proxy",
            "subnet_pools",
            "auto_allocate",
            "rbac",
            "log",
            "qos",
            "trunk",
            "local_ip",
            "flavors",
            "network_ip_availability",
            "network_segment_range",
            "metering",
            "firewall",
        ],
        help="Plugins that implement further resources, in the order in which they are called.",
    ),
    cfg.ListOpt(
        "api_extensions",
        default=[],
        help="Vendors' resources that the API has besides its own, by the names of the extensions "
        "that declare them.",
    ),
    cfg.ListOpt(
        "notifiers",
        default=[],
        help="External systems that are notified of changes, by the names of their drivers.",
    ),
    cfg.StrOpt(
        "ipam_driver",
        default="internal",
        help="The driver that allocates addresses; its own options are in the group of that name.",
    ),
    cfg.StrOpt(
        "base_mac",
        default="fa:16:3e:00:00:00",
        help="MAC addresses of ports begin with its first three octets, or with four where the "
        "fourth is not 00.",
    ),
    cfg.StrOpt(
        "dns_domain",
        default="openstacklocal",
        help="The domain in which ports have names, where neither port nor network has one.",
    ),
    cfg.IntOpt(
        "global_physnet_mtu",
        default=1500,
        min=0,
        max=65535,
        help="MTU of the physical networks, for all type drivers whose own group does not "
        "set it; 0: no limit.",
    ),
    cfg.IntOpt(
        "max_dns_nameservers",
        default=5,
        min=0,
        help="How many DNS servers a subnet may name.",
    ),
    cfg.IntOpt(
        "max_subnet_host_routes",
        default=20,
        min=0,
        help="How many routes a subnet may name.",
    ),
    cfg.IntOpt(
        "max_fixed_ips_per_port",
        default=10,
        min=1,
        help="How many addresses a request may name for a port, but for ports of routers and DHCP "
        "servers: so that one port cannot take all addresses of a shared subnet.",
    ),
    cfg.IntOpt(
        "max_allowed_address_pairs",
        default=10,
        min=0,
        help="How many address pairs a port may have.",
    ),
    cfg.IntOpt(
        "max_addresses_per_address_group",
        default=10_000,
        min=1,
        max=65_536,
        help="How many prefixes an address group may have.  A change of a group costs time that "
        "grows with their number.",
    ),
    cfg.IntOpt(
        "max_routes",
        default=30,
        min=0,
        help="How many routes a router may have beside those that follow from its interfaces.",
    ),
    cfg.ListOpt(
        "allowed_conntrack_helpers",
        default=list(ALLOWED_CONNTRACK_HELPERS),
        help="Conntrack helpers that routers may have, each with the protocol of its connections, "
        "tcp or udp.  The kernels of the hosts of routers need the module of each.",
    ),
    cfg.BoolOpt(
        "enable_ndp_proxy_by_default",
        default=False,
        help="NDP proxies are enabled on new routers where the request does not say so, if the "
        "gateway has an IPv6 address and its network an IPv6 address scope.",
    ),
    cfg.BoolOpt(
        "l3_ha",
        default=False,
        help="Routers are highly available where the request does not say so; only administrators "
        "may say.  See max_l3_agents_per_router.",
    ),
    cfg.BoolOpt(
        "router_distributed",
        default=False,
        help="Routers are distributed where the request does not say so; only administrators may "
        "say.  Their central part needs an L3 agent whose agent_mode is dvr_snat.",
    ),
    cfg.StrOpt(
        "l3_ha_net_cidr",
        default="169.254.192.0/18",
        help="IPv4 prefix of the hidden networks by which the hosts of highly available routers "
        "elect the active one: an address for each host of each router.  Networks that exist keep "
        "theirs.",
    ),
    cfg.StrOpt(
        "l3_ha_network_type",
        help="Type of these networks; unset: as for other networks.",
    ),
    cfg.StrOpt(
        "l3_ha_network_physical_name",
        default="",
        help="Physical network of these networks, with l3_ha_network_type.",
    ),
)

ML2 = (
    cfg.ListOpt(
        "type_drivers",
        default=["local", "flat", "vlan", "gre", "vxlan", "geneve"],
        help="Types of segments that networks can have, by their drivers; the options of each are "
        "in the group of its name.",
    ),
    cfg.ListOpt(
        "tenant_network_types",
        default=["vxlan"],
        help="Types that are tried, in this order, for a network without a requested segment.  "
        "The type needs numbers: see vni_ranges in the group vxlan, and the like.",
    ),
    cfg.StrOpt(
        "external_network_type",
        help="The type of external networks without a requested segment; unset: as for others.",
    ),
    cfg.ListOpt(
        "mechanism_drivers",
        default=["openvswitch", "l2population"],
        help="Drivers that bind ports, in the order in which they are tried.",
    ),
    cfg.ListOpt(
        "extension_drivers",
        default=["port_security", "dns", "qos"],
        help="Drivers that add attributes to networks, subnets and ports, in their order.",
    ),
    cfg.IntOpt(
        "path_mtu",
        default=0,
        min=0,
        max=65535,
        help="Largest IP packet that gets from each host to each other without fragmentation, for "
        "all types of tunnels whose own group does not set it; 0: as global_physnet_mtu.",
    ),
    cfg.IntOpt(
        "overlay_ip_version",
        default=4,
        choices=[(4, "IPv4"), (6, "IPv6")],
        help="IP version of tunnels, for all types of them whose own group does not set it.",
    ),
    cfg.DictOpt(
        "physical_network_mtus",
        default={},
        help="Physical networks whose MTU differs from global_physnet_mtu, as physnet1:9000, for "
        "all type drivers whose own group does not set it.",
    ),
)


def shared_values(conf: cfg.ConfigOpts) -> Mapping[str, Any]:
    """Return values for every driver that has an option of the same name and no value for it."""
    return {
        "global_physnet_mtu": conf.global_physnet_mtu,
        "dns_domain": conf.dns_domain,
        "path_mtu": conf[GROUP].path_mtu,
        "overlay_ip_version": conf[GROUP].overlay_ip_version,
        "physical_network_mtus": conf[GROUP].physical_network_mtus,
    }


def list_opts() -> list[tuple[str | None, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(None, PLUGINS), (GROUP, ML2)]
