"""Options of the L2 agent, beside those of its drivers."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from netfw.conf import agent

L2 = (
    cfg.StrOpt(
        "switch_driver",
        default="openvswitch",
        help="The driver that joins ports to their networks; its own options are in the group of "
        "that name.",
    ),
    cfg.StrOpt(
        "firewall_driver",
        default="",
        help="The driver that filters ports, which then carry nothing before their filters are "
        "installed; its own options are in the group of that name, and what is not set there is as "
        "in the group of the switch driver, if it has such an option.  Empty: nothing is filtered.",
    ),
    cfg.StrOpt(
        "hybrid_firewall_driver",
        default="",
        help="The driver that goes on filtering ports which are still plugged through a Linux "
        "bridge of their own (qvo...), while the host moves to a firewall_driver in the switch.  "
        "A port moves when it is plugged anew.  Empty: firewall_driver filters all ports.",
    ),
    cfg.ListOpt(
        "retired_firewall_drivers",
        default=[],
        help="Drivers that filtered this host before: what they left is removed once all "
        "ports are wired as firewall_driver says.  To be removed from the file some time later.",
    ),
    cfg.ListOpt(
        "extensions",
        default=[],
        help="Extensions, in the order in which packets meet their flows; their own options are in "
        "groups of those names.",
    ),
    cfg.BoolOpt(
        "l2_population",
        default=False,
        help="Make tunnels and forwarding entries for exactly the ports that the source reports on "
        "other hosts, instead of meshing, flooding and learning.",
    ),
    cfg.BoolOpt(
        "enable_distributed_routing",
        default=False,
        help="Take part in distributed routing: have an instance of each distributed router that "
        "ports of this host use, and a MAC address of this host for what they send to other hosts, "
        "which the source allocates.  Over tunnels it needs l2_population.",
    ),
    cfg.BoolOpt(
        "prevent_arp_spoofing",
        default=True,
        help="Let the switch prevent ports with port security from using addresses of others, "
        "where the firewall driver does not.",
    ),
    cfg.BoolOpt(
        "minimize_polling",
        default=True,
        help="Trust the switch's announcements of new and changed ports.  Off: scan all of "
        "them every polling_interval, too.",
    ),
    cfg.FloatOpt(
        "polling_interval",
        default=2.0,
        min=0.1,
        mutable=True,
        help="Seconds between two scans of all ports, where announcements are not trusted or the "
        "switch driver has none.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, without those of drivers, for the sample generator."""
    return [(agent.GROUP, (*agent.COMMON, *L2))]
