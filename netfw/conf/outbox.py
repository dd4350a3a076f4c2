"""Options about telling devices and outside parties of what was committed."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

GROUP = "outbox"

OUTBOX = (
    cfg.IntOpt(
        "outbox_workers",
        default=4,
        min=1,
        help="How many networks a process tells one device or outside party of at once.",
    ),
    cfg.FloatOpt(
        "outbox_poll",
        default=1.0,
        min=0.01,
        help="Seconds between two looks for what other processes have committed.",
    ),
    cfg.FloatOpt(
        "outbox_lease",
        default=30.0,
        min=1.0,
        help="Seconds after which another process goes on where one died.",
    ),
    cfg.FloatOpt(
        "outbox_longest_pause",
        default=60.0,
        min=0.0,
        help="Seconds at most before a device or party that did not answer is told again; the "
        "pauses begin with one second.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """What the sample generator asks for: groups and their options."""
    return [(GROUP, OUTBOX)]
