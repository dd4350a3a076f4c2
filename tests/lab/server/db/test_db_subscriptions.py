"""What readers follow brings exactly what concerns them, whatever is changed in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import select

from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import CursorLost
from netfw.model import (
    AddressGroup,
    AddressGroupId,
    Agent,
    AgentId,
    Binding,
    Direction,
    FixedIp,
    FloatingIp,
    FloatingIpId,
    JsonDocument,
    Router,
    RouterId,
    SecurityGroupRule,
    SecurityGroupRuleId,
)
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.server.db import Database, ReadSnapshot, Transaction
from netfw.server.db.journal.journal import RECENT
from netfw.server.db.journal.topics import readers
from netfw.server.db.schema.tables import SUBSCRIPTIONS
from netfw.server.db.subscriptions.rebuild import rebuild_subscriptions
from netfw.state.dependencies import Assignment, Item, reachable
from tests.lab.server.db.samples import group, network, port, subnet, uid

HOSTS = ("h1", "h2", "h3")
INTERESTS = [Subscription(host, {service}) for host in HOSTS for service in Service]
INTERESTS += [
    Subscription("h1", {Service.L2, Service.POPULATION}),
    Subscription("h2", set(Service)),
]


class Site:
    """A site that changes at random, in a database and in memory."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database, self.chance = database, random.Random(seed)
        self.items: dict[Any, Item] = {}
        for number in (1, 2):
            self.put(network(number))
            self.put(subnet(10 + number, of=number, cidr=f"10.{number}.0.0/16", **BARE))
            self.put(group(20 + number))
        self.put(AddressGroup(id=AddressGroupId(uid(30))))
        for number in (40, 41):
            self.put(Router(id=RouterId(uid(number)), distributed=number == 41))

    def put(self, new: Resource) -> None:
        old = self.items.get(ref(new))

        def work(tx: Transaction) -> Resource:
            if old is None:
                return tx.resources.insert(new)[0]
            return tx.resources.update(old, new)

        self.items[ref(new)] = self.database.transaction(work)

    def remove(self, old: Item) -> None:
        if isinstance(old, Assignment):
            self.database.transaction(lambda tx: tx.assignments.remove(old))
            del self.items[old]
        else:
            self.database.transaction(lambda tx: tx.resources.delete(old))
            del self.items[ref(old)]

    def step(self) -> None:
        choice = self.chance.choice
        makers = [self.port, self.port, self.port, self.rule, self.assignment, self.floating]
        made = choice([*makers, self.agent])()
        if isinstance(made, Assignment):
            if made in self.items:
                self.remove(made)
            else:
                self.database.transaction(lambda tx: tx.assignments.add(made))
                self.items[made] = made
        elif ref(made) in self.items and self.chance.random() < 0.4:
            self.remove(self.items[ref(made)])
        else:
            self.put(made)

    def port(self) -> Resource:
        choice, number = self.chance.choice, self.chance.randrange(100, 108)
        of = choice([1, 2])
        router = choice(
            [None, None, (40, "network:router_interface"), (41, DISTRIBUTED), (41, AGENT_GATEWAY)]
        )
        device, owner = ("", "") if router is None else (str(uid(router[0])), router[1])
        return port(
            number,
            network_id=uid(of),
            fixed_ips=[FixedIp(subnet_id=uid(10 + of), address=f"10.{of}.0.{number}")],
            binding=Binding(
                host=choice(["", *HOSTS]),
                prepared_hosts=self.chance.sample(HOSTS, choice([0, 0, 1])),
            ),
            security_groups=frozenset(map(uid, self.chance.sample([21, 22], choice([0, 1, 2])))),
            device_id=device,
            device_owner=owner,
        )

    def rule(self) -> Resource:
        choice = self.chance.choice
        remote = choice([{}, {"remote_group_id": uid(21)}, {"remote_group_id": uid(22)}, ADDRESSES])
        return SecurityGroupRule(
            id=SecurityGroupRuleId(uid(self.chance.randrange(60, 64))),
            security_group_id=uid(choice([21, 22])),
            direction=Direction.INGRESS,
            **remote,
        )

    def assignment(self) -> Assignment:
        host = self.chance.choice(HOSTS)
        if self.chance.random() < 0.5:
            return Assignment(
                Service.DHCP, host, Ref(Kind.NETWORK, uid(self.chance.choice([1, 2])))
            )
        return Assignment(Service.L3, host, Ref(Kind.ROUTER, uid(self.chance.choice([40, 41]))))

    def floating(self) -> Resource:
        number = self.chance.choice([70, 71])
        there = [item.id for item in self.items.values() if type(item).__name__ == "Port"]
        return FloatingIp(
            id=FloatingIpId(uid(number)),
            network_id=uid(1),
            address=f"192.0.2.{number}",
            port_id=self.chance.choice([None, *there]),
            router_id=self.chance.choice([None, uid(40), uid(41)]),
            host=self.chance.choice([None, None, *HOSTS]),
        )

    def agent(self) -> Resource:
        settings = self.chance.choice(
            [{}, {"tunneling_ip": "192.0.2.9"}, {"routing_mac": "fa:16:3f:00:00:09"}]
        )
        return Agent(
            id=AgentId(uid(80)),
            agent_type="L2",
            binary="x",
            host="h2",
            configurations=JsonDocument(settings),
        )

    def check(self) -> None:
        for interest in INTERESTS:
            names = sorted(readers(interest))

            def look(view: Any, names: list[str] = names) -> set[Ref]:
                active = [each.topic for each in view.topics.of(names) if each.ended is None]
                return set(view.topics.under([*names, *active]))

            expected = set(reachable(self.items.values(), interest))
            assert self.database.read(look) == expected, interest


