"""Options of the REST API: its listener, and its limits for clients."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

GROUP = "api"

API = (
    cfg.StrOpt(
        "socket",
        default="/run/netfw/api.sock",
        help="Unix socket of the API; the kernel reports the peer's credentials.  Empty: none.",
    ),
    cfg.StrOpt(
        "socket_mode",
        default="0660",
        regex="^0?[0-7]{3}$",
        help="Permissions of the unix socket.",
    ),
    cfg.ListOpt(
        "bind",
        default=[],
        help="Addresses and ports on which the API is served by TCP, such as 127.0.0.1:9696 or "
        "[::1]:9696.  See [identity] for authentication there.",
    ),
    cfg.URIOpt(
        "public_url",
        schemes=["http", "https"],
        help="URL by which clients reach the API, for the links in answers.  Unless set, links "
        "have the Host header of the request: a cache must not serve them to another client.",
    ),
    cfg.StrOpt(
        "tls_certificate",
        help="File with the server's certificate, and with those that lead to its authority.  "
        "TCP is served with TLS, and only so, when it is set.",
    ),
    cfg.StrOpt("tls_key", help="File with the key of tls_certificate."),
    cfg.StrOpt(
        "tls_client_ca",
        help="File with authorities; a client must have a certificate of one of them.",
    ),
    cfg.IntOpt("threads", default=16, min=1, help="Requests that one process handles at a time."),
    cfg.IntOpt(
        "max_queued_requests",
        default=128,
        min=1,
        help="Requests that wait for a thread.  Beyond them clients get 503 and should retry "
        "later.",
    ),
    cfg.IntOpt(
        "max_connections",
        default=2000,
        min=1,
        help="Connections that one process keeps open between requests.",
    ),
    cfg.FloatOpt(
        "idle_timeout", default=60.0, min=0.1, help="Seconds that a client may be silent."
    ),
    cfg.FloatOpt(
        "read_timeout", default=20.0, min=0.1, help="Seconds that a request may take to arrive."
    ),
    cfg.FloatOpt(
        "write_timeout", default=60.0, min=0.1, help="Seconds that an answer may take to leave."
    ),
    cfg.IntOpt(
        "max_body_size", default=4 * 1024 * 1024, min=1024, help="Bytes of a request's body."
    ),
    cfg.IntOpt(
        "pagination_max_limit",
        default=1000,
        min=0,
        help="Rows in one answer at most; clients follow links to the others.  0: all rows, so "
        "that a list of a large cloud can take gigabytes.",
    ),
    cfg.BoolOpt(
        "live_page",
        default=True,
        help="Serve the live page at /live/.  It shows each user what the API shows to that user.",
    ),
    cfg.IntOpt(
        "live_streams",
        default=64,
        min=0,
        help="Live pages that one process tells of changes at once, a quarter of them of one "
        "project.  Beyond them pages poll.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(GROUP, API)]
