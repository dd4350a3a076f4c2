"""Column types that behave the same on SQLite, PostgreSQL and MariaDB.

Text is compared and sorted by code point, and trailing spaces count.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import BigInteger, String, Text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import TypeEngine

TABLE_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "mariadb_engine": "InnoDB",
        "mariadb_charset": "utf8mb4",
        "mariadb_collate": "utf8mb4_nopad_bin",
        "mariadb_row_format": "DYNAMIC",
    }
)
ID_LENGTH, NAME_LENGTH, TOPIC_LENGTH, NUMBER_LENGTH, ADDRESS_LENGTH = 36, 255, 300, 32, 45
DIGEST_LENGTH = 64


def text(length: int = NAME_LENGTH) -> TypeEngine[str]:
    """Return the type of user text."""
    in_postgres = postgresql.VARCHAR(length, collation="C")
    return String(length).with_variant(in_postgres, "postgresql")


def word(length: int = ID_LENGTH) -> TypeEngine[str]:
    """Return the type of ASCII identifiers: ids, fixed-width numbers."""
    in_mariadb = mysql.VARCHAR(length, charset="ascii", collation="ascii_nopad_bin")
    in_postgres = postgresql.VARCHAR(length, collation="C")
    return (
        String(length)
        .with_variant(in_postgres, "postgresql")
        .with_variant(in_mariadb, "mysql", "mariadb")
    )


def document() -> TypeEngine[str]:
    """Return the type of JSON text of up to 16 MB, which no query reads."""
    return Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def storable(text: str, length: int) -> str:
    """Return the first *length* characters of a text that no validation has seen.

    Not every database stores NUL, and none stores surrogates: each becomes a question mark.
    """
    return text[:length].encode(errors="replace").decode().replace("\0", "?")


def number() -> TypeEngine[int]:
    """Return the type of 64-bit integers."""
    return BigInteger()
