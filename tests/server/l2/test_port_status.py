"""Statuses of ports: by what their hosts report, of what they are now."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict
from netfw.model import NetworkId
from netfw.model.agent import Agent
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import AgentId
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database, Transaction
from netfw.server.l2.port_status import PortStatuses
from netfw.state.dependencies import Assignment
from tests.server.core.core_client import statements
from tests.server.l2.environment import ADMIN, PortsEnvironment


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    made = PortsEnvironment(context)
    for host in ("h1", "h2"):
        made.host(host)
    return made


@pytest.fixture
def statuses(env: PortsEnvironment) -> PortStatuses:
    return PortStatuses(env.context)


@pytest.fixture
def network(env: PortsEnvironment) -> NetworkId:
    made = env.network()
    env.subnet(made)
    return made


def report(port: Any, status: Status = Status.ACTIVE, **other: Any) -> StatusReport:
    reported = {
        "ref": Ref(Kind.PORT, UUID(port["id"])),
        "revision": port["revision_number"],
        "host": "h1",
        "service": Service.L2,
        "status": status,
        **other,
    }
    return StatusReport(**reported)


def known(env: PortsEnvironment, port: Any) -> Any:
    """Return the stored status reports of a port."""
    ref = Ref(Kind.PORT, UUID(port["id"]))
    return env.context.database.transaction(lambda tx: tx.statuses.of([ref]))


def dhcp_agent(env: PortsEnvironment, host: str, network: NetworkId, *, alive: bool = True) -> None:
    """Create a DHCP agent that serves a network."""
    agent = Agent(id=AgentId(uuid4()), agent_type="DHCP agent", binary="netfw-dhcp", host=host)

    def work(tx: Any) -> None:
        tx.resources.insert(agent)
        tx.assignments.add(Assignment(Service.DHCP, host, Ref(Kind.NETWORK, network)))
        if alive:
            tx.heartbeats.record(agent.id)

    env.context.database.transaction(work)


@pytest.mark.spec("ML2-07")
@pytest.mark.spec("RPC-03")
def test_a_port_is_active_when_its_host_reports_so_and_keeps_its_revision(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, binding__host_id="h1")
    cursor = env.context.read(lambda view: view.journal.cursor())
    statuses([report(port)])
    assert env.show(port, ADMIN) == {**port, "status": "ACTIVE"}
    assert env.value(port).status is Status.ACTIVE
    assert env.context.read(lambda view: view.journal.cursor()) == cursor
    statuses([report(port, Status.DOWN, reason="unplugged")])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    statuses([report(port, Status.ERROR)])
    assert env.show(port, ADMIN)["status"] == "ERROR"
    statuses([report(port, Status.DEGRADED)])
    assert env.show(port, ADMIN)["status"] == "DOWN"


@pytest.mark.spec("ML2-07")
def test_a_port_has_the_reason_of_the_hosts_that_decide_its_status(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    dhcp_agent(env, "h1", network)
    port = env.create(network, ADMIN, binding__host_id="h1")
    assert port["status_reason"] is None
    statuses([report(port, Status.DEGRADED, reason="no segment can be reached")])
    assert env.show(port, ADMIN)["status_reason"] == "h1: no segment can be reached"
    lease = {"host": "h1", "service": Service.DHCP, "reason": "option 252 is too long"}
    statuses([report(port), report(port, Status.DEGRADED, **lease)])
    found = env.plugin.find(ADMIN, "port", Query())
    assert [each["status_reason"] for each in found] == ["h1: option 252 is too long"]
    renamed = env.update(port, ADMIN, name="new")
    assert renamed["status_reason"] == "h1: option 252 is too long"
    unassign = Assignment(Service.DHCP, "h1", Ref(Kind.NETWORK, network))
    env.context.database.transaction(lambda tx: tx.assignments.remove(unassign))
    assert env.show(port, ADMIN)["status_reason"] is None
    statuses([report(renamed, Status.DEGRADED, reason="lost")])
    assert env.show(port, ADMIN)["status_reason"] == "h1: lost"
    moved = env.update(port, ADMIN, binding__host_id="h2")
    assert moved["status_reason"] is None
    statuses([report(moved, host="h2", reason="late")])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
    assert env.show(port, ADMIN)["status_reason"] is None


@pytest.mark.spec("ML2-07")
def test_a_report_counts_for_the_present_revision_and_host_only(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port, host="h2"), report({**port, "revision_number": 2})])
    statuses([report({"id": str(uuid4()), "revision_number": 1})])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    assert known(env, port) == {}
    moved = env.update(port, ADMIN, binding__host_id="h2")
    statuses([report(port), report(moved)])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    statuses([report(moved, host="h2")])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
    unbound = env.create(network)
    statuses([report(unbound, host="")])
    assert env.show(unbound)["status"] == "DOWN"


@pytest.mark.spec("ML2-07")
def test_a_port_that_moves_or_is_switched_off_is_down_at_once(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port)])
    named = env.update(port, ADMIN, name="still active")
    assert named["status"] == "ACTIVE"
    off = env.update(port, ADMIN, admin_state_up=False)
    assert off["status"] == "DOWN"
    statuses([report(off)])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    on = env.update(port, ADMIN, admin_state_up=True)
    assert on["status"] == "DOWN"
    assert known(env, port) == {}  # the host must report it again
    statuses([report(on)])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
    moved = env.update(port, ADMIN, binding__host_id="h2")
    assert moved["status"] == "DOWN"
    back = env.update(port, ADMIN, binding__host_id="h1")
    assert back["status"] == "DOWN"
    env.context.run(ADMIN, lambda unit: statuses.reconsider(unit, [env.value(port).id]))
    assert env.show(port, ADMIN)["status"] == "DOWN"  # what h1 said before is forgotten


@pytest.mark.spec("ML2-07")
def test_where_addresses_are_served_a_port_waits_for_them(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    dhcp_agent(env, "d1", network)
    dhcp_agent(env, "d2", network)
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port)])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    served = {"service": Service.DHCP, "host": "d1"}
    statuses([report(port, Status.ERROR, **served), report(port, **{**served, "host": "d9"})])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    statuses([report(port, **{**served, "host": "d2"})])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
    statuses([report(port, Status.DOWN, **{**served, "host": "d2"})])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"  # it had its addresses
    own = env.create(
        network, ADMIN, binding__host_id="h1", device_owner="network:dhcp", device_id="d1"
    )
    statuses([report(own)])
    assert env.show(own, ADMIN)["status"] == "ACTIVE"
    bare = env.create(network, ADMIN, binding__host_id="h1", fixed_ips=[])
    statuses([report(bare)])
    assert env.show(bare, ADMIN)["status"] == "ACTIVE"


def test_reports_of_addresses_and_of_wires_come_in_any_order(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    dhcp_agent(env, "d1", network)
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port, service=Service.DHCP, host="d1")])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    statuses([report(port)])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"


def test_a_port_does_not_wait_for_a_dead_agent(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    dhcp_agent(env, "d1", network, alive=False)
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port)])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
    silent = env.network()
    env.subnet(silent, enable_dhcp=False)
    dhcp_agent(env, "d2", silent)
    port = env.create(silent, ADMIN, binding__host_id="h1")
    statuses([report(port)])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"


def test_a_port_waits_for_every_gate(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    closed = True
    statuses.gates.append(lambda unit, ports: list(ports) if closed else [])
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port)])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    closed = False
    env.context.run(ADMIN, lambda unit: statuses.reconsider(unit, [env.value(port).id]))
    assert env.show(port, ADMIN)["status"] == "ACTIVE"


def test_listeners_are_called_once_for_each_change(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    heard: list[tuple[Port, Port]] = []
    statuses.listeners.append(lambda unit, before, after: heard.append((before, after)))
    port = env.create(network, ADMIN, binding__host_id="h1")
    before = env.value(port)
    for _ in range(2):
        statuses([report(port)])
    assert heard == [(before, evolve(before, status=Status.ACTIVE))]


@pytest.mark.spec("ML2-07")
def test_many_reports_are_few_statements_and_the_same_again_writes_nothing(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    dhcp_agent(env, "d1", network)
    bodies = [{"network_id": str(network), "binding:host_id": "h1"}] * 40
    ports = env.bulk(bodies, ADMIN)
    message = [report(port) for port in ports]
    message += [report(port, service=Service.DHCP, host="d1") for port in ports]
    with statements(env.context.database, begins=False) as recorded:
        statuses(message)
    assert len(recorded) <= 10, recorded
    shown = env.plugin.find(ADMIN, "port", Query())
    assert [port["status"] for port in shown] == ["ACTIVE"] * 40
    with statements(env.context.database, begins=False) as recorded:
        statuses(message)
    assert [each for each in recorded if not each.startswith("SELECT")] == []


def test_a_deleted_port_leaves_no_reports(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, binding__host_id="h1")
    statuses([report(port)])
    assert known(env, port) != {}
    env.delete(port, ADMIN)
    assert known(env, port) == {}


def test_a_distributed_interface_is_active_if_any_host_reports_so(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    interface = {"device_owner": "network:router_interface_distributed", "device_id": str(uuid4())}
    port = env.create(network, ADMIN, **interface)
    statuses([report(port, Status.DOWN, host="h1")])
    assert env.show(port, ADMIN)["status"] == "DOWN"
    statuses([report(port, host="h2")])
    assert env.show(port, ADMIN)["status"] == "ACTIVE"


def test_an_update_of_an_older_read_does_not_undo_a_status(
    env: PortsEnvironment, statuses: PortStatuses, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, binding__host_id="h1")
    read = env.value(port)
    statuses([report(port)])

    def rename(tx: Transaction) -> None:
        tx.resources.update(read, evolve(read, name="other"))

    hasty = Database(str(env.context.database.writing.url), attempts=1)
    try:
        with pytest.raises(Conflict, match="was changed or deleted meanwhile"):
            hasty.transaction(rename)
    finally:
        hasty.close()
    assert env.show(port, ADMIN)["status"] == "ACTIVE"
