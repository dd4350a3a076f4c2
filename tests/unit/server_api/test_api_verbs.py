"""The verbs of the API, through the real plugins."""

from __future__ import annotations

import pytest
from api_world import Client


@pytest.mark.spec("API-01")
def test_a_network_is_made_shown_listed_changed_and_deleted(client: Client) -> None:
    made = client.post("networks", {"network": {"name": "blue"}})
    assert made.status == 201
    network = made.json["network"]
    assert network["name"] == "blue"
    assert network["admin_state_up"] is True
    assert network["project_id"] == network["tenant_id"] == "alice"

    path = f"networks/{network['id']}"
    assert client.get(path).json == made.json
    assert client.get(f"{path}.json").json == made.json
    assert client.get("networks").json == {"networks": [network]}
    assert client.get("networks.json").json == {"networks": [network]}

    changed = client.put(path, {"network": {"name": "green"}})
    assert (changed.status, changed.json["network"]["name"]) == (200, "green")
    assert changed.json["network"]["revision_number"] > network["revision_number"]

    gone = client.delete(path)
    assert (gone.status, gone.data) == (204, b"")
    assert client.get(path).status == 404
    assert client.get("networks").json == {"networks": []}
