"""Several servers on one database: no address and no MAC twice, and statuses that agree."""

from __future__ import annotations

import pytest

from netfw.drivers.server.query import Query
from netfw.errors import Conflict
from netfw.model.resource import Kind
from netfw.server.db import Database
from netfw.server.l2.port_status import PortStatuses
from tests.lab.server.db.processes import at_once
from tests.lab.server.l2.port_processes import (
    active_report,
    make_and_change,
    make_environment,
    name_these,
    report_and_rename,
)
from tests.server.l2.environment import ADMIN, MEMBER, PortsEnvironment, addresses

WORKERS = 3


@pytest.fixture
def env(database: Database) -> PortsEnvironment:
    return make_environment(database)


@pytest.mark.spec("ML2-09", "ML2-11", "ML2-17")
def test_ports_that_several_servers_make_and_change_share_no_address_and_no_mac(
    url: str, env: PortsEnvironment
) -> None:
    network = env.network()
    env.subnet(network, "10.0.0.0/27")  # 29 addresses
    parts = at_once(WORKERS, make_and_change, url, str(network))
    kept = [each for part in parts for each in part]
    found = env.plugin.find(MEMBER, "port", Query())
    assert sorted(mac for mac, _ in kept) == sorted(port["mac_address"] for port in found)
    assert len({mac for mac, _ in kept}) == len(kept)
    taken = [address for port in found for address in addresses(port)]
    assert len(taken) == len(set(taken))
    assert sorted(taken) == sorted(address for _, some in kept for address in some)
    while len(taken) < 29:
        taken += addresses(env.create(network))
    assert len(set(taken)) == 29
    with pytest.raises(Conflict, match="no address is left"):
        env.create(network)
    groups = env.context.read(lambda view: view.resources.count(Kind.SECURITY_GROUP, Query()))
    assert groups == 1
    assert env.used() == len(env.plugin.find(MEMBER, "port", Query()))


@pytest.mark.spec("ML2-09", "ML2-11")
def test_an_address_that_several_servers_want_goes_to_one(url: str, env: PortsEnvironment) -> None:
    network = env.network()
    env.subnet(network)
    wanted = [f"10.0.0.{number}" for number in range(20, 32)]
    parts = at_once(WORKERS, name_these, url, str(network), wanted)
    assert sorted(address for part in parts for address in part) == wanted
    assert len(env.plugin.find(MEMBER, "port", Query())) == len(wanted)


@pytest.mark.spec("ML2-07", "ML2-11")
def test_ports_are_renamed_and_reported_on_at_once(url: str, env: PortsEnvironment) -> None:
    network = env.network()
    env.host("h1")
    ports = env.bulk([{"network_id": str(network), "binding:host_id": "h1"}] * 8, ADMIN)
    at_once(WORKERS, report_and_rename, url, [port["id"] for port in ports])
    now = [env.show(port, ADMIN) for port in ports]
    assert {port["binding:vif_type"] for port in now} == {"ovs"}
    listed = env.plugin.find(ADMIN, "port", Query(filters={"status": ("ACTIVE",)}))
    assert {port["id"] for port in listed} == {
        port["id"] for port in now if port["status"] == "ACTIVE"
    }
    PortStatuses(env.context)([active_report(port) for port in now])
    assert {env.show(port, ADMIN)["status"] for port in ports} == {"ACTIVE"}
