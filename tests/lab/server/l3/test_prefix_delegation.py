"""Subnets with delegated prefixes, in a whole core on a real database."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_network
from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.values.agent_requests import SetPrefix
from netfw.errors import Conflict, InvalidInput, NotFound
from netfw.model.values.address import Mac, eui64
from netfw.model.values.ids import RouterId, SubnetId
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Json, Layer3

pytestmark = pytest.mark.spec("L3-27")
SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
FIRST, SECOND = "2001:db8:1:1::/64", "2001:db8:1:2::/64"


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


def delegated(core: Layer3, network: str, **body: Any) -> Json:
    given = {"network_id": network, "ip_version": 6, "subnetpool_id": "prefix_delegation"}
    return core.create("subnet", ANNA, **{**given, **SLAAC, **body})


def set_prefix(core: Layer3, router: str, subnet: str, prefix: str | None) -> None:
    request = SetPrefix(
        router=RouterId(UUID(router)),
        subnet=SubnetId(UUID(subnet)),
        prefix=None if prefix is None else ip_network(prefix),
    )
    AgentRpcHandlers(core.context).set_prefix(request)


def on(core: Layer3, subnet: str, port: Json) -> list[str]:
    present = core.show("port", port["id"])["fixed_ips"]
    return [each["ip_address"] for each in present if each["subnet_id"] == subnet]


def derived(prefix: str, port: Json) -> str:
    return str(eui64(IPv6Network(prefix), Mac(port["mac_address"])))


def routed(core: Layer3) -> tuple[str, Json, str]:
    """Return a network, its delegated subnet, and its router with a gateway."""
    network = core.network()
    subnet = delegated(core, network)
    router = core.router()
    core.connect(router, subnet_id=subnet["id"])
    core.lead_out(router, core.outside()[0])
    return network, subnet, router


def test_a_subnet_is_provisional_until_a_prefix_is_delegated(core: Layer3) -> None:
    network, subnet, router = routed(core)
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("::/64", "::1")
    assert subnet["subnetpool_id"] == "prefix_delegation"
    instance = core.port(network)
    assert on(core, subnet["id"], instance) == [derived("::/64", instance)]
    set_prefix(core, router, subnet["id"], FIRST)
    after = core.show("subnet", subnet["id"])
    assert (after["cidr"], after["gateway_ip"]) == (FIRST, "2001:db8:1:1::1")
    assert after["allocation_pools"] == [
        {"start": "2001:db8:1:1::2", "end": "2001:db8:1:1:ffff:ffff:ffff:ffff"}
    ]
    assert after["revision_number"] > subnet["revision_number"]
    assert on(core, subnet["id"], instance) == [derived(FIRST, instance)]
    (interface,) = (each for each in core.ports_of(router) if each["network_id"] == network)
    assert on(core, subnet["id"], interface) == ["2001:db8:1:1::1"]
    assert [each["id"] for each in core.find("subnet", subnetpool_id="prefix_delegation")] == [
        subnet["id"]
    ]


@pytest.mark.spec("L3-32")
def test_a_subnet_is_renumbered_with_all_its_ports(core: Layer3) -> None:
    network, subnet, router = routed(core)
    set_prefix(core, router, subnet["id"], FIRST)
    instance = core.port(network)
    set_prefix(core, router, subnet["id"], SECOND)
    assert on(core, subnet["id"], instance) == [derived(SECOND, instance)]
    later = core.port(network)
    assert on(core, subnet["id"], later) == [derived(SECOND, later)]
    core.delete("port", later["id"])
    revision = core.show("subnet", subnet["id"])["revision_number"]
    set_prefix(core, router, subnet["id"], SECOND)
    assert core.show("subnet", subnet["id"])["revision_number"] == revision, "nothing changed"


@pytest.mark.spec("L3-33")
def test_a_withdrawn_prefix_makes_the_subnet_provisional(core: Layer3) -> None:
    network, subnet, router = routed(core)
    instance = core.port(network)
    set_prefix(core, router, subnet["id"], FIRST)
    set_prefix(core, router, subnet["id"], None)
    after = core.show("subnet", subnet["id"])
    assert (after["cidr"], after["gateway_ip"]) == ("::/64", "::1")
    assert on(core, subnet["id"], instance) == [derived("::/64", instance)]


@pytest.mark.spec("L3-33")
def test_without_its_gateway_or_interface_a_subnet_is_provisional(core: Layer3) -> None:
    network, subnet, router = routed(core)
    instance = core.port(network)
    outside = core.outside("198.51.100.0/24")[0]
    set_prefix(core, router, subnet["id"], FIRST)
    core.update("router", router, ANNA, external_gateway_info={})
    assert core.show("subnet", subnet["id"])["cidr"] == "::/64"
    assert on(core, subnet["id"], instance) == [derived("::/64", instance)]
    with pytest.raises(Conflict, match="no router with a gateway"):
        set_prefix(core, router, subnet["id"], FIRST)
    core.lead_out(router, outside)
    set_prefix(core, router, subnet["id"], SECOND)
    core.disconnect(router, subnet_id=subnet["id"])
    assert core.show("subnet", subnet["id"])["cidr"] == "::/64"
    core.delete("port", instance["id"])
    core.delete("subnet", subnet["id"])


@pytest.mark.spec("L3-33")
def test_routers_of_others_on_a_shared_network_have_no_part_in_its_prefix(core: Layer3) -> None:
    network, subnet, router = routed(core)
    core.update("network", network, ADMIN, shared=True)
    foreign, beside = core.router(BERT), core.subnet(core.network(BERT), "2000::/3", BERT)
    core.connect(foreign, BERT, subnet_id=beside)
    core.lead_out(foreign, core.outside("198.51.100.0/24")[0], BERT)
    port = core.port(network, BERT)
    core.connect(foreign, BERT, port_id=port["id"])
    set_prefix(core, router, subnet["id"], FIRST)
    for prefix in (SECOND, None):  # a host that has the router of another project
        with pytest.raises(Conflict, match="does not have the gateway address"):
            set_prefix(core, foreign, subnet["id"], prefix)
    core.update("router", foreign, BERT, external_gateway_info={})
    assert core.show("subnet", subnet["id"])["cidr"] == FIRST
    core.disconnect(foreign, BERT, port_id=port["id"])
    assert core.show("subnet", subnet["id"])["cidr"] == FIRST


def test_several_subnets_are_provisional_at_once(core: Layer3) -> None:
    network, one, router = routed(core)
    two = delegated(core, network)
    core.connect(router, subnet_id=two["id"])
    other = delegated(core, core.network())
    core.connect(router, subnet_id=other["id"])
    instance = core.port(network)
    for subnet, prefix in ((one, FIRST), (two, SECOND)):
        set_prefix(core, router, subnet["id"], prefix)
        assert on(core, subnet["id"], instance) == [derived(prefix, instance)]
    with pytest.raises(InvalidInput, match="overlaps"):
        set_prefix(core, router, two["id"], FIRST)
    with pytest.raises(InvalidInput, match="overlaps"):
        set_prefix(core, router, other["id"], SECOND)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"cidr": "2001:db8::/64"}, "cidr"),
        ({"gateway_ip": "2001:db8::1"}, "gateway_ip"),
        ({"ip_version": 4}, "ip_version"),
        ({"ipv6_ra_mode": None}, "subnetpool_id"),
        ({"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}, "subnetpool"),
    ],
)
def test_impossible_delegated_subnets_are_refused(
    core: Layer3, body: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput, match=path):
        delegated(core, core.network(), **body)


def test_impossible_prefixes_are_refused(core: Layer3) -> None:
    network, subnet, router = routed(core)
    for prefix in ("2001:db8::/56", "10.0.0.0/24", "fe80::/64", "ff02::/64", "::/64"):
        with pytest.raises(InvalidInput):
            set_prefix(core, router, subnet["id"], prefix)
    plain = core.subnet(network, "fd00::/64", **SLAAC)
    with pytest.raises(Conflict, match="not delegated"):
        set_prefix(core, router, plain, FIRST)
    with pytest.raises(InvalidInput, match="overlaps"):
        set_prefix(core, router, subnet["id"], "fd00::/64")
    with pytest.raises(NotFound):
        set_prefix(core, router, network, FIRST)
