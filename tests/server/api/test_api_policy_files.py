"""Policy files that operators of Neutron have, on port forwardings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.floating_ips.port_forwardings import PortForwardingPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, api
from tests.server.api.resources.test_api_port_forwardings import Site

pytestmark = pytest.mark.spec("API-07")

NAMES = [f"{verb}_floatingip_port_forwarding" for verb in ("create", "get", "update", "delete")]
PARENT_OWNER = "(rule:admin_only) or (role:member and rule:ext_parent_owner)"


class Server:
    """A server with a policy file, and a port forwarding of Alice."""

    def __init__(self, plugins: list[HandlerPlugin], file: Path, **rules: str) -> None:
        file.write_text("".join(f'"{name}": "{check}"\n' for name, check in rules.items()))
        context = plugins[0].context
        every = self.plugins = [*plugins, RouterPlugin(context), PortForwardingPlugin(context)]
        self.alice: Client = api(every, policy_file=str(file))
        self.site = Site(self.alice)
        admin = self.alice.as_("root/admin")
        made = admin.post(self.site.path, self.site.body()).json["port_forwarding"]
        self.own = f"{self.site.path}/{made['id']}"

    def statuses(self, who: str) -> dict[str, int]:
        """Return the status that *who* gets for each verb."""
        client, change = self.alice.as_(who), {"port_forwarding": {"description": who}}
        body = self.site.body(external_port=90, internal_port=90)
        replies: dict[str, Any] = {"create": client.post(self.site.path, body)}
        replies["get"] = client.get(self.own)
        replies["update"] = client.put(self.own, change)
        replies["delete"] = client.delete(self.own)
        return {verb: reply.status for verb, reply in replies.items()}


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
def test_each_verb_has_the_rule_that_operators_know(
    plugins: list[HandlerPlugin], tmp_path: Path, verb: str
) -> None:
    rules = {f"{verb}_floatingip_port_forwarding": "rule:admin_only"}
    server = Server(plugins, tmp_path / "policy.yaml", **rules)
    allowed = {"create": 201, "get": 200, "update": 200, "delete": 204}
    assert server.statuses("alice/member") == {**allowed, verb: 403}


def test_what_a_rule_hides_is_not_found(plugins: list[HandlerPlugin], tmp_path: Path) -> None:
    rules = {"get_floatingip_port_forwarding": "rule:admin_only"}
    server = Server(plugins, tmp_path / "policy.yaml", **rules)
    assert server.alice.get(server.own).status == 404
    assert server.alice.get(server.site.path).json == {"port_forwardings": []}
    assert server.alice.as_("root/admin").get(server.own).status == 200


def test_rules_can_name_the_owner_of_the_parent(
    plugins: list[HandlerPlugin], tmp_path: Path
) -> None:
    server = Server(plugins, tmp_path / "policy.yaml", **dict.fromkeys(NAMES, PARENT_OWNER))
    listed = server.alice.get(server.site.path).json["port_forwardings"]
    assert [each["external_port"] for each in listed] == [80]
    assert "floatingip_id" not in listed[0]
    assert set(server.statuses("bob/member").values()) == {404}
    assert set(server.statuses("alice/reader").values()) <= {403, 404}
    assert list(server.statuses("alice/member").values()) == [201, 200, 200, 204]


def test_the_parent_of_many_is_read_once(
    plugins: list[HandlerPlugin], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(plugins, tmp_path / "policy.yaml", **dict.fromkeys(NAMES, PARENT_OWNER))
    (routers,) = (each for each in server.plugins if "floatingip" in each.resource_names)
    found: list[Any] = []
    find = routers.find
    monkeypatch.setattr(routers, "find", lambda *asked: found.append(asked) or find(*asked))
    bodies = [
        server.site.body(external_port=port, internal_port=port)["port_forwarding"]
        for port in range(1000, 1050)
    ]
    made = server.alice.post(server.site.path, {"port_forwardings": bodies})
    assert (made.status, len(made.json["port_forwardings"])) == (201, 50)
    assert len(found) <= 2, "once to authorize, once to show"
