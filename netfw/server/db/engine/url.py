"""Where the database is: one line of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from netfw.errors import ConfigError

DRIVERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sqlite": "sqlite+pysqlite",
        "postgresql": "postgresql+psycopg",
        "mariadb": "mariadb+pymysql",
        "mysql": "mariadb+pymysql",
    }
)
_FORMS = "sqlite:///PATH, postgresql://USER:PASSWORD@HOST/NAME or mariadb://..."


def database_url(text: str) -> URL:
    """The place that *text* names, with the driver that netfw speaks to it by.

    :raises ConfigError: it names none that netfw can use.  A password is never repeated.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(f"[database] connection: cannot be read; write {_FORMS}") from None
    backend = url.get_backend_name()
    if backend not in DRIVERS:
        raise ConfigError(f"[database] connection: {backend} is not known; write {_FORMS}")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigError(
            "[database] connection: SQLite needs a file (sqlite:////var/lib/netfw/netfw.db, with "
            "four slashes): a database in memory is another one for every connection"
        )
    if backend != "sqlite" and not url.database:
        raise ConfigError("[database] connection: names no database: end it with /NAME")
    return url.set(drivername=DRIVERS[backend])


def default_url(state_path: str) -> URL:
    """The file that is used when the configuration names nothing."""
    return URL.create(DRIVERS["sqlite"], database=f"{state_path}/netfw.db")
