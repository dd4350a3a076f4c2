"""Ports on several hosts at once, as interfaces of highly available routers are."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.model.resource import Kind, ref
from netfw.model.router import Router
from netfw.model.values.common_fields import Status
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l2.port_status import PortStatuses
from tests.server.l2.environment import ADMIN, PortsEnvironment

HOSTS = ("one", "two")


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    made = PortsEnvironment(context)
    for host in HOSTS:
        made.host(host)
    return made


def report(env: PortsEnvironment, port: Any, **hosts: Status) -> str:
    """Return the status of *port* after each of *hosts* reported."""
    now = env.value(port)
    PortStatuses(env.context)(
        [
            StatusReport(
                ref=ref(now), revision=now.revision, host=host, service=Service.L2, status=status
            )
            for host, status in hosts.items()
        ]
    )
    return str(env.show(port, ADMIN)["status"])


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
    port = on_hosts(env, *HOSTS)
    assert env.value(port).binding.hosts == set(HOSTS)
    changed = env.update(port, ADMIN, name="renamed")
    (listed,) = env.plugin.find(ADMIN, "port", Query())
    for body in (changed, listed, env.show(port, ADMIN)):
        assert body["name"] == "renamed"
        assert "binding:hosts" not in body
    assert env.value(port).binding.hosts == set(HOSTS)


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


@pytest.mark.spec("L2-61")
def test_a_port_without_an_active_host_is_active_once_one_host_wired_it(
    env: PortsEnvironment,
) -> None:
    port = on_hosts(env, *HOSTS)
    assert report(env, port, three=Status.ACTIVE) == "DOWN"
    assert report(env, port, one=Status.DOWN) == "DOWN"
    assert report(env, port, two=Status.ACTIVE) == "ACTIVE"
    assert report(env, port, one=Status.ERROR) == "ACTIVE"
    assert report(env, port, two=Status.DOWN) == "ERROR"


@pytest.mark.spec("L2-61")
def test_the_active_host_decides_the_status_of_a_port_on_several_hosts(
    env: PortsEnvironment,
) -> None:
    port = on_hosts(env, *HOSTS, active="one")
    assert report(env, port, two=Status.ACTIVE) == "DOWN"
    assert report(env, port, one=Status.ACTIVE) == "ACTIVE"
    assert report(env, port, two=Status.DOWN) == "ACTIVE"
    assert report(env, port, one=Status.DOWN) == "DOWN"


@pytest.mark.spec("L2-61")
def test_a_port_on_several_hosts_stays_active_when_another_host_becomes_the_active_one(
    env: PortsEnvironment,
) -> None:
    port = on_hosts(env, *HOSTS, active="one")
    report(env, port, one=Status.ACTIVE, two=Status.ACTIVE)
    for host in ("two", "", "one"):
        moved = env.update(port, ADMIN, binding__host_id=host)
        assert (moved["binding:host_id"], moved["status"]) == (host, "ACTIVE")
    assert report(env, port, one=Status.ACTIVE) == "ACTIVE"
    assert env.update(port, ADMIN, binding__host_id="two")["status"] == "ACTIVE"
    assert report(env, port, one=Status.DOWN) == "ACTIVE"


def test_the_mac_of_a_port_on_several_hosts_stays(env: PortsEnvironment) -> None:
    port = on_hosts(env, *HOSTS)
    with pytest.raises(Conflict, match="bound to host one, two"):
        env.update(port, ADMIN, mac_address="fa:16:3e:00:00:99")


@pytest.mark.spec("L2-61")
def test_a_port_on_several_hosts_stays_active_when_its_active_host_has_no_live_agent(
    env: PortsEnvironment,
) -> None:
    port = on_hosts(env, *HOSTS, "dead", active="one")
    report(env, port, one=Status.ACTIVE, dead=Status.ACTIVE)
    moved = env.update(port, ADMIN, binding__host_id="dead")
    assert (moved["binding:vif_type"], moved["status"]) == ("binding_failed", "ACTIVE")
    assert report(env, port, one=Status.DOWN) == "ACTIVE"
