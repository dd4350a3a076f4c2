"""Floating IPs, in a whole core on a real database."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import Conflict, Exhausted, InvalidInput, NotFound
from netfw.model.resource import Kind
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Layer3

pytestmark = pytest.mark.spec("API-06")

TARGET = ("port_id", "fixed_ip_address", "router_id")


class FloatingIpEnvironment:
    """A network with a router that leads out."""

    def __init__(self, core: Layer3) -> None:
        self.core = core
        self.outside, self.outer_subnet = core.outside()
        self.network, self.subnet = core.inside()
        self.router = core.router(external_gateway_info={"network_id": self.outside})
        core.connect(self.router, subnet_id=self.subnet)

    def port(self, **body: Any) -> str:
        return str(self.core.port(self.network, **body)["id"])

    def floating(self, **body: Any) -> dict[str, Any]:
        return self.core.create("floatingip", floating_network_id=self.outside, **body)


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


@pytest.fixture
def env(core: Layer3) -> FloatingIpEnvironment:
    return FloatingIpEnvironment(core)


class TestTheAddress:
    def test_is_held_by_a_port_of_the_server_itself(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        made = env.floating(description="d", dns_name="web", dns_domain="example.org.")
        (port,) = core.ports_of(made["id"])
        assert (port["device_owner"], port["project_id"]) == ("network:floatingip", "")
        assert [each["ip_address"] for each in port["fixed_ips"]] == [made["floating_ip_address"]]
        assert [made[name] for name in (*TARGET, "port_details")] == [None] * 4
        assert (made["status"], made["project_id"]) == ("DOWN", "anna")
        assert (made["description"], made["dns_name"]) == ("d", "web")
        with pytest.raises(NotFound):
            core.show("floatingip", made["id"], BERT)
        with pytest.raises(Conflict, match="floating"):
            core.delete("port", port["id"], ADMIN)
        core.delete("floatingip", made["id"])
        assert core.ports_of(made["id"]) == []

    def test_is_the_requested_one(self, core: Layer3, env: FloatingIpEnvironment) -> None:
        made = env.floating(floating_ip_address="203.0.113.77")
        assert made["floating_ip_address"] == "203.0.113.77"
        with pytest.raises(Conflict, match=r"203\.0\.113\.77"):
            env.floating(floating_ip_address="203.0.113.77")
        with pytest.raises(InvalidInput) as caught:
            env.floating(floating_ip_address="192.0.2.1")
        assert caught.value.problems == {
            "floating_ip_address": "192.0.2.1 is in no subnet of the external network"
        }
        core.delete("floatingip", made["id"])
        env.floating(floating_ip_address="203.0.113.77")

    def test_is_of_the_requested_subnet(self, core: Layer3, env: FloatingIpEnvironment) -> None:
        other = core.subnet(env.outside, "198.51.100.0/24", ADMIN)
        assert env.floating(subnet_id=other)["floating_ip_address"].startswith("198.51.100.")
        with pytest.raises(InvalidInput) as caught:
            env.floating(subnet_id=env.subnet)
        assert "subnet_id" in caught.value.problems

    def test_is_of_the_next_subnet_when_one_is_used_up(self, core: Layer3) -> None:
        outside, _ = core.outside("203.0.113.0/30")
        core.subnet(outside, "2001:db8::/64", ADMIN)
        core.subnet(outside, "198.51.100.0/30", ADMIN)

        def another() -> str:
            made = core.create("floatingip", floating_network_id=outside)
            (port,) = core.ports_of(made["id"])
            assert len(port["fixed_ips"]) == 1
            return str(made["floating_ip_address"])

        assert {another(), another()} == {"203.0.113.2", "198.51.100.2"}
        with pytest.raises(Conflict):
            another()

    def test_is_on_an_external_network_with_ipv4(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        with pytest.raises(InvalidInput, match=r"not external \(router:external\)"):
            core.create("floatingip", floating_network_id=env.network)
        with pytest.raises(NotFound):
            core.create("floatingip", floating_network_id=str(uuid4()))
        bare = core.network(ADMIN, **{"router:external": True})
        core.subnet(bare, "2001:db8::/64", ADMIN)
        with pytest.raises(InvalidInput, match="no IPv4 subnet"):
            core.create("floatingip", floating_network_id=bare)
        env.floating()
        core.update("router", env.router, external_gateway_info=None)
        with pytest.raises(Conflict, match="floating IPs"):
            core.update("network", env.outside, ADMIN, **{"router:external": False})

    def test_is_counted(self, file_database: Database) -> None:
        core = Layer3(file_database, {"floatingip": 1})
        env = FloatingIpEnvironment(core)
        made = env.floating()
        with pytest.raises(Exhausted, match="floatingip"):
            env.floating()
        core.delete("floatingip", made["id"])
        env.floating()


class TestAnAssociation:
    def test_leads_over_the_router_between(self, core: Layer3, env: FloatingIpEnvironment) -> None:
        port = env.port(name="web")
        made = env.floating(port_id=port)
        assert made["router_id"] == env.router
        assert made["fixed_ip_address"] == core.show("port", port)["fixed_ips"][0]["ip_address"]
        assert made["port_details"]["name"] == "web"
        assert core.show("floatingip", made["id"], ANNA) == made

    def test_is_made_changed_and_ended_later(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        one, two = env.port(), env.port()
        id = env.floating()["id"]
        assert core.update("floatingip", id, port_id=one)["port_id"] == one
        after = core.update("floatingip", id, port_id=two)
        assert (after["port_id"], after["router_id"]) == (two, env.router)
        assert core.update("floatingip", id, description="x")["port_id"] == two
        after = core.update("floatingip", id, port_id=None)
        assert [after[name] for name in TARGET] == [None, None, None]
        assert core.update("floatingip", id, port_id=one)["port_id"] == one
        assert core.update("floatingip", id)["port_id"] is None

    def test_is_with_one_address_of_the_port(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        ips = [{"subnet_id": env.subnet, "ip_address": f"10.0.0.{n}"} for n in (50, 51)]
        port = env.port(fixed_ips=ips)
        id = env.floating()["id"]
        with pytest.raises(InvalidInput, match="several"):
            core.update("floatingip", id, port_id=port)
        with pytest.raises(InvalidInput, match="does not have"):
            core.update("floatingip", id, port_id=port, fixed_ip_address="10.0.0.52")
        after = core.update("floatingip", id, port_id=port, fixed_ip_address="10.0.0.51")
        assert after["fixed_ip_address"] == "10.0.0.51"
        after = core.update("floatingip", id, fixed_ip_address="10.0.0.50")
        assert after["fixed_ip_address"] == "10.0.0.50"
        with pytest.raises(InvalidInput, match="name port_id"):
            env.floating(fixed_ip_address="10.0.0.50")
        other = env.floating(port_id=port, fixed_ip_address="10.0.0.51")
        assert other["router_id"] == env.router

    def test_is_the_only_one_of_an_address_on_a_network(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        port = env.port()
        first = env.floating(port_id=port)
        with pytest.raises(Conflict, match=first["floating_ip_address"]):
            env.floating(port_id=port)
        second = env.floating()
        with pytest.raises(Conflict, match="already"):
            core.update("floatingip", second["id"], port_id=port)
        core.update("floatingip", first["id"], port_id=port)
        core.update("floatingip", first["id"], port_id=None)
        core.update("floatingip", second["id"], port_id=port)

    def test_needs_a_router_that_leads_there(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        lonely, _ = core.inside("10.3.0.0/24")
        with pytest.raises(NotFound, match="no router leads"):
            env.floating(port_id=core.port(lonely)["id"])
        elsewhere, _ = core.outside("198.51.100.0/24")
        with pytest.raises(NotFound, match=elsewhere):
            core.create("floatingip", floating_network_id=elsewhere, port_id=env.port())
        id = env.floating()["id"]
        with pytest.raises(NotFound, match="no router leads"):
            core.update("floatingip", id, port_id=core.port(lonely)["id"])
        assert len(core.find("floatingip")) == 1

    def test_prefers_the_router_that_hosts_take_for_their_gateway(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        other = core.router(external_gateway_info={"network_id": env.outside})
        beside = core.connect(other, port_id=env.port())["port_id"]
        while core.find("port", device_id=env.router, network_id=env.network)[0]["id"] < beside:
            core.disconnect(env.router, subnet_id=env.subnet)
            core.connect(env.router, subnet_id=env.subnet)
        assert env.floating(port_id=env.port())["router_id"] == env.router

    @pytest.mark.parametrize("device", ["rubbish", "", "6b0f8a1e-5d3c-4f7a-9b57-000000000001"])
    def test_is_not_led_astray_by_ports_that_only_say_they_are_of_a_router(
        self, core: Layer3, env: FloatingIpEnvironment, device: str
    ) -> None:
        interface = {"device_owner": "network:router_interface", "device_id": device}
        for _ in range(2):
            core.port(env.network, ADMIN, **interface)
        assert env.floating(port_id=env.port())["router_id"] == env.router
        network, _ = core.inside("10.5.0.0/24")
        core.port(network, ADMIN, **interface)
        with pytest.raises(NotFound, match="no router leads"):
            env.floating(port_id=core.port(network)["id"])

    def test_is_with_a_port_of_ones_own_that_has_ipv4(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        with pytest.raises(NotFound):
            env.floating(port_id=str(uuid4()))
        theirs, _ = core.inside("10.4.0.0/24", BERT)
        with pytest.raises(NotFound):
            env.floating(port_id=core.port(theirs, BERT)["id"])
        guest = core.port(env.network, ADMIN, project_id="bert")
        with pytest.raises(InvalidInput, match="another project"):
            env.floating(port_id=guest["id"])
        with pytest.raises(InvalidInput, match="no IPv4"):
            env.floating(port_id=env.port(fixed_ips=[]))

    def test_ends_with_the_port(self, core: Layer3, env: FloatingIpEnvironment) -> None:
        port = env.port()
        made = env.floating(port_id=port)
        changes: list[Change] = []
        core.context.precommit_hooks.append(lambda unit, change: changes.append(change))
        core.delete("port", port)
        after = core.show("floatingip", made["id"])
        assert [after[name] for name in TARGET] == [None, None, None]
        assert after["revision_number"] == made["revision_number"] + 1
        assert Kind.FLOATING_IP in {change.ref.kind for change in changes}

    def test_ends_with_the_address(self, core: Layer3, env: FloatingIpEnvironment) -> None:
        port = env.port(fixed_ips=[{"ip_address": "10.0.0.50"}])
        made = env.floating(port_id=port)
        both = [{"ip_address": "10.0.0.50"}, {"ip_address": "10.0.0.51"}]
        core.update("port", port, fixed_ips=both)
        assert core.show("floatingip", made["id"])["port_id"] == port
        core.update("port", port, name="still")
        core.update("port", port, fixed_ips=both[:1])
        assert core.show("floatingip", made["id"])["port_id"] == port
        core.update("port", port, fixed_ips=both)
        core.update("port", port, fixed_ips=both[1:])
        assert core.show("floatingip", made["id"])["port_id"] is None

    def test_keeps_the_routers_way_out_and_in(
        self, core: Layer3, env: FloatingIpEnvironment
    ) -> None:
        made = env.floating(port_id=env.port())
        elsewhere, _ = core.outside("198.51.100.0/24")
        address = made["floating_ip_address"]
        with pytest.raises(Conflict, match=f"{address}.*disassociate"):
            core.update("router", env.router, external_gateway_info=None)
        with pytest.raises(Conflict, match=address):
            core.lead_out(env.router, elsewhere)
        with pytest.raises(Conflict, match=f"interface on 10.0.0.0/24.*{address}"):
            core.disconnect(env.router, subnet_id=env.subnet)
        _, other = core.inside("10.6.0.0/24")
        core.connect(env.router, subnet_id=other)
        core.disconnect(env.router, subnet_id=other)
        moved = [{"ip_address": "203.0.113.200"}]
        core.lead_out(env.router, env.outside, ADMIN, external_fixed_ips=moved)
        core.update("floatingip", made["id"], port_id=None)
        core.disconnect(env.router, subnet_id=env.subnet)
        core.update("router", env.router, external_gateway_info=None)


def test_floating_ips_are_listed_in_a_number_of_statements_that_does_not_grow(
    core: Layer3, env: FloatingIpEnvironment
) -> None:
    statements: list[str] = []

    def counted(number: int) -> int:
        for _ in range(number):
            env.floating(port_id=env.port())
        statements.clear()
        core.plugin("floatingip").find(ANNA, "floatingip", Query())
        return len(statements)

    event.listen(
        core.context.database.reading,
        "before_cursor_execute",
        lambda *arguments: statements.append(arguments[2]),
    )
    assert counted(1) == counted(7)
