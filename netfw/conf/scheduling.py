"""Options about agents and what they are given to serve."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

GROUP = "scheduling"

SCHEDULING = (
    cfg.FloatOpt(
        "agent_down_time",
        default=75.0,
        min=1.0,
        help="Seconds of silence, by the clock of the database, after which an agent counts as "
        "dead.  At least twice the report_interval of agents.",
    ),
    cfg.FloatOpt(
        "reschedule_interval",
        default=30.0,
        min=1.0,
        help="Seconds between two looks for what dead agents serve, and for what nobody serves.",
    ),
    cfg.FloatOpt(
        "failover_grace",
        default=40.0,
        min=0.0,
        help="Seconds for which a server itself must have seen an agent be dead before it gives to "
        "others what that one serves.  When the servers or the database were away, all agents "
        "look dead until their next report: longer than their report_interval.",
    ),
    cfg.IntOpt(
        "dhcp_agents_per_network",
        default=1,
        min=1,
        help="How many DHCP agents serve a network.",
    ),
    cfg.IntOpt(
        "max_l3_agents_per_router",
        default=3,
        min=0,
        help="How many L3 agents have a highly available router; 0: all of them.",
    ),
    cfg.BoolOpt(
        "allow_automatic_dhcp_failover",
        default=True,
        help="Give networks of dead DHCP agents to others.",
    ),
    cfg.BoolOpt(
        "allow_automatic_l3agent_failover",
        default=False,
        help="Give plain routers of dead L3 agents to others.  An agent that merely lost its "
        "server still forwards: the addresses of the router would exist twice.",
    ),
    cfg.ListOpt(
        "default_availability_zones",
        default=[],
        help="The zones of networks and routers that name none; empty: any.",
    ),
    cfg.StrOpt(
        "dvr_base_mac",
        default="fa:16:3f:00:00:00",
        regex=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$",
        help="Hosts get MAC addresses that begin with its first three octets, for what distributed "
        "routers send.  They must differ from those of base_mac.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """What the sample generator asks for: groups and their options."""
    return [(GROUP, SCHEDULING)]
