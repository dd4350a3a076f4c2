"""Options of agents and of the scheduling of resources to them."""

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
    cfg.ListOpt(
        "further_agent_types",
        default=[],
        help="Types of agents that may register besides those of netfw, such as the L2 agents of a "
        "vendor.  Agents of unknown types are refused.",
    ),
    cfg.FloatOpt(
        "reschedule_interval",
        default=30.0,
        min=1.0,
        help="Seconds between two scans for what dead agents serve, and for what no agent serves.",
    ),
    cfg.FloatOpt(
        "failover_grace",
        default=40.0,
        min=0.0,
        help="Seconds for which a server itself must have seen an agent as dead before it "
        "reschedules what that agent serves.  After an outage of the servers or the database all "
        "agents look dead until their next report: longer than their report_interval.",
    ),
    cfg.IntOpt(
        "dhcp_agents_per_network",
        default=1,
        min=1,
        help="How many DHCP agents serve a network.",
    ),
    cfg.BoolOpt(
        "distributed_dhcp",
        default=False,
        help="Every host answers DHCP for its own ports, by the extension `dhcp` of the L2 agents. "
        "A network has one DHCP port, which is on no host, and gets no DHCP agents.",
    ),
    cfg.IntOpt(
        "max_l3_agents_per_router",
        default=3,
        min=0,
        help="How many L3 agents serve a highly available router; 0: all of them.",
    ),
    cfg.BoolOpt(
        "allow_automatic_dhcp_failover",
        default=True,
        help="Reschedule networks of dead DHCP agents to others.",
    ),
    cfg.BoolOpt(
        "allow_automatic_l3agent_failover",
        default=False,
        help="Reschedule plain routers of dead L3 agents to others.  An agent that merely lost its "
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
    """Return groups and their options, for the sample generator."""
    return [(GROUP, SCHEDULING)]
