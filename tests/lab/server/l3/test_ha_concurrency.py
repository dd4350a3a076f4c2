"""Highly available routers of one project, requested by 32 threads of several processes at once."""

from __future__ import annotations

import pytest

from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.lab.server.l3.ha_samples import (
    ha_networks,
    ha_ports,
    ha_router,
    l3_agent,
    router_of,
    vrids,
)
from tests.lab.server.l3.processes import (
    THREADS,
    WORKERS,
    at_once,
    want_conversions,
    want_ha_routers,
    want_ha_routers_and_none,
    want_interfaces,
)

pytestmark = pytest.mark.spec("API-17")

AT_ONCE = WORKERS * THREADS


@pytest.fixture
def core(database: Database) -> Layer3:
    return Layer3(database)


def all_succeeded(outcomes: list[list[str]]) -> bool:
    problems = [each for some in outcomes for each in some if each]
    assert not problems, problems
    return True


def check(core: Layer3) -> None:
    """Compare the routers with the ids and networks that are in use."""
    routers = {each["id"] for each in core.find("router", ha=True)}
    used = vrids(core)
    assert used.keys() == routers
    assert len(set(used.values())) == len(routers), "ids are unique on each network"
    assert {network for network, _ in used.values()} == {each["id"] for each in ha_networks(core)}
    for router, (_, vrid) in used.items():
        assert router_of(core, router).vrid == vrid


def test_32_routers_at_once_share_one_network_and_no_id(core: Layer3, url: str) -> None:
    assert all_succeeded(at_once(want_ha_routers, url))
    check(core)
    assert len(vrids(core)) == AT_ONCE
    assert len(ha_networks(core)) == 1
    assert len(core.find("subnet")) == 1


@pytest.mark.nightly
def test_32_routers_at_once_that_do_not_fit_share_two_networks(core: Layer3, url: str) -> None:
    bodies = [{"project_id": "anna", "name": "r", "ha": True} for _ in range(240)]
    core.plugin("router").create(ADMIN, "router", bodies)
    assert all_succeeded(at_once(want_ha_routers, url))
    check(core)
    assert len(vrids(core)) == 240 + AT_ONCE
    assert len(ha_networks(core)) == 2


def test_network_stays_exactly_while_routers_come_and_go(core: Layer3, url: str) -> None:
    routers = [ha_router(core) for _ in range(AT_ONCE)]
    assert all_succeeded(at_once(want_ha_routers_and_none, url, routers))
    check(core)
    left = [each["id"] for each in core.find("router")]
    assert sorted(left) == sorted(routers[1::2])
    for router in left:
        core.delete("router", router)
    assert (ha_networks(core), core.find("subnet"), core.find("segment")) == ([], [], [])


@pytest.mark.nightly
def test_32_conversions_at_once(core: Layer3, url: str) -> None:
    routers = [core.router(admin_state_up=False) for _ in range(AT_ONCE)]
    assert all_succeeded(at_once(want_conversions, url, routers))
    check(core)
    assert vrids(core).keys() == set(routers[::2])
    assert len(ha_networks(core)) == 1


@pytest.mark.nightly
def test_each_router_has_a_port_on_each_host_after_interfaces_at_once(
    core: Layer3, url: str
) -> None:
    for host in ("one", "two"):
        l3_agent(core, host)
    network = core.network()
    subnets = [core.subnet(network, f"10.0.{number}.0/24") for number in range(AT_ONCE)]
    cases = [(ha_router(core), subnet) for subnet in subnets]
    assert all_succeeded(at_once(want_interfaces, url, cases))
    addresses = set()
    for router, _ in cases:
        ports = ha_ports(core, router)
        assert [port["binding:host_id"] for port in ports] == ["one", "two"]
        addresses |= {port["fixed_ips"][0]["ip_address"] for port in ports}
    assert len(addresses) == 2 * AT_ONCE
