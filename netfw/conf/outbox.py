"""Options of the outbox: delivery of committed changes to devices and external systems."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

GROUP = "outbox"

OUTBOX = (
    cfg.IntOpt(
        "delivery_threads",
        default=4,
        min=1,
        help="How many networks a process delivers to one device or external system at once.",
    ),
    cfg.FloatOpt(
        "poll_interval",
        default=1.0,
        min=0.01,
        help="Seconds between two polls for what other processes have committed.",
    ),
    cfg.FloatOpt(
        "lease_time",
        default=30.0,
        min=1.0,
        help="Seconds after which another process takes over the deliveries of one that died.",
    ),
    cfg.FloatOpt(
        "retry_interval_max",
        default=60.0,
        min=0.0,
        help="Seconds at most before delivery to a device or system that did not answer is "
        "retried; the pauses begin with one second.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(GROUP, OUTBOX)]
