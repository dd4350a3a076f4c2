"""Segments of networks: what administrators can change."""

from __future__ import annotations

import pytest

from tests.server.api.environment import Client


@pytest.mark.spec("API-07")
def test_a_segment_gets_its_name_and_description_from_administrators(client: Client) -> None:
    admin = client.as_("root/admin")
    client.network()
    (segment,) = admin.list("segments")
    path = f"segments/{segment['id']}"
    body = {"segment": {"name": "rack 7", "description": "north"}}
    assert client.put(path, body).status == 404
    changed = admin.put(path, body).json["segment"]
    assert (changed["name"], changed["description"]) == ("rack 7", "north")
    assert changed["revision_number"] == segment["revision_number"] + 1
    assert changed["segmentation_id"] == segment["segmentation_id"]
    assert admin.list("segments", name="rack 7") == [changed]
    assert admin.put(path, {"segment": {"segmentation_id": 7}}).status == 400
    assert admin.put(path, {"segment": {"name": None}}).json["segment"]["name"] == segment["name"]
    assert admin.delete(path).status == 405
