"""Options of the transport, and settings parsed from them.  Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from oslo_config import cfg

from netfw.errors import ConfigError

OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.StrOpt(
        "transport_url",
        secret=True,
        required=True,
        help="The broker: rabbit://USER:PASSWORD@HOST:PORT/VHOST, several as "
        "rabbit://USER:PASSWORD@HOST:PORT,USER:PASSWORD@HOST:PORT/VHOST.  For TLS append "
        "?ssl=1&ssl_ca_file=PATH, for a certificate of this side &ssl_cert_file=PATH"
        "&ssl_key_file=PATH.",
    ),
    cfg.StrOpt(
        "prefix",
        default="netfw",
        help="How the names of exchanges and queues begin; clouds that share a virtual host of "
        "the broker have different ones.",
    ),
    cfg.IntOpt("max_message_size", default=16 << 20, min=4096, max=128 << 20,
               help="Bytes that a message has at most; the broker must take as many."),
    cfg.IntOpt("threads", default=8, min=1, help="Requests that are answered at the same time."),
    cfg.IntOpt("max_queued_requests", default=32, min=0, max=1000,
               help="Requests that wait for a worker at most; more are refused."),
    cfg.IntOpt("heartbeat_timeout", default=30, min=2, max=600,
               help="Seconds of silence after which a broker counts as gone."),
    cfg.FloatOpt("connect_timeout", default=5.0, min=0.1, max=600.0,
                 help="Seconds in which a broker must accept a connection."),
    cfg.FloatOpt("reconnect_interval", default=0.2, min=0.01, max=600.0,
                 help="Seconds until a lost broker is tried again; each further pause is twice as "
                 "long."),
    cfg.FloatOpt("reconnect_interval_max", default=3.0, min=0.01, max=600.0,
                 help="Seconds that such a pause takes at most."),
)  # fmt: skip


@frozen(kw_only=True)
class Settings:
    """Validated options."""

    url: str
    prefix: str = "netfw"
    max_message_size: int = 16 << 20
    threads: int = 8
    max_queued_requests: int = 32
    heartbeat_timeout: int = 30
    connect: float = 5.0
    pause: float = 0.2
    pause_max: float = 3.0


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Parse *options*.

    :raises ConfigError: the URL is not one of RabbitMQ.
    """
    url: str = options["transport_url"]
    if not url.startswith("rabbit://"):
        kind = url.partition(":")[0][:20]
        raise ConfigError(f"transport_url: {kind!r} is not known: write rabbit://USER:PASSWORD@...")
    return Settings(
        url=url,
        prefix=options["prefix"],
        max_message_size=options["max_message_size"],
        threads=options["threads"],
        max_queued_requests=options["max_queued_requests"],
        heartbeat_timeout=options["heartbeat_timeout"],
        connect=options["connect_timeout"],
        pause=options["reconnect_interval"],
        pause_max=options["reconnect_interval_max"],
    )
