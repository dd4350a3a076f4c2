"""Options of the server as a process."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg, types

GROUP = "server"

SERVER = (
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        help="Processes that share the listening sockets.  One serves all by itself; several use "
        "more cores, and need no more configuration.",
    ),
    cfg.ListOpt(
        "serve",
        default=["api", "messages"],
        item_type=types.String(choices=["api", "messages"]),
        help="What this server does: api answers clients, messages answers agents.  The two may "
        "run apart, on several machines, over one database.",
    ),
    cfg.StrOpt(
        "transport",
        default="socket",
        help="What carries messages between server and agents, by the name of the transport; its "
        "own options are in the group of that name.",
    ),
    cfg.FloatOpt(
        "graceful_shutdown_timeout",
        default=10.0,
        min=0.0,
        help="Seconds that requests have to finish when the server stops.",
    ),
    cfg.BoolOpt(
        "upgrade_database",
        default=True,
        help="Make the tables of an SQLite file that has none, or bring them forward, at start.  "
        "Other databases are brought forward by `netfw-db upgrade` alone.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(GROUP, SERVER)]
