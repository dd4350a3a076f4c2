"""Options of the driver, and settings parsed from them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from oslo_config import cfg

from netfw.conf.metadata_agent import SOCKET
from netfw.conf.paths import absolute_path, in_state_path
from netfw.errors import ConfigError
from netfw.linux.process.supervised_program import OnDeath

SOCKET_PATH_LENGTH = 107
"""Limit of the kernel for the path of a unix socket."""

OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.StrOpt(
        "metadata_proxy_socket",
        default=SOCKET,
        help="The unix socket of this host's metadata agent.",
    ),
    cfg.StrOpt(
        "metadata_proxy_confs",
        default="$state_path/ns-metadata-proxy",
        help="Directory for the proxies' configurations and pid files.  Each agent that runs "
        "proxies needs one of its own: what is in there is its own to clean up.  The default of "
        "the L3 agent is $state_path/ns-metadata-proxy-l3.",
    ),
    cfg.StrOpt(
        "metadata_proxy_user",
        help="User, by name or number, that proxies run as once they listen; when not set, "
        "haproxy, or nobody where there is no such user.  It must be able to connect to "
        "metadata_proxy_socket; the metadata agent has an option of the same name.",
    ),
    cfg.StrOpt(
        "metadata_proxy_group",
        help="Group, by name or number, that proxies run as; when not set, the first group of "
        "metadata_proxy_user.  They have no other group.",
    ),
    cfg.StrOpt(
        "metadata_proxy_log_file",
        help="File that all proxies append to, instead of syslog.  Rotate it by copying "
        "(copytruncate): they keep it open.",
    ),
    cfg.StrOpt(
        "metadata_proxy_syslog",
        default="/dev/log",
        help="Where syslog listens: the path of its socket, or ADDRESS:PORT for UDP.  Empty, and "
        "without a log file, proxies log nothing.",
    ),
    cfg.StrOpt(
        "metadata_proxy_log_level",
        default="notice",
        choices=[
            ("err", "requests that failed"),
            ("notice", "these, and messages about the proxy itself"),
            ("info", "all requests"),
        ],
        help="The least severe messages to log: err has requests that failed, info has all.",
    ),
    cfg.IntOpt(
        "metadata_proxy_maxconn",
        default=1024,
        min=1,
        max=65536,
        help="How many connections a proxy has at once; more wait.",
    ),
    cfg.IntOpt(
        "metadata_proxy_request_timeout",
        default=10,
        min=1,
        help="Seconds within which an instance must have sent its request, and the next one on a "
        "connection that stays open.",
    ),
    cfg.IntOpt(
        "metadata_proxy_answer_timeout",
        default=60,
        min=1,
        help="Seconds within which the metadata agent must answer.",
    ),
    cfg.BoolOpt(
        "rate_limit_enabled",
        default=False,
        help="Whether an address that sends too many requests is refused (status 429).",
    ),
    cfg.IntOpt(
        "base_window_duration", default=10, min=1, help="Seconds over which requests are counted."
    ),
    cfg.IntOpt(
        "base_query_rate_limit",
        default=10,
        min=1,
        help="How many requests an address has in base_window_duration.",
    ),
    cfg.IntOpt(
        "burst_window_duration",
        default=10,
        min=1,
        help="Seconds over which requests are counted besides, for bursts.",
    ),
    cfg.IntOpt(
        "burst_query_rate_limit",
        default=10,
        min=1,
        help="How many requests an address has in burst_window_duration.",
    ),
    cfg.StrOpt(
        "check_child_process_action",
        default="respawn",
        choices=[("respawn", "start it again"), ("exit", "end the agent")],
        help="What to do when a proxy dies: start it again, or let the agent end.",
    ),
)


@frozen
class Window:
    """Limit of requests of one address within a number of seconds."""

    seconds: int
    requests: int


@frozen(kw_only=True)
class Settings:
    """Validated options."""

    socket: str
    directory: Path
    user: str | None = None
    group: str | None = None
    log_file: Path | None = None
    syslog: str | None = None
    log_level: str = "notice"
    maxconn: int = 1024
    request_timeout: int = 10
    answer_timeout: int = 60
    windows: tuple[Window, ...] = ()
    """Limits that all apply to an address."""
    ipv6: bool = True
    """Whether this host has IPv6; without it, instances without IPv4 are not served."""
    on_death: OnDeath = field(default=OnDeath.RESPAWN, converter=OnDeath)


def read_settings(options: Mapping[str, Any]) -> Settings:
    """Parse checked option values.

    :raises ConfigError: a path is invalid, or haproxy could misread it.
    """
    log_file = _path(options, "metadata_proxy_log_file")
    socket = _path(options, "metadata_proxy_socket")
    directory = _path(options, "metadata_proxy_confs")
    if socket is None or directory is None:
        raise ConfigError("metadata_proxy_socket and metadata_proxy_confs: neither may be empty")
    if len(socket.encode()) > SOCKET_PATH_LENGTH:
        raise ConfigError(
            f"metadata_proxy_socket: {socket} is longer than the {SOCKET_PATH_LENGTH} bytes that "
            "the kernel takes"
        )
    return Settings(
        socket=socket,
        directory=Path(directory),
        user=_word(options, "metadata_proxy_user"),
        group=_word(options, "metadata_proxy_group"),
        log_file=Path(log_file) if log_file else None,
        syslog=_word(options, "metadata_proxy_syslog"),
        log_level=options["metadata_proxy_log_level"],
        maxconn=options["metadata_proxy_maxconn"],
        request_timeout=options["metadata_proxy_request_timeout"],
        answer_timeout=options["metadata_proxy_answer_timeout"],
        windows=_windows(options),
        on_death=options["check_child_process_action"],
    )


def _windows(options: Mapping[str, Any]) -> tuple[Window, ...]:
    if not options["rate_limit_enabled"]:
        return ()
    found = [
        Window(options[f"{name}_window_duration"], options[f"{name}_query_rate_limit"])
        for name in ("base", "burst")
    ]
    return tuple(dict.fromkeys(found))


def _path(options: Mapping[str, Any], name: str) -> str | None:
    path = _word(options, name)
    return None if path is None else str(absolute_path(name, path))


def _word(options: Mapping[str, Any], name: str) -> str | None:
    """Return a value that can stand between quotes in a configuration."""
    text: str | None = options[name]
    if not text:
        return None
    if "'" in text or not text.isprintable():
        raise ConfigError(f"{name}: {text!r} has a quote or a control character in it")
    return in_state_path(text)
