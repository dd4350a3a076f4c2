"""Ports on several hosts at once, as interfaces of highly available routers are."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from tests.server.l2.environment import ADMIN, PortsEnvironment


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    return PortsEnvironment(context)


def on_hosts(env: PortsEnvironment, *hosts: str, active: str = "") -> Any:
    """Return a port that is on *hosts* at once."""
    port = env.create(env.network(), by=ADMIN, binding__host_id=active)

    def work(unit: UnitOfWork) -> None:
        row = unit.tx.resources.get(Kind.PORT, UUID(port["id"]), lock=True)
        before = cast(Port, row.resource())
        unit.update(before, evolve(before, binding=evolve(before.binding, hosts=hosts)))

    env.context.run(SERVER, work)
    return port


def test_the_hosts_of_a_port_are_stored_and_not_shown_by_the_api(env: PortsEnvironment) -> None:
    port = on_hosts(env, "one", "two")
    assert env.value(port).binding.hosts == {"one", "two"}
    changed = env.update(port, ADMIN, name="renamed")
    (listed,) = env.plugin.find(ADMIN, "port", Query())
    for body in (changed, listed, env.show(port, ADMIN)):
        assert body["name"] == "renamed"
        assert "binding:hosts" not in body
    assert env.value(port).binding.hosts == {"one", "two"}


def test_the_virtual_router_id_is_stored_and_not_shown_by_the_api(env: PortsEnvironment) -> None:
    router = env.router()
    env.context.run(
        SERVER,
        lambda unit: unit.update(evolve(router, revision=1), evolve(router, vrid=7)),
    )
    row = env.context.read(lambda view: view.resources.get(Kind.ROUTER, router.id))
    assert cast(Router, row.resource()).vrid == 7
    assert row.shown["id"] == str(router.id)
    assert "vrid" not in row.shown
