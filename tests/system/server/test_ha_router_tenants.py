"""Highly available routers by the API of a real server: members get them and see no HA network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.services.server import PrivateNetfw
from tests.system.server.tenants import Tenant

pytestmark = [pytest.mark.timeout(180), pytest.mark.spec("API-17", "API-18")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateNetfw]:
    sandbox.require()
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"l3_ha": True},
        "quotas": {"quota_network": 0, "quota_subnet": 0, "quota_port": 0},
    }
    with PrivateNetfw(tmp_path / "server", options) as server:
        yield server


def test_members_get_ha_routers_by_default_and_see_no_ha_network(server: PrivateNetfw) -> None:
    member, admin = Tenant(server, "red"), Tenant(server, "root", "admin")
    made = member.make("routers", name="edge")
    assert not {"ha", "vrid"} & made.keys()
    shown = admin.ask("GET", f"routers/{made['id']}")[1]["router"]
    assert (shown["ha"], "vrid" in shown) == (True, False)
    for collection in ("networks", "subnets", "ports"):
        assert member.ask("GET", collection)[1] == {collection: []}
    (network,) = admin.ask("GET", "networks")[1]["networks"]
    (subnet,) = admin.ask("GET", "subnets")[1]["subnets"]
    assert network["name"] == "HA network tenant red"
    assert member.ask("GET", f"networks/{network['id']}")[0] == 404
    assert member.ask("DELETE", f"networks/{network['id']}")[0] == 404
    requests = (
        ("DELETE", f"networks/{network['id']}", None),
        ("PUT", f"networks/{network['id']}", {"network": {"shared": True}}),
        ("DELETE", f"subnets/{subnet['id']}", None),
        ("POST", "ports", {"port": {"network_id": network["id"], "project_id": ""}}),
    )
    for method, path, body in requests:
        status, answer = admin.ask(method, path, body)
        assert status == 409, (method, path, answer)
        assert "is the HA network of project 'red'" in str(answer)
    status, _ = member.ask("POST", "routers", {"router": {"ha": False}})
    assert status == 403, "only administrators may say"
    plain = admin.make("routers", ha=False)
    assert plain["ha"] is False
    status, answer = admin.ask("PUT", f"routers/{plain['id']}", {"router": {"ha": True}})
    assert (status, "admin_state_up" in str(answer)) == (400, True)
    assert member.ask("DELETE", f"routers/{made['id']}")[0] == 204
    assert admin.ask("GET", "networks")[1] == {"networks": []}
