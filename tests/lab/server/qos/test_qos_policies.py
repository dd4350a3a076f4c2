"""QoS policies on real databases: at once, and on their way to hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import Conflict, RequestError
from netfw.errors.qos import QosPolicyInUse, QosPolicyNotFound
from netfw.model.qos import BandwidthLimit, QosPolicy
from netfw.model.resource import Kind, Ref
from netfw.server.db import Database, migration
from netfw.server.qos.policies import QosPlugin
from netfw.server.state_source import CommitWatcher, DatabaseSource
from netfw.state.dependencies import Assignment
from netfw.testing.conformance.state_source.environment import Follower
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3

pytestmark = pytest.mark.spec("API-07")

ROUNDS = 12
WORKERS = 4


class Site(Layer3):
    """A core with routers and QoS policies."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, mechanisms=(OvsMechanismDriver(),))
        self.qos = QosPlugin(self.context)
        self.plugins = (*self.plugins, self.qos)  # type: ignore[assignment]

    def policy(self, **body: Any) -> str:
        return str(self.create("policy", ADMIN, **{"project_id": "anna", **body})["id"])

    def limit(self, policy: str, rate: int) -> str:
        body = {"policy_id": policy, "max_kbps": rate}
        return str(self.qos.create(ADMIN, "bandwidth_limit_rule", [body])[0]["id"])


@pytest.fixture
def core(database: Database) -> Site:
    return Site(database)


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Return the results of *works*, which begin together; of a refused one the error."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        start.wait(60)
        try:
            return work()
        except RequestError as exc:
            return exc

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


