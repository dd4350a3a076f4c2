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
        choices=[
            ("debug", "everything, for the search of a defect"),
            ("info", "what was done"),
            ("warning", "what may need an operator"),
            ("error", "what failed"),
        ],
        mutable=True,
        help="The least severe messages to log.",
    ),
    cfg.StrOpt(
        "log_format",
        default="text",
        choices=[("text", "plain text"), ("json", "one JSON object per line")],
        mutable=True,
        help="The format of log lines.  Both carry the id of the request.",
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
