"""Schemas of databases that are not, or not yet, those of a switch."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netfw.errors import BackendBroken, BackendUnavailable
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.mirror import COLUMNS
from netfw.ovs.ovsdb.schema import reduce_schema


def complete() -> dict[str, Any]:
    """Return a schema with all monitored columns, and one more."""
    tables = {
        name: {"columns": {column: {"type": "string"} for column in (*columns, "statistics")}}
        for name, columns in COLUMNS.items()
    }
    return {"name": "Open_vSwitch", "tables": {**tables, "Mirror": {"columns": {}}}}


def test_schema_is_reduced_to_the_monitored_columns() -> None:
    reduced = reduce_schema(complete())
    assert reduced["name"] == "Open_vSwitch"
    assert {name: set(table["columns"]) for name, table in reduced["tables"].items()} == {
        name: set(columns) for name, columns in COLUMNS.items()
    }


def test_missing_tables_and_columns_are_named() -> None:
    schema = complete()
    del schema["tables"]["Port"]
    del schema["tables"]["Interface"]["columns"]["ofport"]
    with pytest.raises(ValueError, match=r"it lacks table Port, column Interface\.ofport"):
        reduce_schema(schema)


ODD = [None, [], "text", 7, {}, {"tables": None}, {"tables": []}, {"tables": {"Bridge": None}}]


@pytest.mark.parametrize("schema", ODD, ids=json.dumps)
def test_what_is_no_schema_is_a_value_error(schema: object) -> None:
    with pytest.raises(ValueError, match=r"not a schema|it lacks table"):
        reduce_schema(schema)


@contextmanager
def database(path: Path, schema: object) -> Iterator[None]:
    """Run a server that answers the first request with *schema*."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(20)

        def serve() -> None:
            connection = listener.accept()[0]
            with connection:
                request = json.loads(connection.recv(4096))
                reply = {"id": request["id"], "error": None, "result": schema}
                connection.sendall(json.dumps(reply).encode())
                connection.recv(1)  # until the client has closed

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield
        finally:
            server.join()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"tables": None}, "not a schema"),
        ({"tables": {}}, "it lacks table Open_vSwitch, table Bridge"),
    ],
    ids=["null", "without tables"],
)
def test_a_database_that_is_not_that_of_a_switch_is_refused_with_advice(
    tmp_path: Path, schema: object, problem: str
) -> None:
    path = tmp_path / "db.sock"
    with database(path, schema), pytest.raises(BackendBroken) as refusal:
        Ovsdb(f"unix:{path}", timeout=20).snapshot()
    assert problem in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert "upgrade Open vSwitch" in str(refusal.value)


def test_an_answer_without_a_result_is_not_taken_for_silence(tmp_path: Path) -> None:
    path = tmp_path / "db.sock"
    with database(path, None), pytest.raises(BackendUnavailable, match="no valid answer"):
        Ovsdb(f"unix:{path}", timeout=20).snapshot()