@pytest.mark.spec("API-06")
def test_a_project_gets_one_default_policy(core: Site) -> None:
    for number in range(ROUNDS // 3):
        project = f"p{number}"

        def make(project: str = project) -> str:
            return core.policy(project_id=project, is_default=True)

        outcomes = at_once(*[make] * WORKERS)
        refused = [each for each in outcomes if isinstance(each, RequestError)]
        names = {type(each).__name__ for each in refused}
        assert (len(refused), names) == (WORKERS - 1, {"QoSPolicyDefaultAlreadyExists"}), outcomes
        assert len(core.find("policy", project_id=project)) == 1


@pytest.mark.spec("API-06")
def test_a_policy_is_deleted_or_used_and_never_both(core: Site) -> None:
    for _ in range(ROUNDS):
        policy = core.policy()

        def delete(policy: str = policy) -> None:
            core.delete("policy", policy, ADMIN)

        def use(policy: str = policy) -> str:
            return core.network(qos_policy_id=policy)

        gone, network = at_once(delete, use)
        if gone is None:
            assert isinstance(network, QosPolicyNotFound | Conflict)
            assert core.find("policy", id=policy) == []
            continue
        assert isinstance(gone, QosPolicyInUse)
        assert core.show("network", network)["qos_policy_id"] == policy
        core.delete("network", network)


@pytest.mark.spec("API-06")
def test_rules_that_are_made_at_once_do_not_overwrite_each_other(core: Site) -> None:
    policy = core.policy()

    def limit() -> str:
        return core.limit(policy, 5)

    def mark() -> str:
        body = {"policy_id": policy, "dscp_mark": 8}
        return str(core.qos.create(ADMIN, "dscp_marking_rule", [body])[0]["id"])

    outcomes = at_once(limit, mark, limit, mark)
    made = sorted(each for each in outcomes if isinstance(each, str))
    shown = core.show("policy", policy)
    assert sorted(rule["id"] for rule in shown["rules"]) == made
    assert len(made) == 2
    assert shown["revision_number"] == 3


def test_the_database_itself_keeps_a_policy_that_is_in_use(core: Site) -> None:
    policy = core.policy()
    network, subnet = core.inside()
    core.update("network", network, qos_policy_id=policy)
    with pytest.raises(Conflict, match="in use"):
        core.context.run(ADMIN, lambda unit: unit.tx.resources.delete(_stored(unit, policy)))
    core.delete("subnet", subnet)
    core.delete("network", network)
    core.delete("policy", policy, ADMIN)


def _stored(unit: Any, policy: str) -> Any:
    return unit.tx.resources.get(Kind.QOS_POLICY, UUID(policy), lock=True).resource()


@contextmanager
def following(core: Site, *hosts: Subscription) -> Iterator[list[Follower]]:
    commits = CommitWatcher(core.context.database)
    source = DatabaseSource(
        core.context.database,
        commits,
        handle_reports=core.plugin("network").handle_reports,
        handle_request=core.plugin("network").handle_request,
    )
    try:
        yield [Follower(source, each) for each in hosts]
    finally:
        source.close()
        commits.close()


def received(follower: Follower) -> dict[str, list[int]]:
    """Return the policies at a host, by id, with the rates of their limits."""
    policies = [each for each in follower.catch_up().values() if isinstance(each, QosPolicy)]
    return {
        str(each.id): [rule.max_kbps for rule in each.rules if isinstance(rule, BandwidthLimit)]
        for each in policies
    }


def test_a_changed_policy_reaches_the_hosts_that_use_it(file_database: Database) -> None:
    core = Site(file_database)
    network, _ = core.inside()
    here, there = (Subscription(each, {Service.L2}) for each in ("here", "there"))
    own, inherited = core.policy(), core.policy()
    with following(core, here, there) as (first, second):
        port = core.port(network, ADMIN, project_id="anna", **{"binding:host_id": "here"})["id"]
        assert received(first) == {}
        core.update("network", network, qos_policy_id=inherited)
        assert received(first) == {inherited: []}
        core.update("port", port, qos_policy_id=own)
        assert received(first) == {own: [], inherited: []}
        rule = core.limit(own, 1000)
        assert received(first)[own] == [1000]
        core.update("bandwidth_limit_rule", f"{own}/{rule}", ADMIN, max_kbps=2000)
        core.limit(inherited, 7)
        assert received(first) == {own: [2000], inherited: [7]}
        assert received(second) == {}
        core.update("port", port, ADMIN, **{"binding:host_id": "there"})
        assert (received(first), received(second)) == ({}, {own: [2000], inherited: [7]})
        core.update("port", port, qos_policy_id=None)
        core.update("network", network, qos_policy_id=None)
        assert received(second) == {}


def test_policies_of_floating_ips_and_gateways_reach_the_router(file_database: Database) -> None:
    core = Site(file_database)
    outside, _ = core.outside()
    network, subnet = core.inside()
    router = core.router(external_gateway_info={"network_id": outside})
    core.connect(router, subnet_id=subnet)
    port = core.port(network)["id"]
    target = Ref(Kind.ROUTER, UUID(router))
    core.context.run(
        ADMIN, lambda unit: unit.tx.assignments.add(Assignment(Service.L3, "l3", target))
    )
    of_address, of_gateway, of_network = core.policy(), core.policy(), core.policy()
    floating = core.create("floatingip", floating_network_id=outside, port_id=port)["id"]
    with following(core, Subscription("l3", {Service.L3})) as (host,):
        assert received(host) == {}
        core.update("floatingip", floating, qos_policy_id=of_address)
        assert received(host) == {of_address: []}
        core.lead_out(router, outside, qos_policy_id=of_gateway)
        core.update("network", outside, ADMIN, qos_policy_id=of_network)
        assert received(host).keys() == {of_address, of_gateway, of_network}
        core.limit(of_address, 5)
        core.limit(of_gateway, 6)
        core.limit(of_network, 7)
        assert received(host) == {of_address: [5], of_gateway: [6], of_network: [7]}
        core.update("floatingip", floating, qos_policy_id=None)
        core.lead_out(router, outside, qos_policy_id=None)
        assert received(host) == {of_network: [7]}


def test_a_member_uses_the_default_policy_that_it_may_not_see(core: Site) -> None:
    policy = core.policy(is_default=True)
    assert core.show("network", core.network(ANNA))["qos_policy_id"] == policy


@pytest.mark.spec("ML2-11")
def test_gateways_lose_policies_that_were_never_there(database: Database) -> None:
    core = Site(database)
    outside, _ = core.outside()
    policy = core.policy()
    router = core.router(external_gateway_info={"network_id": outside, "qos_policy_id": policy})
    plain = core.router(external_gateway_info={"network_id": outside})
    before = core.show("router", plain)
    migration.downgrade(database, "0015")
    migration.upgrade(database)
    assert core.show("router", router)["external_gateway_info"]["qos_policy_id"] is None
    assert core.show("router", plain) == before
    assert core.find("policy") == []
    again = core.policy()
    assert core.lead_out(router, outside, qos_policy_id=again)["revision_number"] > 1
    assert migration.differences(database) == ()
