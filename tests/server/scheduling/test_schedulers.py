"""Networks and routers get agents, keep them, and lose dead ones."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event

from netfw.drivers.server.change import Change
from netfw.drivers.values.agent_requests import EnsureDhcpPort
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import Conflict, NotFound
from netfw.errors.agents import InvalidDHCPAgent
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from netfw.server.db.resources.row import Row
from netfw.server.scheduling.rescheduler import FailureDetector
from netfw.server.scheduling.routers import find_routers_with_ports
from netfw.server.state_source.commit_watcher import CommitWatcher
from netfw.server.state_source.database_source import DatabaseSource
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE
from tests.server.core.agent_samples import grow_old
from tests.server.core.core_client import ADMIN, ALICE
from tests.server.scheduling.environment import DHCP, L3, Cloud

Make = Callable[..., Cloud]


@pytest.fixture
def make(database: Database) -> Make:
    return lambda **options: Cloud(database, **options)


@pytest.mark.spec("ML2-10")
def test_a_network_gets_its_agents_with_its_first_dhcp_subnet(make: Make) -> None:
    cloud = make(dhcp_agents_per_network=2)
    cloud.agents(DHCP, "a/x", "b/x", "c/y")
    bare = cloud.calls.network()
    cloud.calls.subnet(bare, "10.0.0.0/24", enable_dhcp=False)
    assert cloud.hosts(bare["id"]) == []
    first = cloud.network()
    assert cloud.hosts(first) == ["a", "c"], "one in each zone"
    assert cloud.hosts(cloud.network()) == ["b", "c"], "those with the least to do"
    cloud.calls.subnet(bare, "10.1.0.0/24")
    assert len(cloud.hosts(bare["id"])) == 2
    hinted = cloud.network(availability_zone_hints=["y"])
    assert cloud.hosts(hinted) == ["c"]
    cloud.calls.delete("network", first)
    assert cloud.hosts(first) == []


@pytest.mark.spec("ML2-10")
def test_only_routers_with_too_few_agents_are_read(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = make(max_l3_agents_per_router=3)
    unserved, portless = cloud.router(), cloud.router(leads=False)
    cloud.agents(L3, "a", "b")
    cloud.agents(L3, "compute", agent_mode="dvr")
    served = [cloud.router(), cloud.router(ha=True)]
    read = set[str]()
    parse = Row.resource

    def note(row: Row) -> Resource:
        read.update({str(row.ref.id)} if row.kind is Kind.ROUTER else ())
        return parse(row)

    monkeypatch.setattr(Row, "resource", note)
    cloud.rescheduler.reconcile()
    assert read == {portless}
    assert [len(cloud.hosts(id)) for id in (unserved, portless, *served)] == [1, 0, 1, 2]
    cloud.agents(L3, "c")
    cloud.rescheduler.reconcile()
    assert read == {portless, served[1]}
    assert cloud.hosts(served[1]) == ["a", "b", "c"]


@pytest.mark.spec("ML2-10")
def test_a_later_agent_gets_the_unserved_networks(make: Make) -> None:
    cloud = make()
    network = cloud.network()
    assert cloud.hosts(network) == []
    cloud.agents("Open vSwitch agent", "z")
    assert cloud.hosts(network) == []
    cloud.agents(DHCP, "a", "b")
    assert cloud.hosts(network) == ["a"]
    cloud.calls.delete("agent", cloud.agent("a", DHCP), ADMIN)
    assert cloud.hosts(network) == ["b"]


@pytest.mark.spec("ML2-10")
def test_a_dead_agents_networks_go_to_others_with_the_addresses_of_its_port(make: Make) -> None:
    cloud = make()
    cloud.agents(DHCP, "a")
    network = cloud.calls.network()
    subnet = cloud.calls.subnet(network, "10.0.0.0/24")
    asked = {
        "network": NetworkId(UUID(network["id"])),
        "subnets": frozenset({SubnetId(UUID(subnet["id"]))}),
    }
    answers = AgentRpcHandlers(cloud.context)
    port = answers.ensure_dhcp_port(EnsureDhcpPort(host="a", **asked))
    grow_old(cloud.context, "a", 80)
    assert cloud.rescheduler.reconcile() == 0, "there is no other agent"
    assert cloud.hosts(network["id"]) == ["a"]
    cloud.agents(DHCP, "b")
    assert cloud.hosts(network["id"]) == ["b"]
    assert cloud.calls.show("port", str(port.id), ADMIN)["device_id"] == RESERVED_DHCP_DEVICE
    adopted = answers.ensure_dhcp_port(EnsureDhcpPort(host="b", **asked))
    assert (adopted.id, adopted.fixed_ips) == (port.id, port.fixed_ips)
    cloud.agents(DHCP, "a")
    assert cloud.rescheduler.reconcile() == 0, "serving agents stay"
    assert cloud.hosts(network["id"]) == ["b"]


@pytest.mark.spec("ML2-10")
@pytest.mark.parametrize("failure", [Conflict("the device is read-only"), KeyError("defect")])
def test_a_network_whose_change_a_driver_refuses_keeps_no_other_with_a_dead_agent(
    make: Make, failure: Exception
) -> None:
    cloud = make()
    cloud.agents(DHCP, "a")
    networks = sorted(cloud.network() for _ in range(3))
    for network in networks:
        wanted = EnsureDhcpPort(host="a", network=NetworkId(UUID(network)), subnets=frozenset())
        AgentRpcHandlers(cloud.context).ensure_dhcp_port(wanted)

    def refuse(unit: UnitOfWork, change: Change) -> None:
        if isinstance(change.resource, Port) and str(change.resource.network_id) == networks[0]:
            raise failure

    cloud.context.precommit_hooks.append(refuse)
    grow_old(cloud.context, "a", 80)
    cloud.agents(DHCP, "b")
    assert [cloud.hosts(id) for id in networks] == [["a"], ["b"], ["b"]]
    agent = cloud.agent("b", DHCP)
    cloud.calls.plugin.update(ADMIN, "agent", agent, {"admin_state_up": False})
    assert [cloud.hosts(id) for id in networks] == [["a"], [], []]


@pytest.mark.spec("ML2-10", "DHCP-06")
def test_an_agent_that_is_switched_off_serves_nothing_until_it_is_on(make: Make) -> None:
    cloud = make(allow_automatic_dhcp_failover=False)
    cloud.agents(DHCP, "a", "b")
    network, one = cloud.network(), cloud.agent("a", DHCP)
    assert cloud.hosts(network) == ["a"]
    plugin = cloud.calls.plugin
    plugin.update(ADMIN, "agent", one, {"admin_state_up": False})
    assert cloud.hosts(network) == ["b"]
    plugin.update(ADMIN, "agent", one, {"admin_state_up": True})
    assert cloud.hosts(network) == ["b"], "serving agents stay"
    plugin.create(ADMIN, "dhcp_network", [{"agent_id": one, "network_id": network}])
    plugin.update(ADMIN, "agent", one, {"admin_state_up": False})
    assert cloud.hosts(network) == ["b"], "one is enough"
    plugin.update(ADMIN, "agent", cloud.agent("b", DHCP), {"admin_state_up": False})
    assert cloud.hosts(network) == [], "off is off, even without another agent"
    plugin.update(ADMIN, "agent", one, {"admin_state_up": True})
    assert cloud.hosts(network) == ["a"]


@pytest.mark.spec("ML2-10")
def test_without_failover_networks_stay(make: Make) -> None:
    cloud = make(allow_automatic_dhcp_failover=False)
    cloud.agents(DHCP, "a")
    network = cloud.network()
    cloud.agents(DHCP, "b")
    grow_old(cloud.context, "a", 80)
    cloud.rescheduler.reconcile()
    assert cloud.hosts(network) == ["a"]


@pytest.mark.spec("ML2-10")
@pytest.mark.spec("API-06")
def test_people_give_networks_to_dhcp_agents_and_take_them_away(make: Make) -> None:
    cloud = make()
    cloud.agents(DHCP, "a", "b")
    cloud.agents(L3, "a")
    network, one, two = cloud.network(), cloud.agent("a", DHCP), cloud.agent("b", DHCP)
    plugin = cloud.calls.plugin

    def served(agent: str) -> list[str]:
        return [each["id"] for each in cloud.calls.all("dhcp_network", agent_id=agent)]

    assert served(one) == [network]
    plugin.create(ADMIN, "dhcp_network", [{"agent_id": two, "network_id": network}])
    assert served(two) == [network]
    agents = cloud.calls.all("dhcp_agent", network_id=network)
    assert [each["host"] for each in agents] == sorted(
        ("a", "b"), key=lambda h: cloud.agent(h, DHCP)
    )
    assert all(each["alive"] for each in agents)
    with pytest.raises(Conflict, match="already"):
        plugin.create(ADMIN, "dhcp_network", [{"agent_id": two, "network_id": network}])
    plugin.delete(ADMIN, "dhcp_network", f"{one}/{network}")
    assert cloud.hosts(network) == ["b"]
    with pytest.raises(Conflict, match="is not with"):
        plugin.delete(ADMIN, "dhcp_network", f"{one}/{network}")
    wrong = {"agent_id": cloud.agent("a", L3), "network_id": network}
    with pytest.raises(InvalidDHCPAgent, match="no DHCP agent"):
        plugin.create(ADMIN, "dhcp_network", [wrong])
    with pytest.raises(NotFound):
        plugin.create(ADMIN, "dhcp_network", [{"agent_id": one, "network_id": str(uuid4())}])
    with pytest.raises(NotFound):
        cloud.calls.all("dhcp_agent", network_id=str(uuid4()))
    plugin.update(ADMIN, "agent", one, {"admin_state_up": False})
    with pytest.raises(InvalidDHCPAgent, match="switched off"):
        plugin.create(ADMIN, "dhcp_network", [{"agent_id": one, "network_id": network}])


@pytest.mark.spec("ML2-10")
def test_a_router_gets_its_agent_when_it_leads_somewhere(make: Make) -> None:
    cloud = make(max_l3_agents_per_router=2)
    cloud.agents(L3, "a", "b", "c")
    cloud.agents(L3, "e", agent_mode="dvr")
    cloud.agents(L3, "s", agent_mode="dvr_snat")
    assert cloud.hosts(cloud.router(leads=False)) == []
    one = cloud.router()
    assert cloud.hosts(one) == ["a"]
    assert cloud.hosts(cloud.router(ha=True)) == ["b", "c"]
    assert cloud.hosts(cloud.router(distributed=True)) == []
    cloud.calls.plugin.delete(ALICE, "router", cloud.router(leads=False))
    cloud.calls.delete("router", one, ADMIN)
    assert cloud.hosts(one) == []


@pytest.mark.spec("ML2-10")
@pytest.mark.parametrize("wanted", [False, True])
def test_a_plain_router_is_taken_from_a_dead_agent_only_if_the_operator_wants(
    make: Make, wanted: bool
) -> None:
    cloud = make(allow_automatic_l3agent_failover=wanted)
    cloud.agents(L3, "a")
    plain, ha = cloud.router(), cloud.router(ha=True)
    waiting = cloud.router(leads=False)
    cloud.agents(L3, "b")
    assert cloud.hosts(ha) == ["a", "b"], "it wanted more than there were"
    grow_old(cloud.context, "a", 80)
    cloud.rescheduler.reconcile()
    assert cloud.hosts(plain) == (["b"] if wanted else ["a"])
    assert cloud.hosts(ha) == ["a", "b"]
    assert cloud.hosts(waiting) == []


@pytest.mark.spec("ML2-10")
@pytest.mark.spec("API-06")
def test_people_give_routers_to_l3_agents_and_take_them_away(make: Make) -> None:
    cloud = make(max_l3_agents_per_router=1)
    cloud.agents(L3, "a", "b")
    cloud.agents(L3, "e", agent_mode="dvr")
    plugin, one, two = cloud.calls.plugin, cloud.agent("a", L3), cloud.agent("b", L3)
    plain, ha = cloud.router(leads=False), cloud.router(leads=False, ha=True)
    for router in (plain, ha):
        for _ in range(2):
            plugin.create(ADMIN, "l3_router", [{"agent_id": one, "router_id": router}])
        with pytest.raises(Conflict, match="already"):
            plugin.create(ADMIN, "l3_router", [{"agent_id": two, "router_id": router}])
    edge = cloud.agent("e", L3)
    with pytest.raises(Conflict, match="its mode is dvr"):
        plugin.create(ADMIN, "l3_router", [{"agent_id": edge, "router_id": plain}])
    assert len(cloud.calls.all("l3_router", agent_id=one)) == 2
    assert [each["id"] for each in cloud.calls.all("l3_agent", router_id=ha)] == [one]
    assert plugin.show(ADMIN, "l3_router", f"{one}/{plain}")["id"] == plain
    plugin.delete(ADMIN, "l3_router", f"{one}/{plain}")
    assert cloud.hosts(plain) == []
    with pytest.raises(NotFound):
        plugin.show(ADMIN, "l3_router", f"{one}/{plain}")


@pytest.mark.spec("ML2-10")
def test_the_host_of_an_agent_reads_what_it_was_given(make: Make) -> None:
    cloud = make()
    cloud.agents(DHCP, "a")
    network = cloud.network()
    commits = CommitWatcher(cloud.database)
    source = DatabaseSource(
        cloud.database,
        commits,
        handle_reports=cloud.hear,
        handle_request=cloud.calls.plugin.handle_request,
    )
    pages = list(source.snapshot(Subscription("a", [Service.DHCP])))
    source.close()
    commits.close()
    assert UUID(network) in {each.id for page in pages for each in page.put}
    assert cloud.calls.show("network", network)["availability_zones"] == []
    cloud.agents(DHCP, "a/z")
    assert cloud.calls.show("network", network)["availability_zones"] == ["z"]


@pytest.mark.spec("ML2-10")
def test_nothing_moves_when_all_agents_were_silent_during_a_server_outage(
    make: Make,
) -> None:
    cloud = make(failover_grace=40.0)
    cloud.agents(DHCP, "a", "b")
    networks = [cloud.network() for _ in range(4)]
    before = [cloud.hosts(network) for network in networks]
    for host in "ab":
        grow_old(cloud.context, host, 300)
    cloud.agents(DHCP, "b")
    assert cloud.rescheduler.reconcile() == 0, "the other one has had no chance to report"
    assert [cloud.hosts(network) for network in networks] == before


@pytest.mark.spec("ML2-10")
def test_an_agent_that_is_silent_for_less_than_the_grace_period_keeps_its_networks(
    make: Make,
) -> None:
    cloud = make(failover_grace=0.2, dhcp_agents_per_network=2)
    cloud.agents(DHCP, "a", "b")
    network = cloud.network()
    cloud.agents(DHCP, "c", "d")
    grow_old(cloud.context, "a", 300)
    assert cloud.rescheduler.reconcile() == 0
    time.sleep(0.3)
    grow_old(cloud.context, "b", 300)
    assert cloud.rescheduler.reconcile() == 1
    left, new = cloud.hosts(network)
    assert left == "b"
    assert new in {"c", "d"}


@pytest.mark.spec("ML2-10")
def test_a_host_seen_silent_for_the_grace_period_without_a_gap_is_dead() -> None:
    now = [0.0]
    suspicion = FailureDetector(40.0, 70.0, lambda: now[0])

    def look(at: float, *silent: str) -> set[str]:
        now[0] = at
        return set(suspicion.confirmed(silent))

    assert look(0, "a", "b") == set()
    assert look(30, "a", "b") == set()
    assert look(45, "a") == {"a"}, "b is back"
    assert look(80, "a", "b") == {"a"}
    assert look(130, "a", "b") == {"a", "b"}
    assert look(230, "a", "b") == set(), "no observation for 100 s"
    assert look(275, "a", "b") == {"a", "b"}


def test_a_started_rescheduler_reconciles_in_its_own_thread(make: Make) -> None:
    cloud = make()
    network = cloud.network()
    cloud.rescheduler.start()
    try:
        cloud.agents(DHCP, "a")
    finally:
        cloud.rescheduler.close()
    cloud.rescheduler.reconcile()
    assert cloud.hosts(network) == ["a"]


def test_more_routers_wait_for_agents_than_a_statement_has_values(make: Make) -> None:
    cloud = make()
    leading = UUID(cloud.router())
    reading = cloud.database.reading
    event.listen(reading, "connect", _allow_six_hundred_values)
    reading.dispose()
    ids = {leading, *(uuid4() for _ in range(700))}
    found = cloud.database.read(lambda view: find_routers_with_ports(view, ids))
    assert found == {leading}


def _allow_six_hundred_values(connection: sqlite3.Connection, _: object) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 600)
