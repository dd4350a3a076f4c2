"""Options of the driver, and settings parsed from them.  Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import field, frozen
from oslo_config import cfg

from netfw.conf.paths import STATE_PATH, absolute_path
from netfw.errors import ConfigError, InvalidInput
from netfw.linux.process.supervised_program import OnDeath
from netfw.model.values.address import Mac
from netfw.model.values.ids import RouterId
from netfw_drivers.linux_router.config.conntrackd import ConntrackdSettings, path_problem
from netfw_drivers.linux_router.config.keepalived import VrrpSettings
from netfw_drivers.linux_router.plan.names import CentralPart, config_path

OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.StrOpt(
        "router_confs",
        default="$state_path/routers",
        help="Directory for the configurations and pid files of routers' processes.  What is in "
        "there belongs to one agent, which locks it.",
    ),
    cfg.StrOpt(
        "iptables_tool",
        default="system",
        choices=[
            ("system", "the one that the system chose"),
            ("nft", "iptables-nft"),
            ("legacy", "iptables-legacy"),
        ],
        help="Which iptables: the one the system chose, or one of the two by name.",
    ),
    cfg.BoolOpt(
        "use_random_fully",
        default=False,
        help="Translate source ports to random ones, instead of preserving them where they are "
        "free.  Fewer collisions with many connections to one destination.",
    ),
    cfg.StrOpt(
        "radvd_user",
        help="User that radvd runs as once it has its sockets; when not set, the user of the "
        "agent.  It must be able to read the files in router_confs.",
    ),
    cfg.IntOpt(
        "announce_count",
        default=3,
        min=1,
        max=100,
        help="How many times, a second apart, new addresses are announced to the neighbours "
        "(gratuitous ARP, unsolicited neighbour advertisement).",
    ),
    cfg.IntOpt(
        "announce_interval",
        default=180,
        min=0,
        help="Seconds between two announcements of the addresses of all interfaces; 0: only new "
        "addresses are announced.",
    ),
    cfg.StrOpt(
        "announce_mac",
        help="Destination MAC address of gratuitous ARPs; when not set, broadcast.",
    ),
    cfg.StrOpt(
        "check_child_process_action",
        default="respawn",
        choices=[("respawn", "start it again"), ("exit", "end the agent")],
        help="When a radvd, keepalived, conntrackd or dhclient dies: start it again, or end the "
        "agent.",
    ),
    cfg.IntOpt(
        "check_child_process_interval",
        default=60,
        min=1,
        help="Seconds between two attempts to restart a radvd, keepalived, conntrackd or dhclient "
        "that died, at most.",
    ),
    cfg.IntOpt(
        "ha_vrrp_advert_int",
        default=2,
        min=1,
        max=60,
        help="Seconds between two VRRP advertisements of a highly available router.  A host that "
        "misses three in a row takes over.  The same on all hosts.",
    ),
    cfg.StrOpt(
        "ha_vrrp_auth_type",
        default="PASS",
        choices=[("PASS", "the password is sent"), ("AH", "advertisements are signed with it")],
        help="How advertisements are authenticated when there is a password: PASS sends the "
        "password, AH signs with it.  The same on all hosts.",
    ),
    cfg.StrOpt(
        "ha_vrrp_auth_password",
        secret=True,
        help="Password of VRRP, 1 to 8 letters, digits, dots, dashes or underscores; when not "
        "set, advertisements are not authenticated.  The same on all hosts.",
    ),
    cfg.IntOpt(
        "ha_vrrp_garp_master_delay",
        default=1,
        min=1,
        max=60,
        help="Seconds after which a router that became active announces its addresses again.",
    ),
    cfg.IntOpt(
        "ha_vrrp_garp_master_repeat",
        default=5,
        min=1,
        max=100,
        help="How many times it announces them (gratuitous ARP, unsolicited neighbour "
        "advertisement), at once and again after ha_vrrp_garp_master_delay.",
    ),
    cfg.IntOpt(
        "ha_vrrp_garp_master_refresh",
        default=180,
        min=0,
        help="Seconds between two announcements of all addresses of an active router; 0: never "
        "again.",
    ),
    cfg.BoolOpt(
        "ha_vrrp_unicast",
        default=False,
        help="Send advertisements to the addresses of the other hosts, instead of by multicast on "
        "the HA network.  The same on all hosts.",
    ),
    cfg.BoolOpt(
        "ha_conntrackd_enabled",
        default=False,
        help="Run conntrackd beside keepalived, so that established TCP, SCTP and DCCP "
        "connections through a highly available router survive a failover.  The same on all "
        "hosts.",
    ),
    cfg.IntOpt(
        "ha_conntrackd_hashsize",
        default=32768,
        min=1,
        max=1 << 24,
        help="Buckets of the table in which a conntrackd has the connections of its router.",
    ),
    cfg.IntOpt(
        "ha_conntrackd_hashlimit",
        default=131072,
        min=1,
        max=1 << 24,
        help="Largest number of connections of a router that survive a failover.",
    ),
)


@frozen(kw_only=True)
class RouterSettings:
    """Settings of the driver."""

    directory: Path = Path(STATE_PATH) / "routers"
    iptables: str = "system"
    """``system``, ``nft`` or ``legacy``."""
    random_fully: bool = False
    radvd_user: str | None = None
    announce_count: int = 3
    announce_interval: int = 180
    announce_mac: Mac | None = None
    on_death: OnDeath = OnDeath.RESPAWN
    check_interval: float = 60.0
    vrrp: VrrpSettings = field(factory=VrrpSettings)
    conntrackd: ConntrackdSettings | None = None
    """None: it is not run."""


def read_settings(options: Mapping[str, Any]) -> RouterSettings:
    """Parse the values of `OPTIONS`.

    :raises ConfigError: a value that cannot be.
    """
    try:
        mac = options["announce_mac"]
        announce_mac = None if mac is None else Mac(mac)
    except ValueError as error:
        raise ConfigError(f"announce_mac: {error}") from error
    directory = absolute_path("router_confs", options["router_confs"])
    return RouterSettings(
        directory=directory,
        iptables=options["iptables_tool"],
        random_fully=options["use_random_fully"],
        radvd_user=options["radvd_user"],
        announce_count=options["announce_count"],
        announce_interval=options["announce_interval"],
        announce_mac=announce_mac,
        on_death=OnDeath(options["check_child_process_action"]),
        check_interval=options["check_child_process_interval"],
        vrrp=_read_vrrp(options),
        conntrackd=_read_conntrackd(options, directory),
    )


def _read_conntrackd(options: Mapping[str, Any], directory: Path) -> ConntrackdSettings | None:
    if not options["ha_conntrackd_enabled"]:
        return None
    longest = CentralPart(RouterId(UUID(int=0)))
    if why := path_problem(config_path(directory, "conntrackd", longest)):
        raise ConfigError(
            f"router_confs: {why}; name another directory, or set ha_conntrackd_enabled to false"
        )
    return ConntrackdSettings(
        hash_size=options["ha_conntrackd_hashsize"],
        hash_limit=options["ha_conntrackd_hashlimit"],
    )


def _read_vrrp(options: Mapping[str, Any]) -> VrrpSettings:
    try:
        return VrrpSettings(
            advert_int=options["ha_vrrp_advert_int"],
            auth_type=options["ha_vrrp_auth_type"],
            auth_password=options["ha_vrrp_auth_password"],
            garp_master_delay=options["ha_vrrp_garp_master_delay"],
            garp_master_repeat=options["ha_vrrp_garp_master_repeat"],
            garp_master_refresh=options["ha_vrrp_garp_master_refresh"],
            unicast=options["ha_vrrp_unicast"],
        )
    except InvalidInput as error:
        problems = (f"ha_vrrp_{name}: {problem}" for name, problem in error.problems.items())
        raise ConfigError("; ".join(problems)) from error
