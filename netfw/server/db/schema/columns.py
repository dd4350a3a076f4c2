"""Types of columns that mean the same on SQLite, PostgreSQL and MariaDB.

Text is compared and sorted by code point everywhere, and spaces at its end count.
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
    """Text that people choose."""
    in_postgres = postgresql.VARCHAR(length, collation="C")
    return String(length).with_variant(in_postgres, "postgresql")


def word(length: int = ID_LENGTH) -> TypeEngine[str]:
    """Plain ASCII that programs choose: ids, numbers of fixed width."""
    in_mariadb = mysql.VARCHAR(length, charset="ascii", collation="ascii_nopad_bin")
    in_postgres = postgresql.VARCHAR(length, collation="C")
    return (
        String(length)
        .with_variant(in_postgres, "postgresql")
        .with_variant(in_mariadb, "mysql", "mariadb")
    )


def document() -> TypeEngine[str]:
    """JSON, as text of up to 16 MB: nobody but netfw looks into it."""
    return Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def number() -> TypeEngine[int]:
    """An integer of 64 bits."""
    return BigInteger()
