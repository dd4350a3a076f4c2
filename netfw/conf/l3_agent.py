"""Options of the L3 agent, beside those of its drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oslo_config import cfg

from netfw.conf import agent

L3 = (
    cfg.StrOpt(
        "interface_driver",
        default="openvswitch",
        help="The driver that plugs the ports of routers; its own options are in the group of that "
        "name.",
    ),
    cfg.StrOpt(
        "router_driver",
        default="linux",
        help="The driver that runs routers; its own options are in the group of that name.",
    ),
    cfg.StrOpt(
        "metadata_driver",
        default="haproxy",
        help="The driver that forwards metadata requests of instances to the metadata agent; its "
        "own options are in the group of that name.  Empty: none.",
    ),
    cfg.ListOpt(
        "extensions",
        default=["router_firewall", "port_forwarding", "conntrack_helper", "ndp_proxy"],
        help="L3 extensions, in the order in which packets meet their rules; their own options are "
        "in groups of those names.",
    ),
    cfg.StrOpt(
        "agent_mode",
        default="legacy",
        choices=[
            ("legacy", "whole routers, no part of distributed ones"),
            ("dvr", "of distributed routers, what this host's instances need, with floating IPs"),
            ("dvr_snat", "as dvr, the central parts of distributed routers, and whole routers"),
            ("dvr_no_external", "as dvr, without external networks: floating IPs are central"),
        ],
        help="What this host runs of routers.  All but legacy need a router driver with "
        "distributed routers.",
    ),
    cfg.BoolOpt(
        "enable_inat_enat",
        default=False,
        help="Floating IPs are translated outside this host, by another system: this host has no "
        "floating IP, port forwarding or agent gateway port, and reports none.",
    ),
    cfg.BoolOpt(
        "handle_internal_only_routers",
        default=True,
        help="Run routers without a gateway to an external network, too.",
    ),
    cfg.StrOpt(
        "gateway_external_network_id",
        default="",
        help="The id of the only external network of this host; routers with a gateway on another "
        "one are refused.  Empty: any.",
    ),
    cfg.StrOpt(
        "external_network_bridge",
        default="",
        help="Must be empty: external networks are provider networks on the integration bridge.",
    ),
    cfg.StrOpt(
        "ipv6_gateway",
        default="",
        help="The link-local address of the next hop on external networks whose IPv6 subnets have "
        "no gateway.  Empty: router advertisements on the external network give it.",
    ),
    cfg.BoolOpt(
        "enable_metadata_proxy",
        default=True,
        help="Have instances reach the metadata service through their router.",
    ),
    cfg.PortOpt(
        "metadata_port",
        default=9697,
        min=1,
        help="The port of the metadata proxy in the namespace of a router.",
    ),
    cfg.IntOpt(
        "ha_vrrp_priority",
        default=200,
        min=1,
        max=254,
        help="The priority of this host when the hosts of a highly available router elect the "
        "active one.  An active host is not replaced because another one has a higher priority.  "
        "After a clean stop of the active one, a host takes over within (256 - priority) / 256 "
        "seconds.",
    ),
    cfg.FloatOpt(
        "ha_role_report_interval",
        min=0.0,
        max=60.0,
        help="Seconds in which changes of the roles of highly available routers are collected "
        "before they are reported to the server, so that the election of many routers is one "
        "message.  Not set: one advertisement interval of VRRP, ha_vrrp_advert_int of the router "
        "driver.",
    ),
    cfg.IntOpt(
        "num_sync_threads",
        default=8,
        min=1,
        max=64,
        help="How many routers are processed at the same time.",
    ),
    cfg.StrOpt(
        "availability_zone",
        help="The availability zone of this host, as routers request it.  Not set: none.",
    ),
)

DRIVER_DEFAULTS: Final = {"metadata_proxy_confs": "$state_path/ns-metadata-proxy-l3"}
"""Defaults of driver options that differ from those of the DHCP agent: each agent has files of its
own, which it alone cleans up."""


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the agent's own options, without those of all agents, for the sample generator."""
    return [(agent.GROUP, L3)]
