"""Highly available routers take no address or route of their HA network."""

from __future__ import annotations

import pytest

from netfw.errors import Conflict
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.lab.server.l3.ha_samples import ha_router

pytestmark = pytest.mark.spec("API-17", "L3-42")

HA = "192.0.2.0/24"
COLLIDING = ["192.0.2.0/24", "192.0.0.0/16", "192.0.2.128/25", "169.254.0.0/24", "169.254.0.0/16"]
OVERRIDING = ["192.0.2.0/24", "192.0.2.7/32", "169.254.0.0/25"]
USE = "use among themselves"


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database, l3_ha_net_cidr=HA)


def routes(*destinations: str) -> list[dict[str, str]]:
    return [{"destination": each, "nexthop": "10.0.0.9"} for each in destinations]


@pytest.mark.parametrize("cidr", COLLIDING)
def test_an_interface_that_overlaps_the_ha_network_is_refused(core: Layer3, cidr: str) -> None:
    router, (network, subnet) = ha_router(core), core.inside(cidr)
    with pytest.raises(Conflict, match=f"{cidr} of subnet {subnet} overlaps .* {USE}"):
        core.connect(router, subnet_id=subnet)
    with pytest.raises(Conflict, match=USE):
        core.connect(router, port_id=core.port(network)["id"])
    core.connect(core.router(), subnet_id=subnet)


def test_an_interface_does_not_move_to_the_ha_network(core: Layer3) -> None:
    router, (network, subnet) = ha_router(core), core.inside()
    interface = core.connect(router, subnet_id=subnet)["port_id"]
    colliding = core.subnet(network, HA)
    with pytest.raises(Conflict, match=USE):
        core.update("port", interface, ADMIN, fixed_ips=[{"subnet_id": colliding}])


@pytest.mark.parametrize("cidr", COLLIDING)
def test_a_gateway_that_overlaps_the_ha_network_is_refused(core: Layer3, cidr: str) -> None:
    router, (outside, _) = ha_router(core), core.outside(cidr)
    with pytest.raises(Conflict, match=USE):
        core.lead_out(router, outside)


@pytest.mark.parametrize("destination", OVERRIDING)
def test_a_route_into_the_ha_network_is_refused(core: Layer3, destination: str) -> None:
    router, (_, subnet) = ha_router(core), core.inside()
    core.connect(router, subnet_id=subnet)
    with pytest.raises(Conflict, match=f"the route to {destination} would override .* {USE}"):
        core.update("router", router, routes=routes(destination))
    with pytest.raises(Conflict, match=USE):
        core.act(router, "add_extraroutes", routes=routes(destination))


def test_a_route_to_a_larger_prefix_is_possible(core: Layer3) -> None:
    router, (_, subnet) = ha_router(core), core.inside()
    core.connect(router, subnet_id=subnet)
    larger = routes("0.0.0.0/0", "192.0.0.0/16", "169.254.0.0/16")
    assert len(core.update("router", router, routes=larger)["routes"]) == 3


@pytest.mark.parametrize("with_route", [False, True])
def test_a_router_with_colliding_addresses_or_routes_does_not_become_highly_available(
    core: Layer3, with_route: bool
) -> None:
    router, (_, subnet) = core.router(admin_state_up=False), core.inside()
    core.connect(router, subnet_id=subnet)
    if with_route:
        core.update("router", router, routes=routes(HA))
    else:
        core.connect(router, subnet_id=core.inside(HA)[1])
    with pytest.raises(Conflict, match=USE):
        core.update("router", router, ADMIN, ha=True)
    assert not core.show("router", router)["ha"]


def test_the_prefix_of_a_network_that_exists_counts_whatever_the_option_says(
    file_database: Database,
) -> None:
    router = ha_router(Layer3(file_database, l3_ha_net_cidr=HA))
    core = Layer3(file_database, l3_ha_net_cidr="198.51.100.0/24")
    core.connect(router, subnet_id=core.inside("198.51.100.0/24")[1])
    with pytest.raises(Conflict, match=USE):
        core.connect(router, subnet_id=core.inside(HA)[1])
