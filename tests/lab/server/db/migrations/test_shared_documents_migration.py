"""An upgrade from a release that stored shared documents without a column for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from netfw.server.db import Database, migration
from netfw.server.db.resources.vendor_resources import VendorResources
from tests.lab.databases import EmptyDatabase

BEFORE = "0021"
NAME = "metering_label"


def document(number: int, **attributes: Any) -> dict[str, Any]:
    return {
        "id": str(UUID(int=number)),
        "project_id": "root",
        "revision_number": 1,
        **attributes,
    }


@pytest.mark.spec("API-07", "ML2-11")
def test_documents_that_were_shared_stay_visible(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    shared, hidden = document(1, shared=True), document(2, shared=False)
    plain = document(3, name='"shared":true')
    database.transaction(
        lambda tx: VendorResources(tx.connection, NAME).insert(shared, hidden, plain)
    )
    migration.downgrade(database, BEFORE)
    migration.upgrade(database)
    assert migration.differences(database) == ()
    found = database.read(
        lambda view: VendorResources(view.connection, NAME).find(
            {}, project="alice", or_shared=True
        )
    )
    assert found == [shared]
