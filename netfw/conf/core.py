"""Options that every netfw process has."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from oslo_config import cfg

from netfw.conf.paths import STATE_PATH
from netfw.conf.tracing import GROUP, TRACING

CORE = (
    cfg.StrOpt(
        "host",
        default=socket.gethostname(),
        sample_default="the machine's host name",
        help="Name of this host, as ports are bound to it and agents report it.",
    ),
    cfg.StrOpt(
        "state_path",
        default=STATE_PATH,
        help="Directory of state that must outlive a process, such as pid files of its helpers.",
    ),
)

LOGGING = (
    cfg.StrOpt(
        "log_level",
        default="info",
        choices=["debug", "info", "warning", "error"],
        mutable=True,
        help="The least severe messages to log.",
    ),
    cfg.StrOpt(
        "log_format",
        default="text",
        choices=["text", "json"],
        mutable=True,
        help="Plain text, or one JSON object per line.  Both carry the id of the request.",
    ),
    cfg.StrOpt(
        "log_file",
        mutable=True,
        help="File to log to, opened again on reload; standard error when not set.",
    ),
    cfg.DictOpt(
        "log_levels",
        default={},
        mutable=True,
        help="Levels of single loggers, such as netfw.ovs:debug,netfw.linux:info.",
    ),
)


def list_opts() -> list[tuple[str | None, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(None, [*CORE, *LOGGING]), (GROUP, TRACING)]