BARE: dict[str, Any] = {"gateway": None, "allocation_pools": ()}
DISTRIBUTED = "network:router_interface_distributed"
AGENT_GATEWAY = "network:floatingip_agent_gateway"
ADDRESSES = {"remote_address_group_id": uid(30)}


@pytest.mark.spec("RPC-02", "RPC-04")
def test_what_is_under_the_topics_of_a_reader_is_what_concerns_it(database: Database) -> None:
    site = Site(database, seed=1)
    for count in range(40):
        site.step()
        if count % 8 == 0:
            site.check()
    site.check()


@pytest.mark.spec("RPC-08")
def test_rebuilt_subscriptions_are_those_that_transactions_maintain(database: Database) -> None:
    site = Site(database, seed=3)
    for _ in range(60):
        site.step()

    def rows(tx: Transaction) -> set[tuple[str, str, int]]:
        found = tx.connection.execute(select(SUBSCRIPTIONS).where(SUBSCRIPTIONS.c.uses > 0))
        return {(row.reader, row.topic, row.uses) for row in found}

    maintained, cursor = database.transaction(rows), database.read(lambda v: v.journal.cursor())
    assert {"assigned", "distributed", "distributed_peers"} <= {
        topic.partition(":")[0] for _, topic, _ in maintained
    }
    database.transaction(lambda tx: rebuild_subscriptions(tx.connection))
    database.read(lambda view: view.journal.check(view.journal.cursor()))
    assert database.transaction(rows) == maintained
    with pytest.raises(CursorLost):
        database.read(lambda view: view.journal.check(cursor))
    for _ in range(10):
        site.step()
    site.check()


@pytest.mark.spec("RPC-02")
def test_a_reader_finds_in_the_journal_what_concerned_it(database: Database) -> None:
    site = Site(database, seed=2)
    for _ in range(25):
        before = {each: set(reachable(site.items.values(), each)) for each in INTERESTS}
        values = dict(site.items)
        cursor = database.read(lambda view: view.journal.cursor())
        site.step()
        changed = {key for key in {*values, *site.items} if values.get(key) != site.items.get(key)}
        for interest in INTERESTS:
            after = set(reachable(site.items.values(), interest))
            names = sorted(readers(interest))
            entries, late = database.read(
                lambda view, at=cursor.seq, n=names: [
                    view.journal.concerning(at, newest, n, 1000)[0]
                    for newest in (at + 1, at + RECENT + 1)
                ]
            )
            assert entries == late
            published = {entry.ref for entry in entries}
            assert changed & (before[interest] | after) <= published


def test_a_topic_begins_and_ends_with_the_commits_that_say_so(database: Database) -> None:
    name = f"seen:network:{uid(1)}"

    def followed() -> dict[str, Any]:
        found = database.read(lambda view: view.topics.of(["l2@h1"]))
        return {each.topic: each for each in found}

    def change(work: Callable[[Transaction], Any]) -> int:
        database.transaction(work)
        return database.read(lambda view: view.journal.cursor()).seq

    change(lambda tx: tx.resources.insert(network()))
    one, two = (port(number, binding=Binding(host="h1")) for number in (5, 6))
    began = change(lambda tx: tx.resources.insert(one))
    change(lambda tx: tx.resources.insert(two))
    assert (followed()[name].since, followed()[name].ended) == (began, None)
    change(lambda tx: tx.resources.delete(evolve(one, revision=1)))
    assert followed()[name].ended is None
    ended = change(lambda tx: tx.resources.delete(evolve(two, revision=1)))
    assert followed()[name].ended == ended
    again = change(lambda tx: tx.resources.insert(one))
    assert (followed()[name].since, followed()[name].ended) == (again, None)


@pytest.mark.spec("RPC-02")
def test_what_is_old_comes_with_the_router_that_is_assigned(database: Database) -> None:
    floating = FloatingIp(
        id=FloatingIpId(uid(70)),
        network_id=uid(1),
        address="192.0.2.70",
        port_id=uid(5),
        router_id=uid(40),
    )
    interface = port(6, device_owner="network:router_interface", device_id=str(uid(40)))
    old = (network(), port(5), interface, Router(id=RouterId(uid(40))), floating)
    items = {ref(each): each for each in old}
    for each in old:
        database.transaction(lambda tx, each=each: tx.resources.insert(each))
    router = Assignment(Service.L3, "h3", Ref(Kind.ROUTER, uid(40)))
    database.transaction(lambda tx: tx.assignments.add(router))
    names = sorted(readers(Subscription("h3", {Service.L3})))

    def look(view: ReadSnapshot) -> set[Ref]:
        return set(view.topics.under(each.topic for each in view.topics.of(names)))

    assert database.read(look) == items.keys()
    assert database.read(lambda view: view.topics.of(["l3@h1"])) == ()
