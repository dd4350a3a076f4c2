"""Options of the DHCP agent, beside those of its drivers."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from netfw.conf import agent

COMMON = tuple(option for option in agent.COMMON if option.name != "retry_interval_max")
"""Common options of agents; here ``resync_interval`` limits the pause between attempts."""

DHCP = (
    cfg.StrOpt(
        "interface_driver",
        default="openvswitch",
        help="The driver that plugs the ports from which networks are served; its own options are "
        "in the group of that name.",
    ),
    cfg.StrOpt(
        "dhcp_driver",
        default="dnsmasq",
        help="The driver that serves DHCP; its own options are in the group of that name.",
    ),
    cfg.StrOpt(
        "metadata_driver",
        default="haproxy",
        help="The driver that forwards metadata requests of instances to the metadata agent; its "
        "own options are in the group of that name.  Empty: none.",
    ),
    cfg.IntOpt(
        "num_sync_threads",
        default=4,
        min=1,
        max=64,
        help="How many networks are processed at the same time.",
    ),
    cfg.FloatOpt(
        "resync_interval",
        default=5.0,
        min=0.1,
        help="Seconds between two attempts of what failed, at most.",
    ),
    cfg.BoolOpt(
        "force_metadata",
        default=False,
        help="Have instances of every network that is served reach the metadata service through "
        "its DHCP server, also where a router would lead them there.",
    ),
    cfg.BoolOpt(
        "enable_isolated_metadata",
        default=False,
        help="Have instances reach the metadata service through the DHCP server of their network "
        "where no router is the gateway of their subnet.",
    ),
    cfg.BoolOpt(
        "enable_metadata_network",
        default=False,
        help="Serve metadata on networks with addresses of 169.254.0.0/16 to the one router that "
        "is connected to each, and to what is behind it.",
    ),
    cfg.StrOpt(
        "availability_zone",
        help="The availability zone of this host, as networks request it.  Not set: none.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the agent's own options, without those of all agents, for the sample generator."""
    return [(agent.GROUP, DHCP)]
