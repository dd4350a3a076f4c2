"""Schema migrations.

alembic is imported only to migrate: a server with a current schema does not hold it in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import Connection, Engine, inspect, update

from netfw.errors import BackendBroken, BackendUnavailable, Conflict, InvalidInput
from netfw.server.db.database import Database
from netfw.server.db.engine.errors import FAILURES, translate_error
from netfw.server.db.schema.tables import JOURNAL_HEAD

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext, MigrationInfo
    from alembic.script import ScriptDirectory

NEWEST, NOTHING = "head", "base"
VERSION_TABLE = "netfw_version"
TABLES = JOURNAL_HEAD.metadata
MIGRATIONS = Path(__file__).with_name("migrations")

LOCK_TIMEOUT = 600
"""Seconds to wait for a concurrent migration."""
LOCK = 0x6E65746677
"""The key of PostgreSQL's advisory lock: ``netfw``."""

Steps = Callable[["ScriptDirectory", Any, str], Any]
OnStep = Callable[[str], None]


def _ignore(version: str) -> None:
    """Do nothing; the default of ``on_step``."""


def newest() -> str:
    """Return the schema version of this release."""
    return max(_versions())


def _versions() -> Iterator[str]:
    for file in (MIGRATIONS / "versions").glob("v[0-9]*_*.py"):
        yield file.name.partition("_")[0].removeprefix("v")


def current(database: Database) -> str | None:
    """Return the schema version of the database, or ``None`` without tables.

    :raises BackendUnavailable: the database does not answer.
    """
    with _connection(database.reading) as connection:
        return _version(connection)


def upgrade(database: Database, to: str = NEWEST, on_step: OnStep = _ignore) -> None:
    """Upgrade the schema to a version.  Idempotent.

    *on_step* is called with each version on the way when it is reached.

    :raises InvalidInput: the version does not exist, or is older.
    :raises BackendBroken: the database refused; on MariaDB a part may be done.  Or its version is
        newer than this release.
    """
    if to != NEWEST or current(database) != newest():
        _migrate(database, to, _upgrade_steps, on_step)


def downgrade(database: Database, to: str, on_step: OnStep = _ignore) -> None:
    """Downgrade the schema to a version, ``base`` for none; removed columns lose their data.

    *on_step* is called with each version on the way when it was left.

    :raises InvalidInput: the version does not exist, or is newer.
    :raises Conflict: that version cannot have some rows; nothing is done.
    :raises BackendBroken: the database refused; on MariaDB a part may be done.  Or its version is
        newer than this release.
    """
    _migrate(
        database,
        to,
        lambda scripts, revision, to: scripts._downgrade_revs(to, revision),
        on_step,
    )


def differences(database: Database) -> tuple[str, ...]:
    """Return a sentence for each difference between the tables and the schema of this release.

    :raises BackendUnavailable: the database does not answer.
    """
    from alembic.autogenerate import compare_metadata

    with _connection(database.reading) as connection:
        found = compare_metadata(_context(connection), TABLES)
    return tuple(_describe(each) for each in found)


def _migrate(database: Database, to: str, steps: Steps, on_step: OnStep) -> None:
    from alembic.runtime.environment import EnvironmentContext
    from alembic.util import CommandError

    _refuse_newer(current(database))
    scripts = _scripts()

    with _connection(database.writing) as connection, _migration_lock(connection):
        found: list[Any] = []

        def chosen(revision: Any, _: object) -> Any:
            found.extend(steps(scripts, revision, to))
            if to != NOTHING:
                _check_downgrades(connection, found)
            return found

        def report(*, step: MigrationInfo, **_: object) -> None:
            if not _has_transactional_ddl(connection):
                _start_epoch(connection)
                connection.commit()
            on_step(str(step.up_revision_id))

        environment = EnvironmentContext(_config(), scripts, fn=chosen)
        try:
            with environment:
                environment.configure(connection=connection, on_version_apply=report, **_options())  # type: ignore[arg-type]
                environment.run_migrations()
        except CommandError as exc:
            known = f"{min(_versions())} to {newest()}, and {NOTHING} for none"
            text = f"{exc}; the versions of this release are {known}"
            raise InvalidInput({"version": text}) from exc
        if found:
            _start_epoch(connection)
        connection.commit()


def _upgrade_steps(scripts: ScriptDirectory, present: Any, to: str) -> Any:
    """Return the steps to *to*.

    :raises InvalidInput: the *present* version is newer, from which alembic has no steps either.
    """
    steps = scripts._upgrade_revs(to, present)
    wanted = {each.revision for each in scripts.get_revisions(to)}
    if present and not steps and wanted.isdisjoint(present):
        text = (
            f"the database has version {', '.join(present)}, which is newer than {to}; run "
            f"`netfw-db downgrade {to}` to bring it back"
        )
        raise InvalidInput({"version": text})
    return steps


