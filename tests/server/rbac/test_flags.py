"""Flags, policies, visibility and uses, which agree whatever is done in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from netfw.errors import Conflict
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.rbac.policies import RbacPlugin
from tests.nightly import nightly
from tests.server.api.environment import Client, api
from tests.server.api.plugins import kept

pytestmark = pytest.mark.spec("API-07")

STEPS = 100
SHARED, EXTERNAL = "access_as_shared", "access_as_external"
FLAGS = {SHARED: "shared", EXTERNAL: "router:external"}
TARGETS = ("bob", "carol", "alice", "*")


@pytest.fixture
def plugins(empty_tables: Path, tmp_path: Path) -> Iterator[list[HandlerPlugin]]:
    with kept(empty_tables, tmp_path) as plugins:
        context = plugins[0].context
        yield [*plugins, RouterPlugin(context), RbacPlugin(context)]


class Cloud:
    """A network of Alice, which others may use."""

    def __init__(self, alice: Client, random: Random) -> None:
        self.alice, self.admin, self.random = alice, alice.as_("root/admin"), random
        self.network = alice.network()["id"]
        alice.make("subnets", network_id=self.network, cidr="10.0.0.0/20", ip_version=4)
        self.made: list[tuple[str, str]] = []

    def step(self) -> int:
        """Do one thing; return the status."""
        deeds = (self.set_flag, self.share, self.share, self.retarget, self.withdraw, self.use)
        return self.random.choice((*deeds, self.use, self.release))()

    def policies(self) -> list[dict[str, Any]]:
        """Return the policies in an order that does not depend on their ids, which are random."""
        found: list[dict[str, Any]] = self.admin.list("rbac-policies")
        return sorted(found, key=lambda each: (each["action"], each["target_tenant"]))

    def set_flag(self) -> int:
        flag, value = self.random.choice(list(FLAGS.values())), self.random.random() < 0.5
        return self.admin.put(f"networks/{self.network}", {"network": {flag: value}}).status

    def share(self) -> int:
        body = {
            "object_type": "network",
            "object_id": self.network,
            "action": self.random.choice(list(FLAGS)),
            "target_tenant": self.random.choice(TARGETS),
        }
        return self.admin.post("rbac-policies", {"rbac_policy": body}).status

    def retarget(self) -> int:
        target = {"rbac_policy": {"target_tenant": self.random.choice(TARGETS)}}
        found = self.policies()
        if not found:
            return 200
        return self.admin.put(f"rbac-policies/{self.random.choice(found)['id']}", target).status

    def withdraw(self) -> int:
        found = self.policies()
        if not found:
            return 200
        return self.admin.delete(f"rbac-policies/{self.random.choice(found)['id']}").status

    def use(self) -> int:
        """Make a port or a router's gateway."""
        who = self.random.choice(("alice", "bob", "carol"))
        gateway = {"external_gateway_info": {"network_id": self.network}}
        collection, body = self.random.choice(
            (("ports", {"port": {"network_id": self.network}}), ("routers", {"router": gateway}))
        )
        reply = self.alice.as_(f"{who}/member").post(collection, body)
        if reply.status == 201:
            (made,) = reply.json.values()
            self.made.append((who, f"{collection}/{made['id']}"))
        return reply.status

    def release(self) -> int:
        if not self.made:
            return 200
        who, path = self.made.pop(self.random.randrange(len(self.made)))
        return self.alice.as_(f"{who}/member").delete(path).status

    def check(self) -> None:
        granted = {(each["action"], each["target_tenant"]) for each in self.policies()}
        network = self.admin.get(f"networks/{self.network}").json["network"]
        assert network["shared"] is ((SHARED, "*") in granted)
        assert network["router:external"] is any(action == EXTERNAL for action, _ in granted)
        for who in ("bob", "carol"):
            client = self.alice.as_(f"{who}/member")
            visible = any(target in (who, "*") for _, target in granted)
            assert len(client.list("networks")) == visible
            assert client.get(f"networks/{self.network}").status == (200 if visible else 404)
            assert len(client.list("networks", shared=True)) == bool(
                {(SHARED, who), (SHARED, "*")} & granted
            )
        for who, path in self.made:
            action = SHARED if path.startswith("ports") else EXTERNAL
            assert who == "alice" or {(action, who), (action, "*")} & granted


@pytest.mark.parametrize("seed", [1, *map(nightly, (3, 4, 5))])
def test_they_agree_after_each_of_many_requests(plugins: list[HandlerPlugin], seed: int) -> None:
    cloud = Cloud(api(plugins), Random(seed))
    statuses = set()
    for _ in range(STEPS):
        statuses.add(cloud.step())
        cloud.check()
    assert statuses >= {200, 201, 204, 404, 409}


def test_a_refused_request_changes_neither(plugins: list[HandlerPlugin]) -> None:
    cloud = Cloud(api(plugins), Random(0))
    context = plugins[0].context

    def refuse(*_: object) -> None:
        raise Conflict("not now")

    context.precommit_hooks.append(refuse)
    assert cloud.set_flag() in (200, 409)
    assert cloud.share() == 409
    cloud.check()
