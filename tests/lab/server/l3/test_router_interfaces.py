"""Interfaces and routes of routers, in a whole core on a real database."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from netfw.errors import Conflict, Forbidden, InvalidInput, NotFound
from netfw.errors.networks import SubnetMismatchForPort
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Layer3

pytestmark = pytest.mark.spec("API-06")


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


def addresses(port: dict[str, Any]) -> list[str]:
    return sorted(fixed["ip_address"] for fixed in port["fixed_ips"])


class TestAnInterfaceBySubnet:
    def test_takes_the_gateway_address(self, core: Layer3) -> None:
        network, subnet = core.inside()
        id = core.router()
        answer = core.connect(id, subnet_id=subnet)
        (port,) = core.ports_of(id)
        assert answer == {
            "id": id,
            "project_id": "anna",
            "tenant_id": "anna",
            "port_id": port["id"],
            "network_id": network,
            "subnet_id": subnet,
            "subnet_ids": [subnet],
            "tags": [],
        }
        assert addresses(port) == ["10.0.0.1"]
        assert (port["device_owner"], port["project_id"]) == ("network:router_interface", "anna")
        assert core.show("router", id)["revision_number"] == 2

    @pytest.mark.parametrize(
        ("kind", "owner"),
        [
            ({"ha": True}, "network:ha_router_replicated_interface"),
            ({"distributed": True}, "network:router_interface_distributed"),
        ],
    )
    def test_has_the_owner_of_its_kind_of_router(
        self, core: Layer3, kind: dict[str, bool], owner: str
    ) -> None:
        _, subnet = core.inside()
        id = core.router(ADMIN, **kind)
        core.connect(id, ADMIN, subnet_id=subnet)
        assert [port["device_owner"] for port in core.ports_of(id)] == [owner]

    def test_needs_a_subnet_that_the_requester_sees_and_can_be_a_gateway_of(
        self, core: Layer3
    ) -> None:
        network, subnet = core.inside()
        with pytest.raises(NotFound):
            core.connect(core.router(BERT), BERT, subnet_id=subnet)
        with pytest.raises(NotFound):
            core.connect(core.router(), subnet_id=str(uuid4()))
        bare = core.subnet(network, "10.9.0.0/24", gateway_ip=None)
        with pytest.raises(InvalidInput, match="no gateway address"):
            core.connect(core.router(), subnet_id=bare)

    @pytest.mark.spec("API-09")
    @pytest.mark.parametrize("cidr", ["10.0.0.0/24", "2001:db8::/64"])
    def test_is_for_the_owner_of_a_shared_network_and_others_bring_a_port(
        self, core: Layer3, cidr: str
    ) -> None:
        network, subnet = core.inside(cidr)
        core.update("network", network, ADMIN, shared=True)
        id = core.router(BERT)
        with pytest.raises(Forbidden, match="gateway of a network that another project owns"):
            core.connect(id, BERT, subnet_id=subnet)
        port = core.port(network, BERT)
        core.connect(id, BERT, port_id=port["id"])
        core.disconnect(id, BERT, subnet_id=subnet)
        core.connect(core.router(ADMIN), ADMIN, subnet_id=subnet)

    def test_needs_the_gateway_address_to_be_free(self, core: Layer3) -> None:
        _, subnet = core.inside()
        core.connect(core.router(), subnet_id=subnet)
        second = core.router()
        with pytest.raises(Conflict, match=r"10\.0\.0\.1"):
            core.connect(second, subnet_id=subnet)
        assert core.ports_of(second) == []

    def test_is_there_once_and_apart_from_others(self, core: Layer3) -> None:
        _, subnet = core.inside("10.0.0.0/16")
        _, within = core.inside("10.0.7.0/24")
        id = core.router()
        core.connect(id, subnet_id=subnet)
        with pytest.raises(InvalidInput, match="already"):
            core.connect(id, subnet_id=subnet)
        with pytest.raises(InvalidInput, match="overlaps"):
            core.connect(id, subnet_id=within)
        assert len(core.ports_of(id)) == 1

    def test_shares_its_port_with_other_ipv6_subnets_of_the_network(self, core: Layer3) -> None:
        network, four = core.inside()
        one = core.subnet(network, "2001:db8:1::/64")
        two = core.subnet(network, "2001:db8:2::/64")
        id = core.router()
        ports = [core.connect(id, subnet_id=each)["port_id"] for each in (four, one, two)]
        assert ports[0] != ports[1] == ports[2]
        shared = core.show("port", ports[1])
        assert {fixed["subnet_id"] for fixed in shared["fixed_ips"]} == {one, two}
        answer = core.disconnect(id, subnet_id=one)
        assert (answer["port_id"], answer["subnet_ids"]) == (ports[1], [one])
        left = core.show("port", ports[1])
        assert {fixed["subnet_id"] for fixed in left["fixed_ips"]} == {two}
        core.disconnect(id, subnet_id=two)
        assert len(core.ports_of(id)) == 1

    def test_is_not_where_a_strange_router_announces(self, core: Layer3) -> None:
        network = core.network()
        subnet = core.subnet(network, "2001:db8::/64", ipv6_address_mode="slaac")
        with pytest.raises(InvalidInput, match="not ours"):
            core.connect(core.router(), subnet_id=subnet)

    def test_stands_against_deleting_the_subnet_the_network_and_the_port(
        self, core: Layer3
    ) -> None:
        network, subnet = core.inside()
        answer = core.connect(core.router(), subnet_id=subnet)
        with pytest.raises(Conflict):
            core.delete("subnet", subnet)
        with pytest.raises(Conflict):
            core.delete("network", network)
        with pytest.raises(Conflict, match="router"):
            core.delete("port", answer["port_id"])


class TestAnInterfaceByPort:
    def test_becomes_the_routers(self, core: Layer3) -> None:
        network, subnet = core.inside()
        port = core.port(network)
        id = core.router()
        answer = core.connect(id, port_id=port["id"])
        assert (answer["port_id"], answer["subnet_ids"]) == (port["id"], [subnet])
        after = core.show("port", port["id"])
        assert (after["device_id"], after["device_owner"]) == (id, "network:router_interface")
        assert after["fixed_ips"] == port["fixed_ips"]

    def test_belongs_to_no_other_device(self, core: Layer3) -> None:
        network, _ = core.inside()
        used = core.port(network, device_id="vm", device_owner="compute:nova")
        id = core.router()
        with pytest.raises(Conflict, match="compute:nova vm"):
            core.connect(id, port_id=used["id"])
        free = core.port(network)
        core.connect(id, port_id=free["id"])
        with pytest.raises(Conflict, match="in use"):
            core.connect(id, port_id=free["id"])
        with pytest.raises(NotFound):
            core.connect(core.router(BERT), BERT, port_id=core.port(network)["id"])
        with pytest.raises(NotFound):
            core.connect(id, port_id=str(uuid4()))
        core.update("network", network, ADMIN, shared=True)
        theirs = core.port(network, BERT)  # which the network's owner sees, and may not change
        with pytest.raises(Forbidden, match="belongs to another project"):
            core.connect(core.router(), port_id=theirs["id"])

    def test_has_addresses_that_a_router_can_have(self, core: Layer3) -> None:
        network, subnet = core.inside()
        other = core.subnet(network, "10.1.0.0/24")
        id = core.router()
        bare = core.port(network, fixed_ips=[])
        with pytest.raises(InvalidInput, match="no address"):
            core.connect(id, port_id=bare["id"])
        both = core.port(network, fixed_ips=[{"subnet_id": subnet}, {"subnet_id": other}])
        with pytest.raises(InvalidInput, match="several IPv4"):
            core.connect(id, port_id=both["id"])
        core.connect(id, subnet_id=subnet)
        again = core.port(network, fixed_ips=[{"subnet_id": subnet}])
        with pytest.raises(InvalidInput, match="already"):
            core.connect(id, port_id=again["id"])
        core.connect(id, port_id=core.port(network, fixed_ips=[{"subnet_id": other}])["id"])

    def test_is_the_only_one_for_ipv6_on_its_network(self, core: Layer3) -> None:
        network = core.network()
        one, two = (core.subnet(network, f"2001:db8:{n}::/64") for n in (1, 2))
        ports = [core.port(network, fixed_ips=[{"subnet_id": each}]) for each in (one, two)]
        id = core.router()
        core.connect(id, port_id=ports[0]["id"])
        with pytest.raises(InvalidInput, match=ports[0]["id"]):
            core.connect(id, port_id=ports[1]["id"])

    def test_goes_with_the_connection(self, core: Layer3) -> None:
        network, _ = core.inside()
        port = core.port(network)
        id = core.router()
        core.connect(id, port_id=port["id"])
        assert core.disconnect(id, port_id=port["id"])["port_id"] == port["id"]
        with pytest.raises(NotFound):
            core.show("port", port["id"])


class TestDisconnecting:
    def test_names_an_interface_that_there_is(self, core: Layer3) -> None:
        network, subnet = core.inside()
        _, other = core.inside("10.5.0.0/24")
        id = core.router()
        answer = core.connect(id, subnet_id=subnet)
        with pytest.raises(InvalidInput, match="port_id"):
            core.disconnect(id)
        with pytest.raises(NotFound, match=other):
            core.disconnect(id, subnet_id=other)
        with pytest.raises(NotFound):
            core.disconnect(id, port_id=core.port(network)["id"])
        with pytest.raises(SubnetMismatchForPort, match="not on subnet"):
            core.disconnect(id, port_id=answer["port_id"], subnet_id=other)
        core.disconnect(id, port_id=answer["port_id"], subnet_id=subnet)
        assert core.ports_of(id) == []

    def test_frees_the_address(self, core: Layer3) -> None:
        _, subnet = core.inside()
        one, two = core.router(), core.router()
        core.connect(one, subnet_id=subnet)
        core.disconnect(one, subnet_id=subnet)
        core.connect(two, subnet_id=subnet)

    def test_says_one_of_two_when_connecting(self, core: Layer3) -> None:
        network, subnet = core.inside()
        id = core.router()
        for body in ({}, {"subnet_id": subnet, "port_id": core.port(network)["id"]}):
            with pytest.raises(InvalidInput, match="either"):
                core.connect(id, **body)


def route(destination: str, nexthop: str) -> dict[str, str]:
    return {"destination": destination, "nexthop": nexthop}


class TestRoutes:
    @pytest.fixture
    def id(self, core: Layer3) -> str:
        self.outside, _ = core.outside()
        _, self.subnet = core.inside()
        router = core.router(external_gateway_info={"network_id": self.outside})
        core.connect(router, subnet_id=self.subnet)
        return router

    def test_lead_over_connected_subnets(self, core: Layer3, id: str) -> None:
        routes = [route("192.0.2.0/24", "10.0.0.9"), route("198.51.100.0/24", "203.0.113.200")]
        assert core.update("router", id, routes=routes)["routes"] == routes
        assert core.update("router", id, routes=[])["routes"] == []

    @pytest.mark.parametrize(
        ("hop", "why"),
        [("10.7.0.9", "no subnet"), ("10.0.0.1", "own address"), ("2001:db8::1", "family")],
    )
    def test_refuse_unreachable_and_own_next_hops(
        self, core: Layer3, id: str, hop: str, why: str
    ) -> None:
        good = route("192.0.2.0/24", "10.0.0.9")
        with pytest.raises(InvalidInput, match=why) as caught:
            core.update("router", id, routes=[good, route("198.51.100.0/24", hop)])
        assert any("routes[1]" in path for path in caught.value.problems)
        assert core.show("router", id)["routes"] == []

    def test_are_not_repeated_and_not_too_many(self, core: Layer3, id: str) -> None:
        good = route("192.0.2.0/24", "10.0.0.9")
        with pytest.raises(InvalidInput, match="twice"):
            core.update("router", id, routes=[good, good])
        many = [route(f"192.0.2.{n}/32", "10.0.0.9") for n in range(6)]
        with pytest.raises(InvalidInput, match="more than the 5"):
            core.update("router", id, routes=many)
        core.update("router", id, routes=many[:5])

    def test_are_added_and_removed_one_by_one(self, core: Layer3, id: str) -> None:
        one, two = route("192.0.2.0/24", "10.0.0.9"), route("198.51.100.0/24", "10.0.0.9")
        assert core.act(id, "add_extraroutes", routes=[one])["routes"] == [one]
        assert core.act(id, "add_extraroutes", routes=[two, one])["routes"] == [one, two]
        assert core.act(id, "remove_extraroutes", routes=[one])["routes"] == [two]
        assert core.act(id, "remove_extraroutes", routes=[one])["routes"] == [two]
        with pytest.raises(InvalidInput, match="no subnet"):
            core.act(id, "add_extraroutes", routes=[route("192.0.2.0/24", "10.7.0.9")])

    def test_keep_the_interfaces_that_they_need(self, core: Layer3, id: str) -> None:
        inner = route("192.0.2.0/24", "10.0.0.9")
        outer = route("198.51.100.0/24", "203.0.113.200")
        core.update("router", id, routes=[inner, outer])
        with pytest.raises(Conflict, match=r"10\.0\.0\.9.*remove the route"):
            core.disconnect(id, subnet_id=self.subnet)
        with pytest.raises(Conflict, match=r"203\.0\.113\.200"):
            core.update("router", id, external_gateway_info=None)
        core.update("router", id, external_gateway_info=None, routes=[inner])
        core.update("router", id, routes=[])
        core.disconnect(id, subnet_id=self.subnet)

    def test_of_a_router_that_is_deleted_do_not_matter(self, core: Layer3, id: str) -> None:
        core.disconnect(id, subnet_id=self.subnet)
        core.update("router", id, routes=[route("198.51.100.0/24", "203.0.113.200")])
        core.delete("router", id)
        assert core.find("router", ANNA) == []
