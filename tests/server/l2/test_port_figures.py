"""What ports cost: in statements, which no machine makes faster or slower."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from netfw.drivers.server.query import Query
from netfw.server.core.server_context import ServerContext
from tests.server.core.core_client import statements
from tests.server.l2.environment import ADMIN, MEMBER, PortsEnvironment

BOUNDED = ("SCAN journal_head", "SCAN default_security_group_rules")
"""Tables of one row, and of 200 at most, which the first port of a project reads."""


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    return PortsEnvironment(context)


def test_a_port_costs_twelve_statements_with_its_address_group_and_binding(
    env: PortsEnvironment,
) -> None:
    network = env.network()
    env.subnet(network)
    env.host("h1")
    for _ in range(2):  # the first of a project and a host lays the ground
        env.create(network, MEMBER, binding__host_id="h1")
    with statements(env.context.database, begins=False) as bound:
        port = env.create(network, MEMBER, binding__host_id="h1")
    assert port["binding:vif_type"] == "ovs"
    assert len(bound) <= 12, bound
    with statements(env.context.database, begins=False) as unbound:
        env.create(network)
    assert len(unbound) <= 10, unbound


def test_a_list_of_ports_costs_what_one_does(env: PortsEnvironment) -> None:
    network = env.network()
    env.subnet(network, "10.0.0.0/16")
    env.host("h1")
    body = {"network_id": str(network), "binding:host_id": "h1"}
    env.bulk([body] * 2)
    with statements(env.context.database, begins=False) as few:
        env.bulk([body] * 10)
    with statements(env.context.database, begins=False) as many:
        ports = env.bulk([body] * 200)
    assert len(many) <= len(few) + 1, many
    assert len({port["mac_address"] for port in ports}) == 200
    with statements(env.context.database, begins=False) as listed:
        assert len(env.plugin.find(ADMIN, "port", Query())) == 212
    assert len(listed) == 3, "rows, the reasons of those that are not ACTIVE, networks' policies"


def test_nothing_that_a_port_asks_the_database_grows_with_what_is_there(
    env: PortsEnvironment,
) -> None:
    network = env.network()
    env.subnet(network)
    env.host("h1")
    env.create(network)
    asked: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, values: Any, ___: Any, many: bool) -> None:
        asked.append((statement, values[0] if many else values))

    writing = env.context.database.writing
    event.listen(writing, "before_cursor_execute", note)
    port = env.create(network, ADMIN, binding__host_id="h1", mac_address="fa:16:3e:00:00:01")
    env.update(port, ADMIN, fixed_ips=[{"ip_address": "10.0.0.99"}], binding__host_id="")
    env.delete(port, ADMIN)
    event.remove(writing, "before_cursor_execute", note)
    with writing.connect() as connection:
        for statement, values in asked:
            if statement.startswith("BEGIN"):
                continue
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", tuple(values))
            steps = [row[3] for row in plan if not row[3].startswith(BOUNDED)]
            assert not any("SCAN" in step for step in steps), (statement, steps)


def test_a_change_of_a_name_costs_few_statements(env: PortsEnvironment) -> None:
    network = env.network()
    env.subnet(network)
    env.host("h1")
    port = env.create(network, ADMIN, binding__host_id="h1")
    with statements(env.context.database, begins=False) as recorded:
        env.update(port, ADMIN, name="other")
    assert len(recorded) <= 8, recorded
    with statements(env.context.database, begins=False) as recorded:
        env.delete(port, ADMIN)
    assert len(recorded) <= 22, recorded
