"""The database that the configuration names."""

from __future__ import annotations

from oslo_config.cfg import ConfigOpts

from netfw.server.db.database import Database
from netfw.server.db.engine.engines import Limits, create_sqlite_file, default_url
from netfw.server.db.journal.journal import Retention


def make_database(conf: ConfigOpts) -> Database:
    """The database of the group ``database``; nothing is connected yet, but an SQLite file is made.

    :raises ConfigError: what is named there cannot be used.
    """
    options = conf.database
    url = options.connection or default_url(conf.state_path).render_as_string(hide_password=False)
    limits = Limits(connections=options.connections, lock_timeout=options.lock_timeout)
    database = Database(url, limits, attempts=options.attempts)
    if database.is_file:
        option = "[database] connection" if options.connection else "[DEFAULT] state_path"
        create_sqlite_file(database.writing.url, option)
    return database


def journal_retention(conf: ConfigOpts) -> Retention:
    """How much of the past the journal keeps."""
    return Retention(commits=conf.database.journal_commits, age=conf.database.journal_age)
