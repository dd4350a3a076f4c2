"""Distributed routers and their floating IPs, changed by threads of several processes at once."""

from __future__ import annotations

import pytest

from netfw.server.db import Database
from tests.lab.server.l3.distributed.samples import (
    SNAT,
    central_hosts,
    central_subnets,
    dvr_router,
    floating_ip,
    ports_with,
)
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.lab.server.l3.ha_samples import l3_agent
from tests.lab.server.l3.processes import (
    THREADS,
    WORKERS,
    at_once,
    want_gateways,
    want_interfaces,
    want_moves,
)

pytestmark = pytest.mark.spec("API-19")


@pytest.fixture
def core(database: Database) -> Layer3:
    made = Layer3(database)
    l3_agent(made, "net", mode="dvr_snat")
    return made


def count_of(core: Layer3) -> int:
    """Return how many routers change at once: writers of an SQLite file queue, and may time out."""
    return 2 * WORKERS if core.context.database.is_file else WORKERS * THREADS


def all_succeeded(outcomes: list[list[str]]) -> bool:
    problems = [each for some in outcomes for each in some if each]
    assert not problems, problems
    return True


def check(core: Layer3, cases: list[tuple[str, str]]) -> None:
    """Compare the ports of central parts with the interfaces; all are at the host with the
    gateway, and no address is used twice."""
    addresses = set()
    for router, subnet in cases:
        assert central_subnets(core, router) == [[subnet]]
        assert central_hosts(core, router) == {("net", frozenset())}
        addresses |= {port.fixed_ips[0].address for port in ports_with(core, router, SNAT)}
    assert len(addresses) == len(cases)


@pytest.mark.nightly
def test_interfaces_at_once(core: Layer3, url: str) -> None:
    (outside, _), network = core.outside(), core.network()
    subnets = [core.subnet(network, f"10.0.{number}.0/24") for number in range(count_of(core))]
    cases = [(dvr_router(core), subnet) for subnet in subnets]
    for router, _ in cases:
        core.lead_out(router, outside, ADMIN)
    assert all_succeeded(at_once(want_interfaces, url, cases))
    check(core, cases)


@pytest.mark.nightly
def test_gateways_at_once(core: Layer3, url: str) -> None:
    (outside, _), network = core.outside(), core.network()
    subnets = [core.subnet(network, f"10.0.{number}.0/24") for number in range(count_of(core))]
    cases = [(dvr_router(core), subnet) for subnet in subnets]
    for router, subnet in cases:
        core.connect(router, subnet_id=subnet)
    routers = [router for router, _ in cases]
    assert all_succeeded(at_once(want_gateways, url, routers, outside))
    leading_out = {each["id"] for each in core.find("router") if each["external_gateway_info"]}
    assert leading_out
    check(core, [case for case in cases if case[0] in leading_out])
    others = set(routers) - leading_out
    assert others
    assert not [port for router in others for port in ports_with(core, router, SNAT)]


def test_what_a_floating_ip_depends_on_at_once(core: Layer3, url: str) -> None:
    for host, mode in (("one", "dvr_no_external"), ("two", "dvr")):
        l3_agent(core, host, mode=mode)
    (outside, _), (network, subnet), router = core.outside(), core.inside(), dvr_router(core)
    core.connect(router, subnet_id=subnet)
    core.lead_out(router, outside, ADMIN)
    cases = []
    for _ in range(8):
        port = core.port(network, ADMIN, **{"binding:host_id": "one"})
        made = core.create("floatingip", ADMIN, floating_network_id=outside)
        case = {"port": port["id"], "address": port["fixed_ips"][0]["ip_address"]}
        case["other"] = core.port(network, ADMIN)["id"]
        cases.append({**case, "floating": made["id"]})
    outcomes = at_once(want_moves, url, cases)
    assert all(all_succeeded(each) for each in outcomes)
    (agent,) = core.find("agent", host="one")
    serving = {"two"} | ({"one"} if agent["configurations"]["agent_mode"] == "dvr" else set())
    for case in cases:
        host = core.show("port", case["port"])["binding:host_id"]
        shared = core.show("port", case["other"])["allowed_address_pairs"]
        expected = host if host in serving and not shared else None
        assert floating_ip(core, case["floating"]).host == expected
