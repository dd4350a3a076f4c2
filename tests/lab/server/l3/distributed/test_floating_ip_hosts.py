"""The hosts of floating IPs of distributed routers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event

from netfw.model.values.common_fields import Status
from netfw.server.db import Database
from tests.lab.server.l3.distributed.samples import dvr_router, floating_ip
from tests.lab.server.l3.environment import ADMIN, Json, Layer3
from tests.lab.server.l3.ha_samples import l3_agent
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-19", "L3-62")


class Cloud:
    """A distributed router between a network and the outside, and three hosts: ``one`` and ``two``
    serve floating IPs, ``far`` does not."""

    def __init__(self, database: Database) -> None:
        self.core = Layer3(database)
        for host, mode in (("one", "dvr"), ("two", "dvr_snat"), ("far", "dvr_no_external")):
            l3_agent(self.core, host, mode=mode)
        self.outside, _ = self.core.outside()
        self.network, self.subnet = self.core.inside()
        self.router = self.make_router()

    def make_router(self, **body: Any) -> str:
        router = dvr_router(self.core, **body)
        self.core.connect(router, ADMIN, subnet_id=self.subnet)
        self.core.lead_out(router, self.outside, ADMIN)
        return router

    def port(self, host: str = "", **body: Any) -> Json:
        return self.core.port(self.network, ADMIN, **{"binding:host_id": host, **body})

    def move(self, port: Json, host: str) -> None:
        self.core.update("port", port["id"], ADMIN, **{"binding:host_id": host})

    def floating(self, port: Json | None = None) -> str:
        body = {} if port is None else {"port_id": port["id"]}
        made = self.core.create("floatingip", ADMIN, floating_network_id=self.outside, **body)
        assert "host" not in made
        assert self.core.show("floatingip", made["id"]) == made
        return str(made["id"])

    def host(self, id: str) -> str | None:
        return floating_ip(self.core, id).host


@pytest.fixture
def cloud(file_database: Database) -> Cloud:
    return Cloud(file_database)


def address(port: Json) -> str:
    return str(port["fixed_ips"][0]["ip_address"])


@pytest.mark.parametrize(
    ("host", "expected"),
    [("one", "one"), ("two", "two"), ("far", None), ("stranger", None), ("", None)],
)
def test_it_is_at_the_host_of_the_port_if_that_serves_floating_ips(
    cloud: Cloud, host: str, expected: str | None
) -> None:
    port = cloud.port(host)
    created, updated = cloud.floating(port), cloud.floating()
    assert cloud.host(created) == expected
    cloud.core.update("floatingip", created, ADMIN, port_id=None)
    assert cloud.host(created) is None
    cloud.core.update("floatingip", updated, ADMIN, port_id=port["id"])
    assert cloud.host(updated) == expected


def test_it_follows_the_port(cloud: Cloud) -> None:
    port = cloud.port("one")
    id = cloud.floating(port)
    for host, expected in (("two", "two"), ("far", None), ("one", "one"), ("", None)):
        before = floating_ip(cloud.core, id)
        cloud.move(port, host)
        after = floating_ip(cloud.core, id)
        assert after.host == expected
        assert after.revision == before.revision + 1
    cloud.move(port, "two")
    cloud.core.delete("port", port["id"], ADMIN)
    assert cloud.host(id) is None


def test_that_of_a_plain_router_is_where_the_router_is(cloud: Cloud) -> None:
    network, subnet = cloud.core.inside("10.7.0.0/24")
    router = cloud.core.router()
    cloud.core.connect(router, subnet_id=subnet)
    cloud.core.lead_out(router, cloud.outside)
    port = cloud.core.port(network, ADMIN, **{"binding:host_id": "one"})
    id = cloud.floating(port)
    assert cloud.host(id) is None
    cloud.move(port, "two")
    assert cloud.host(id) is None


def test_it_follows_a_conversion_of_the_router(cloud: Cloud) -> None:
    id = cloud.floating(cloud.port("one"))
    cloud.core.update("router", cloud.router, ADMIN, admin_state_up=False)
    cloud.core.update("router", cloud.router, ADMIN, distributed=False)
    assert cloud.host(id) is None
    cloud.core.update("router", cloud.router, ADMIN, distributed=True)
    assert cloud.host(id) == "one"


@pytest.mark.spec("L3-60", "L3-68")
def test_it_follows_the_mode_of_the_agent(cloud: Cloud) -> None:
    id, other = cloud.floating(cloud.port("one")), cloud.floating(cloud.port("two"))
    for mode, expected in (
        ("dvr_no_external", None),
        ("dvr", "one"),
        ("legacy", None),
        ("dvr_snat", "one"),
    ):
        l3_agent(cloud.core, "one", mode=mode)
        assert cloud.host(id) == expected
        assert cloud.host(other) == "two"
    elsewhere = beat("one", "L3 agent", agent_mode="dvr", enable_inat_enat=True)
    cloud.core.core.agent_services.agents([elsewhere])
    assert cloud.host(id) is None


def test_it_follows_an_agent_that_is_deleted_or_new(cloud: Cloud) -> None:
    id, other = cloud.floating(cloud.port("one")), cloud.floating(cloud.port("new"))
    (agent,) = cloud.core.find("agent", host="one")
    cloud.core.delete("agent", agent["id"], ADMIN)
    assert cloud.host(id) is None
    l3_agent(cloud.core, "new", mode="dvr")
    assert cloud.host(other) == "new"


@pytest.mark.parametrize("prefix", ["{}", "10.0.0.0/24"])
def test_it_is_central_while_other_ports_may_have_its_address(cloud: Cloud, prefix: str) -> None:
    port, other = cloud.port("one"), cloud.port("two")
    id, beside = cloud.floating(port), cloud.floating(other)
    pair = {"ip_address": prefix.format(address(port))}
    user = cloud.port("far", allowed_address_pairs=[pair])
    assert cloud.host(id) is None
    assert cloud.host(beside) == ("two" if prefix == "{}" else None)
    cloud.move(port, "two")
    assert cloud.host(id) is None
    cloud.core.update("port", user["id"], ADMIN, allowed_address_pairs=[])
    assert (cloud.host(id), cloud.host(beside)) == ("two", "two")
    cloud.core.update("port", user["id"], ADMIN, allowed_address_pairs=[pair])
    cloud.core.update("floatingip", id, ADMIN, port_id=None)
    cloud.core.update("floatingip", id, ADMIN, port_id=port["id"])
    assert cloud.host(id) is None
    cloud.core.delete("port", user["id"], ADMIN)
    assert (cloud.host(id), cloud.host(beside)) == ("two", "two")


def test_pairs_of_the_port_itself_and_of_other_networks_do_not_matter(cloud: Cloud) -> None:
    port = cloud.port("one")
    pair = {"ip_address": address(port), "mac_address": "fa:16:3e:00:00:99"}
    id = cloud.floating(port)
    cloud.core.update("port", port["id"], ADMIN, allowed_address_pairs=[pair])
    network, _ = cloud.core.inside()
    cloud.core.port(network, ADMIN, allowed_address_pairs=[{"ip_address": address(port)}])
    cloud.move(port, "two")
    assert cloud.host(id) == "two"


@pytest.mark.parametrize(
    "attribute",
    [
        {"name": '"allowed_address_pairs":[]'},
        {"binding:profile": {"allowed_address_pairs": []}},
    ],
    ids=["name", "profile"],
)
def test_a_text_that_looks_like_a_port_without_pairs(cloud: Cloud, attribute: Json) -> None:
    port = cloud.port("one")
    cloud.port(allowed_address_pairs=[{"ip_address": address(port)}], **attribute)
    assert cloud.host(cloud.floating(port)) is None


def test_one_that_forwards_ports_is_central(cloud: Cloud) -> None:
    port, id = cloud.port("one"), cloud.floating()
    ports = {"protocol": "tcp", "external_port": 80, "internal_port": 80}
    cloud.core.create(
        "port_forwarding", ADMIN, floatingip_id=id, internal_port_id=port["id"], **ports
    )
    assert cloud.host(id) is None
    l3_agent(cloud.core, "one", mode="dvr_snat")
    cloud.move(port, "two")
    assert (cloud.host(id), floating_ip(cloud.core, id).router_id) == (None, UUID(cloud.router))


def test_one_that_moves_is_down_until_its_host_reports(cloud: Cloud) -> None:
    port = cloud.port("one")
    id = cloud.floating(port)
    cloud.move(port, "far")
    assert floating_ip(cloud.core, id).status is Status.DOWN


def test_cost_does_not_grow_with_other_ports(cloud: Cloud) -> None:
    port, _, _ = (cloud.port(host) for host in ("one", "one", "two"))
    cloud.floating(port)

    def statements(host: str) -> int:
        executed: list[str] = []
        engine = cloud.core.context.database.writing

        def note(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
            executed.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        cloud.move(port, host)
        event.remove(engine, "before_cursor_execute", note)
        return len(executed)

    for host in ("two", "one", "two"):
        statements(host)
    few = statements("one")
    for _ in range(20):
        cloud.floating(cloud.port("one"))
    statements("two")
    assert statements("one") == few
