"""The way of a request from the plugin to the handler of its resource."""

from __future__ import annotations

import traceback
from uuid import UUID

import pytest

from netfw.errors import NotFound
from netfw.server.db import Database
from tests.server.core.core_client import ADMIN, core_plugin

NOWHERE = {"network_id": str(UUID(int=1)), "name": ""}


def test_a_request_passes_five_frames_before_the_handler_of_its_resource(
    database: Database,
) -> None:
    plugin = core_plugin(database)
    with pytest.raises(NotFound) as caught:
        plugin.create(ADMIN, "subnet", [NOWHERE])
    names = [frame.name for frame in traceback.extract_tb(caught.tb)][1:]
    assert names[: names.index("do_create")] == [
        "create",
        "run",
        "transaction",
        "attempt",
        "create",
    ]


def test_a_batched_request_passes_one_frame_more(database: Database) -> None:
    plugin = core_plugin(database)
    with pytest.raises(NotFound) as caught:
        plugin.create(ADMIN, "port", [NOWHERE])
    names = [frame.name for frame in traceback.extract_tb(caught.tb)][1:]
    assert names[: names.index("do_create")] == [
        "create",
        "create",
        "run",
        "transaction",
        "attempt",
        "create",
    ]


def test_a_query_passes_three_frames_before_the_handler_of_its_resource(
    database: Database,
) -> None:
    plugin = core_plugin(database)
    with pytest.raises(NotFound) as caught:
        plugin.show(ADMIN, "port", str(UUID(int=1)))
    names = [frame.name for frame in traceback.extract_tb(caught.tb)][1:]
    assert names[:4] == ["show", "read", "read", "show"]
