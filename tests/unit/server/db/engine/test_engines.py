"""The line of the configuration that says where the database is."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from netfw.errors import ConfigError
from netfw.server.db.engine.engines import Limits, database_url, default_url, writing_engine


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("sqlite:////var/lib/netfw/netfw.db", "sqlite+pysqlite"),
        ("postgresql://netfw:secret@db/netfw", "postgresql+psycopg"),
        ("postgresql+psycopg2://netfw:secret@db/netfw", "postgresql+psycopg"),
        ("mariadb://netfw:secret@db/netfw", "mariadb+pymysql"),
        ("mysql+pymysql://netfw:secret@db/netfw?charset=utf8", "mariadb+pymysql"),
    ],
)
def test_each_kind_of_database_is_spoken_to_by_one_driver(text: str, driver: str) -> None:
    assert database_url(text).drivername == driver


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("oracle://netfw:secret@db/netfw", "oracle is not known"),
        ("netfw:secret@db", "cannot be read"),
        ("sqlite://", "four slashes"),
        ("sqlite:///:memory:", "in memory"),
        ("postgresql://netfw:secret@db", "end it with /NAME"),
        ("postgresql://netfw:secret@db:port/netfw", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_without_the_password(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as caught:
        database_url(text)
    assert "secret" not in str(caught.value)


def test_without_a_word_it_is_a_file_below_the_state_path() -> None:
    assert default_url("/var/lib/netfw").render_as_string() == (
        "sqlite+pysqlite:////var/lib/netfw/netfw.db"
    )


@pytest.mark.parametrize(
    ("query", "disabled"),
    [
        ("?unix_socket=/run/mysqld/mysqld.sock", True),
        ("?unix_socket=/run/mysqld/mysqld.sock&ssl_ca=/etc/ca.pem", False),
        ("", False),
    ],
)
def test_mariadb_uses_no_tls_on_a_unix_socket_unless_the_url_says_so(
    query: str, disabled: bool
) -> None:
    engine = writing_engine(database_url(f"mariadb://netfw@db/netfw{query}"), Limits())
    given: list[dict[str, object]] = []

    def connect(_dialect: object, _record: object, _args: object, options: dict) -> None:
        given.append(options)
        raise ConnectionError

    event.listen(engine, "do_connect", connect)
    with pytest.raises(ConnectionError):
        engine.connect()
    assert given[0].get("ssl_disabled", False) is disabled
