"""Moving a database from one version of its tables to another.

alembic is imported where something is to be moved: a server whose tables are as they should be
does not hold it in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect

from netfw.errors import BackendBroken, InvalidInput
from netfw.server.db.database import Database
from netfw.server.db.engine.errors import FAILURES, translate_error
from netfw.server.db.schema.tables import JOURNAL_HEAD

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

NEWEST, NOTHING = "head", "base"
VERSION_TABLE = "netfw_version"
TABLES = JOURNAL_HEAD.metadata
MIGRATIONS = Path(__file__).with_name("migrations")

PATIENCE = 600
"""Seconds to wait for somebody else who moves the tables."""
LOCK = 0x6E65746677
"""The number of PostgreSQL's lock: ``netfw``."""

Steps = Callable[["ScriptDirectory", Any, str], Any]


def newest() -> str:
    """The version that this release of netfw works with."""
    files = (MIGRATIONS / "versions").glob("v[0-9]*_*.py")
    return max(file.name.partition("_")[0] for file in files).removeprefix("v")


def current(database: Database) -> str | None:
    """The version that the tables have; ``None``: there are none.

    :raises BackendUnavailable: the database does not answer.
    """
    with _connection(database) as connection:
        if not inspect(connection).has_table(VERSION_TABLE):
            return None
        found = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    return None if found is None else str(found)


def upgrade(database: Database, to: str = NEWEST) -> None:
    """Bring the tables forward to a version; what is there already is left alone.

    :raises InvalidInput: there is no such version, or it is behind.
    :raises BackendBroken: the database refused; on MariaDB a part may be done.
    """
    if to != NEWEST or current(database) != newest():
        _migrate(database, to, lambda scripts, revision, to: scripts._upgrade_revs(to, revision))


def downgrade(database: Database, to: str) -> None:
    """Bring the tables back to a version, ``base`` for nothing at all; what they held is lost.

    :raises InvalidInput: there is no such version, or it is ahead.
    :raises BackendBroken: the database refused; on MariaDB a part may be done.
    """
    _migrate(database, to, lambda scripts, revision, to: scripts._downgrade_revs(to, revision))


def differences(database: Database) -> tuple[str, ...]:
    """In what the tables differ from those that this release works with; a sentence for each.

    :raises BackendUnavailable: the database does not answer.
    """
    from alembic.autogenerate import compare_metadata

    with _connection(database) as connection:
        found = compare_metadata(_context(connection), TABLES)
    return tuple(_told(each) for each in found)


def _migrate(database: Database, to: str, steps: Steps) -> None:
    from alembic.runtime.environment import EnvironmentContext
    from alembic.util import CommandError

    scripts = _scripts()

    def chosen(revision: Any, _: object) -> Any:
        return steps(scripts, revision, to)

    with _connection(database) as connection, _alone(connection):
        environment = EnvironmentContext(_config(), scripts, fn=chosen)
        try:
            with environment:
                environment.configure(connection=connection, **_options())
                environment.run_migrations()
        except CommandError as exc:
            raise InvalidInput({"version": str(exc)}) from exc
        connection.commit()


@contextmanager
def _connection(database: Database) -> Iterator[Connection]:
    """One connection whose transaction holds all steps, where the database has such."""
    try:
        with database.writing.connect() as connection:
            yield connection
    except FAILURES as exc:
        raise translate_error(exc) from exc


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Wait for others who move the same tables, and have others wait.

    A transaction that writes has all of SQLite from its beginning, and PostgreSQL's lock ends with
    it.
    """
    name = connection.dialect.name
    connection.exec_driver_sql("SELECT 1")
    if name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{PATIENCE}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")
    if name not in ("mysql", "mariadb"):
        yield
        return
    lock = f"CONCAT(DATABASE(), '.{VERSION_TABLE}')"
    connection.exec_driver_sql(f"SELECT GET_LOCK({lock}, {PATIENCE})")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"SELECT RELEASE_LOCK({lock})")


def _context(connection: Connection) -> MigrationContext:
    from alembic.runtime.migration import MigrationContext

    return MigrationContext.configure(connection, opts=_options())


def _options() -> dict[str, Any]:
    return {
        "target_metadata": TABLES,
        "version_table": VERSION_TABLE,
        "transactional_ddl": False,  # the transaction around all steps is ours
        "compare_type": True,
    }


def _scripts() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def _told(difference: Any) -> str:
    """alembic tells a difference as a tuple, or as a list of them where they are of one column."""
    if isinstance(difference, list):
        return "; ".join(map(_told, difference))
    what, *about = difference
    names = [getattr(each, "name", each) for each in about]
    return f"{what.replace('_', ' ')}: {' '.join(str(name) for name in names if name is not None)}"


def require_newest(database: Database) -> None:
    """Refuse to go on with tables of another version.

    :raises BackendBroken: saying what to do.
    """
    found, wanted = current(database), newest()
    if found != wanted:
        raise BackendBroken(
            f"the database has version {found or 'none'} of its tables, this netfw needs {wanted}: "
            "run `netfw-db upgrade`"
        )
