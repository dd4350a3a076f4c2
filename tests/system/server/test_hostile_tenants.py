"""Tenants that attack routers and floating IPs of others: a real server on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from netfw.server.db import Database, migration
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.services.server import PrivateNetfw
from tests.system.server.tenants import Reply, Tenant

pytestmark = [pytest.mark.timeout(300), pytest.mark.spec("API-06", "API-07", "API-13")]

THREADS = 16
NUMBERS = count(1)


class Attack:
    """A victim, an attacker, and an external network for both."""

    def __init__(self, server: PrivateNetfw) -> None:
        self.admin = Tenant(server, "root", "admin")
        self.outside = self.admin.make("networks", **{"router:external": True})["id"]
        body = {"network_id": self.outside, "cidr": "203.0.113.0/24", "ip_version": 4}
        self.admin.make("subnets", **body)
        number = next(NUMBERS)
        self.red, self.blue = (Tenant(server, f"{name}{number}") for name in ("red", "blue"))
        for tenant in (self.red, self.blue):
            tenant.settle(self.outside)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateNetfw]:
    sandbox.require()
    path: Path = tmp_path_factory.mktemp("tenants")
    with ExitStack() as stack:
        (path / "postgres").mkdir()
        postgres = PrivatePostgres(path / "postgres").start()
        stack.callback(postgres.stop)
        url = postgres.create("netfw")
        database = Database(url)
        migration.upgrade(database)
        database.close()
        started = PrivateNetfw(path / "server", {"database": {"connection": url}})
        yield stack.enter_context(started)
        assert "Traceback" not in started.log.read_text()


@pytest.fixture
def attack(server: PrivateNetfw) -> Attack:
    return Attack(server)


def at_once(work: Callable[[int], Reply]) -> Counter[int]:
    """Count the statuses of requests of many threads, which begin together."""
    barrier = Barrier(THREADS)

    def one(number: int) -> int:
        barrier.wait(60)
        return work(number)[0]

    with ThreadPoolExecutor(THREADS) as pool:
        return Counter(pool.map(one, range(THREADS)))


def test_what_another_project_has_is_not_found(attack: Attack) -> None:
    red, blue, outside = attack.red, attack.blue, attack.outside
    made = red.forward(external_port=7, internal_port=7)[1]["port_forwarding"]["id"]
    victims = [
        f"routers/{red.router}",
        f"floatingips/{red.floating}",
        f"floatingips/{red.floating}/port_forwardings/{made}",
        f"floatingips/{blue.floating}/port_forwardings/{made}",
    ]
    for path in victims:
        key = "port_forwarding" if "port_forwardings" in path else path.split("/")[0][:-1]
        assert blue.ask("GET", path)[0] == 404
        assert blue.ask("PUT", path, {key: {"description": "mine"}})[0] == 404
        assert blue.ask("DELETE", path)[0] == 404
    assert blue.forward(floating=red.floating)[0] == 404
    assert blue.forward(port=red.port)[0] == 404
    target = {"floatingip": {"floating_network_id": outside, "port_id": red.port}}
    assert blue.ask("POST", "floatingips", target)[0] == 404
    assert blue.act("add_router_interface", subnet_id=red.subnet)[0] == 404
    assert blue.act("add_router_interface", port_id=red.port)[0] == 404
    for query in (f"port_id={red.port}", f"router_id={red.router}", f"project_id={red.project}"):
        assert blue.ask("GET", f"floatingips?{query}")[1]["floatingips"] == []
    assert [each["id"] for each in red.forwardings()] == [made]


@pytest.mark.parametrize(
    "body",
    [
        {"project_id": "red"},
        {"tenant_id": "red"},
        {"status": "ACTIVE"},
        {"router_id": "7e5f5d7c-8f3e-4c52-a2a5-3a4b7f1f6a00"},
        {"id": "7e5f5d7c-8f3e-4c52-a2a5-3a4b7f1f6a00"},
        {"port_forwardings": []},
    ],
)
def test_attributes_of_the_server_are_refused(attack: Attack, body: dict[str, Any]) -> None:
    blue = attack.blue
    floating = {"floating_network_id": attack.outside, **body}
    assert blue.ask("POST", "floatingips", {"floatingip": floating})[0] == 400
    assert blue.ask("PUT", f"floatingips/{blue.floating}", {"floatingip": body})[0] == 400
    assert blue.ask("PUT", f"routers/{blue.router}", {"router": body})[0] == 400
    assert blue.forward(**body)[0] == 400


def test_one_of_many_threads_gets_an_external_port(attack: Attack) -> None:
    blue = attack.blue
    replies = at_once(lambda n: blue.forward(external_port=443, internal_port=4000 + n))
    assert replies == {201: 1, 400: THREADS - 1}


def test_no_thread_exceeds_the_quota(attack: Attack) -> None:
    blue, limit = attack.blue, {"quota": {"port_forwarding": 3}}
    assert attack.admin.ask("PUT", f"quotas/{blue.project}", limit)[0] == 200
    replies = at_once(lambda n: blue.forward(external_port=2000 + n, internal_port=2000 + n))
    assert replies == {201: 3, 409: THREADS - 3}
    path = f"floatingips/{blue.floating}/port_forwardings"
    many = [
        {"protocol": "udp", "external_port": n, "internal_port": n, "internal_port_id": blue.port}
        for n in range(1, 3001)
    ]
    assert blue.ask("POST", path, {"port_forwardings": many})[0] == 409
    assert len(blue.forwardings()) == 3


def test_what_a_port_forwarding_needs_stays_until_its_port_changes(attack: Attack) -> None:
    blue = attack.blue
    assert blue.forward()[0] == 201
    (interface,) = blue.ask("GET", f"ports?device_id={blue.router}")[1]["ports"]
    refused = [
        blue.ask("DELETE", f"floatingips/{blue.floating}"),
        blue.ask("DELETE", f"routers/{blue.router}"),
        blue.ask("DELETE", f"ports/{interface['id']}"),
        blue.ask("DELETE", f"subnets/{blue.subnet}"),
        blue.ask("PUT", f"ports/{interface['id']}", {"port": {"fixed_ips": []}}),
        blue.ask("PUT", f"ports/{blue.port}", {"port": {"device_owner": "network:dhcp"}}),
        blue.ask("PUT", f"routers/{blue.router}", {"router": {"external_gateway_info": None}}),
        blue.act("remove_router_interface", subnet_id=blue.subnet),
    ]
    assert [status for status, _ in refused] == [409] * len(refused)
    assert blue.ask("PUT", f"ports/{blue.port}", {"port": {"fixed_ips": []}})[0] == 200
    assert blue.forwardings() == []
    assert blue.act("remove_router_interface", subnet_id=blue.subnet)[0] == 200


def test_the_id_of_a_parent_can_be_written_in_other_ways(attack: Attack) -> None:
    red = attack.red
    assert red.forward()[0] == 201
    path = f"floatingips/{red.floating.upper()}/port_forwardings"
    listed = red.ask("GET", path)[1]["port_forwardings"]
    assert listed == red.forwardings() != []
    assert red.ask("GET", f"{path}/{listed[0]['id'].upper()}")[0] == 200
