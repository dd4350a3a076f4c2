"""Build the database from the configuration."""

from __future__ import annotations

from oslo_config.cfg import ConfigOpts

from netfw.server.db.database import Database
from netfw.server.db.engine.engines import (
    Limits,
    create_sqlite_file,
    default_url,
    require_sqlite_file,
)
from netfw.server.db.journal.journal import Retention


def make_database(conf: ConfigOpts, *, create: bool = True) -> Database:
    """Build the database of ``[database]`` without connecting.

    An SQLite file is created if it is missing, or refused where *create* is false.

    :raises ConfigError: the options are not usable.
    """
    options = conf.database
    url = options.connection or default_url(conf.state_path).render_as_string(hide_password=False)
    limits = Limits(
        connections=options.max_pool_size,
        lock_timeout=options.lock_timeout,
        connect_timeout=options.connect_timeout,
    )
    database = Database(url, limits, attempts=options.transaction_attempts)
    if database.is_file:
        option = "[database] connection" if options.connection else "[DEFAULT] state_path"
        prepare = create_sqlite_file if create else require_sqlite_file
        prepare(database.writing.url, option)
    return database


def journal_retention(conf: ConfigOpts) -> Retention:
    """Return the retention of the journal."""
    return Retention(commits=conf.database.journal_commits, age=conf.database.journal_age)
