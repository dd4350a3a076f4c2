"""Options that the drivers for Open vSwitch share.  Does no I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg, types

from netfw.ovs.ovsdb.client import DEFAULT_PAUSE, DEFAULT_REMOTE
from netfw.ovs.socket_directory import socket_directory


class Seconds(types.Float):
    """Option type of a finite number of seconds; refuses ``nan`` and ``inf``."""

    def __call__(self, value: object) -> int | float | None:
        seconds = super().__call__(value)
        if seconds is not None and not math.isfinite(seconds):
            raise ValueError(f"not a number of seconds: {value}")
        return seconds


INTEGRATION_BRIDGE = cfg.StrOpt(
    "integration_bridge",
    default="br-int",
    help="Bridge that ports are plugged into; it is made when it does not exist.",
)
OVSDB_CONNECTION = cfg.StrOpt(
    "ovsdb_connection",
    default=DEFAULT_REMOTE,
    help="Where the switch's database listens: unix:PATH, tcp:ADDRESS:PORT or ssl:...",
)
OVSDB_TIMEOUT = cfg.Opt(
    "ovsdb_timeout",
    type=Seconds(min=0.1),
    default=10.0,
    help="Seconds to wait for an answer of the database or an act of the switch.",
)
CONNECTION_OPTIONS: tuple[cfg.Opt, ...] = (
    OVSDB_CONNECTION,
    OVSDB_TIMEOUT,
    cfg.Opt(
        "ovsdb_monitor_respawn_interval",
        type=Seconds(min=0.1, max=3600),
        default=DEFAULT_PAUSE,
        help="Seconds between two attempts to reach a database that went away, at most; the first "
        "attempts come sooner.",
    ),
    cfg.StrOpt(
        "openflow_directory",
        help="Where the bridges' management sockets (BRIDGE.mgmt) are; when not set, beside the "
        "database's socket, or /run/openvswitch.",
    ),
)
"""How to reach the database and the bridges of the switch."""
SHARED_OPTIONS: tuple[cfg.Opt, ...] = (INTEGRATION_BRIDGE, *CONNECTION_OPTIONS)
"""Options that must have the same values for every driver of one switch."""


def openflow_directory(options: Mapping[str, Any]) -> str:
    """Return the directory of the management sockets."""
    return socket_directory(options["ovsdb_connection"], options["openflow_directory"])
