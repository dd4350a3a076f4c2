"""Options of the server's database."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

GROUP = "database"

DATABASE = (
    cfg.StrOpt(
        "connection",
        secret=True,
        sample_default="sqlite:///STATE_PATH/netfw.db",
        help="Where the database is: sqlite:///PATH, postgresql://USER:PASSWORD@HOST/NAME or "
        "mariadb://USER:PASSWORD@HOST/NAME.  Several servers may share one.",
    ),
    cfg.IntOpt(
        "max_pool_size",
        default=10,
        min=1,
        help="Connections for reading, and as many for writing, that one process keeps at most.",
    ),
    cfg.FloatOpt(
        "lock_timeout",
        default=10.0,
        min=0.1,
        help="Seconds that a transaction waits for what another one holds, or for a connection "
        "of this process to be free; after twice that it is not retried.",
    ),
    cfg.IntOpt(
        "connect_timeout",
        default=10,
        min=2,
        help="Seconds in which PostgreSQL or MariaDB must accept a connection.",
    ),
    cfg.IntOpt(
        "transaction_attempts",
        default=20,
        min=1,
        help="Attempts of a transaction that the database refuses because of another one.",
    ),
    cfg.IntOpt(
        "journal_commits",
        default=100_000,
        min=1,
        help="Changes that are kept at least, for agents that were disconnected.  One that missed "
        "more reads everything anew.",
    ),
    cfg.FloatOpt(
        "journal_age",
        default=86_400.0,
        min=0.0,
        help="Seconds for which changes are kept, even if there are more of them.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(GROUP, DATABASE)]