def _has_transactional_ddl(connection: Connection) -> bool:
    """Return whether all steps are one transaction; otherwise each is committed alone, with its
    version, so that the next migration starts behind it."""
    return connection.dialect.name not in ("mysql", "mariadb")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    return None if found is None else str(found)


def _start_epoch(connection: Connection) -> None:
    """Start a new epoch of the journal: servers that still run check the schema again."""
    if inspect(connection).has_table(JOURNAL_HEAD.name):
        connection.execute(update(JOURNAL_HEAD).values(epoch=uuid4().hex))


def _check_downgrades(connection: Connection, steps: Any) -> None:
    """Check all *steps* before the first one: not every database can roll it back.

    :raises Conflict: one of them is a downgrade that is not possible with the present rows.
    """
    for step in steps:
        problem = getattr(step.revision.module, "downgrade_problem", None)
        if step.is_downgrade and problem is not None and (text := problem(connection)):
            raise Conflict(f"no downgrade below version {step.revision.revision}: {text}")


@contextmanager
def _connection(engine: Engine) -> Iterator[Connection]:
    """Yield one connection, whose transaction holds all steps where DDL is transactional."""
    try:
        with engine.connect() as connection:
            yield connection
    except FAILURES as exc:
        raise translate_error(exc) from exc


@contextmanager
def _migration_lock(connection: Connection) -> Iterator[None]:
    """Hold the lock against concurrent migrations.

    On SQLite a transaction that writes locks the database from its start; PostgreSQL's lock ends
    with the transaction.

    :raises BackendUnavailable: another migration has it for too long.
    """
    name = connection.dialect.name
    if name == "sqlite":
        _begin_on_sqlite(connection)
    if name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")
    if name not in ("mysql", "mariadb"):
        yield
        return
    lock = f"CONCAT(DATABASE(), '.{VERSION_TABLE}')"
    if not connection.exec_driver_sql(f"SELECT GET_LOCK({lock}, {LOCK_TIMEOUT})").scalar():
        raise BackendUnavailable("another migration of the database is under way; try again later")
    try:
        yield
    finally:
        if not connection.invalidated:  # with a lost connection the lock is gone
            connection.exec_driver_sql(f"SELECT RELEASE_LOCK({lock})")


def _begin_on_sqlite(connection: Connection) -> None:
    """Begin the transaction, which waits for a concurrent one longer than others do."""
    raw = connection.connection.cursor()
    former = raw.execute("PRAGMA busy_timeout").fetchone()[0]
    raw.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT * 1000}")
    try:
        connection.exec_driver_sql("SELECT 1")
    finally:
        raw.execute(f"PRAGMA busy_timeout = {former}")
        raw.close()


def _context(connection: Connection) -> MigrationContext:
    from alembic.runtime.migration import MigrationContext

    return MigrationContext.configure(connection, opts=_options())


def _options() -> dict[str, Any]:
    return {
        "target_metadata": TABLES,
        "version_table": VERSION_TABLE,
        "transactional_ddl": False,  # the caller has a transaction around all steps
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


def _describe(difference: Any) -> str:
    """Describe a difference: a tuple of alembic, or a list of tuples for one column."""
    if isinstance(difference, list):
        return "; ".join(map(_describe, difference))
    what, *about = difference
    names = [getattr(each, "name", each) for each in about]
    return f"{what.replace('_', ' ')}: {' '.join(str(name) for name in names if name is not None)}"


def require_newest(database: Database) -> None:
    """Raise unless the schema has the version of this release, now and at each later commit.

    :raises BackendBroken: says what to do.
    """
    _check_version(current(database))
    database.guard_schema(lambda connection: _check_version(_version(connection)))


def _check_version(version: str | None) -> None:
    wanted = newest()
    _refuse_newer(version)
    if version != wanted:
        raise BackendBroken(
            f"the database has version {version or 'none'} of its tables, this netfw needs "
            f"{wanted}: run `netfw-db upgrade`"
        )


def _refuse_newer(version: str | None) -> None:
    """Raise if the schema was made by a newer release, which alone can downgrade it."""
    wanted = newest()
    if version is not None and version > wanted:
        raise BackendBroken(
            f"the database has version {version} of its tables, and this netfw knows {wanted} at "
            f"most: run `netfw-db downgrade {wanted}` with the newer release, or start that release"
        )
