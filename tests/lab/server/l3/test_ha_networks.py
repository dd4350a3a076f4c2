"""HA networks: hidden, one per project and 255 routers, with one port per router and host."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from netfw.drivers.server.query import RequestContext
from netfw.errors import Conflict, InvalidInput, NotFound
from netfw.model.segment import NetworkType
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Json, Layer3
from tests.lab.server.l3.ha_samples import (
    ha_networks,
    ha_ports,
    ha_router,
    l3_agent,
    record,
    vrids,
)
from tests.server.core.core_client import type_drivers

pytestmark = pytest.mark.spec("API-17")


@pytest.fixture
def core(file_database: Database) -> Layer3:
    core = Layer3(file_database)
    for host in ("one", "two"):
        l3_agent(core, host)
    return core


def test_first_ha_router_of_a_project_creates_its_network_and_the_last_deletes_it(
    core: Layer3,
) -> None:
    first, second = ha_router(core), ha_router(core)
    (network,) = ha_networks(core)
    assert (network["project_id"], network["shared"]) == ("", False)
    assert network["name"] == "HA network tenant anna"
    (subnet,) = core.find("subnet", network_id=network["id"])
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("169.254.192.0/18", None)
    assert (subnet["enable_dhcp"], subnet["project_id"]) == (False, "")
    other = ha_router(core, BERT)
    assert len(ha_networks(core)) == 2
    core.delete("router", first)
    assert len(ha_networks(core)) == 2
    core.delete("router", second)
    assert [each["name"] for each in ha_networks(core)] == ["HA network tenant bert"]
    core.delete("router", other, BERT)
    assert (ha_networks(core), core.find("subnet"), vrids(core)) == ([], [], {})


def test_requests_make_no_ha_port_on_another_network(core: Layer3) -> None:
    # Agents would use it for VRRP, and two hosts would be active.
    network, _ = core.inside()
    owner = {"device_owner": "network:router_ha_interface", "device_id": ha_router(core)}
    with pytest.raises(Conflict, match="is for ports of HA networks"):
        core.create("port", ADMIN, network_id=network, **owner)
    port = core.create("port", network_id=network)
    with pytest.raises(Conflict, match="is for ports of HA networks"):
        core.update("port", port["id"], ADMIN, **owner)


def test_plain_routers_need_none(core: Layer3) -> None:
    router = core.router()
    assert ha_networks(core) == []
    core.delete("router", router)


def test_members_see_nothing_of_it_and_their_quotas_are_not_used(file_database: Database) -> None:
    core = Layer3(file_database, quotas={"network": 1, "subnet": 1, "port": 1, "router": 1})
    l3_agent(core, "one")
    _, subnet = core.inside()
    router = ha_router(core)
    core.connect(router, subnet_id=subnet)
    (network,) = ha_networks(core)
    (port,) = ha_ports(core, router)
    (hidden,) = core.find("subnet", network_id=network["id"])
    assert len(core.find("network", ANNA)) == len(core.find("subnet", ANNA)) == 1
    assert [each["device_owner"] for each in core.find("port", ANNA)] == [
        "network:ha_router_replicated_interface"
    ]
    for name, made in (("network", network), ("subnet", hidden), ("port", port)):
        with pytest.raises(NotFound):
            core.show(name, made["id"], ANNA)
        with pytest.raises(NotFound):
            core.delete(name, made["id"])
    with pytest.raises(NotFound):
        core.port(network["id"])
    with pytest.raises(NotFound):
        core.subnet(network["id"], "10.7.0.0/24")


def test_routers_have_one_bound_port_per_host_while_they_are_assigned(core: Layer3) -> None:
    _, subnet = core.inside()
    router = ha_router(core)
    assert ha_ports(core, router) == [], "no host has it yet"
    core.connect(router, subnet_id=subnet)
    ports = ha_ports(core, router)
    assert [port["binding:host_id"] for port in ports] == ["one", "two"]
    (network,) = ha_networks(core)
    for port in ports:
        assert (port["network_id"], port["project_id"]) == (network["id"], "")
        assert (port["name"], port["device_id"]) == ("HA port tenant anna", router)
        (fixed,) = port["fixed_ips"]
        assert ip_address(fixed["ip_address"]) in ip_network("169.254.192.0/18")
        assert port["port_security_enabled"] is False
    assert len({port["mac_address"] for port in ports}) == 2
    l3_agent(core, "three")
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["one", "three", "two"]
    kept = {port["id"] for port in ha_ports(core, router)}
    assert kept >= {port["id"] for port in ports}
    (agent,) = core.find("agent", host="one")
    core.delete("l3_router", f"{agent['id']}/{router}", ADMIN)
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["three", "two"]
    core.create("l3_router", ADMIN, agent_id=agent["id"], router_id=router)
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["one", "three", "two"]


def test_deleted_agent_takes_its_ports_along(core: Layer3) -> None:
    _, subnet = core.inside()
    router = ha_router(core)
    core.connect(router, subnet_id=subnet)
    (agent,) = core.find("agent", host="one")
    core.delete("agent", agent["id"], ADMIN)
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["two"]


CHANGES: dict[str, Callable[[Layer3, Json, Json, Json], Any]] = {
    "delete network": lambda core, net, sub, port: core.delete("network", net["id"], ADMIN),
    "change network": lambda core, net, sub, port: core.update(
        "network", net["id"], ADMIN, admin_state_up=False
    ),
    "delete subnet": lambda core, net, sub, port: core.delete("subnet", sub["id"], ADMIN),
    "change subnet": lambda core, net, sub, port: core.update(
        "subnet", sub["id"], ADMIN, name="mine"
    ),
    "second subnet": lambda core, net, sub, port: core.subnet(net["id"], "10.9.0.0/24", ADMIN),
    "delete port": lambda core, net, sub, port: core.delete("port", port["id"], ADMIN),
    "move port": lambda core, net, sub, port: core.update(
        "port", port["id"], ADMIN, **{"binding:host_id": "elsewhere"}
    ),
    "switch port off": lambda core, net, sub, port: core.update(
        "port", port["id"], ADMIN, admin_state_up=False
    ),
    "give port away": lambda core, net, sub, port: core.update(
        "port", port["id"], ADMIN, device_id="", device_owner=""
    ),
    "other port": lambda core, net, sub, port: core.port(net["id"], ADMIN),
    "second port": lambda core, net, sub, port: core.port(
        net["id"],
        ADMIN,
        device_owner="network:router_ha_interface",
        device_id=port["device_id"],
        **{"binding:host_id": "one"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_administrators_cannot_change_it_while_routers_use_it(core: Layer3, change: str) -> None:
    router = ha_router(core)
    _, subnet = core.inside()
    core.connect(router, subnet_id=subnet)
    port, _ = ha_ports(core, router)
    (network,) = ha_networks(core)
    (hidden,) = core.find("subnet", network_id=network["id"])
    before = record(core)
    with pytest.raises(Conflict, match=r"highly available routers.*delete the router") as raised:
        CHANGES[change](core, network, hidden, port)
    assert "the server creates" in str(raised.value)
    assert record(core) == before


@pytest.mark.parametrize("change", [each for each in CHANGES if "port" not in each])
def test_administrators_cannot_change_it_while_no_host_has_its_routers(
    core: Layer3, change: str
) -> None:
    ha_router(core)
    (network,) = ha_networks(core)
    (hidden,) = core.find("subnet", network_id=network["id"])
    before = record(core)
    with pytest.raises(Conflict, match=r"HA network of project 'anna'.*delete the routers"):
        CHANGES[change](core, network, hidden, {})
    assert record(core) == before


def test_port_whose_binding_failed_is_bound_when_its_agent_is_up(core: Layer3) -> None:
    # Only the result of the binding changes, which is the server's own work.
    _, subnet = core.inside()
    router = ha_router(core)
    core.connect(router, subnet_id=subnet)
    assert {port["binding:vif_type"] for port in ha_ports(core, router)} == {"binding_failed"}
    l3_agent(core, "one", start=True)
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["one", "two"]


def test_second_network_begins_with_the_256th_router(core: Layer3) -> None:
    bodies = [{"project_id": "anna", "name": f"r{number}", "ha": True} for number in range(255)]
    core.plugin("router").create(ADMIN, "router", bodies)
    (network,) = ha_networks(core)
    assert sorted(vrid for _, vrid in vrids(core).values()) == list(range(1, 256))
    last = ha_router(core)
    assert len(ha_networks(core)) == 2
    of_last, _ = vrids(core)[last]
    assert of_last != network["id"]
    (gone, *_) = [router for router, (of, _) in vrids(core).items() if of == network["id"]]
    vrid = vrids(core)[gone][1]
    core.delete("router", gone)
    reused = ha_router(core)
    assert vrids(core)[reused] == (network["id"], vrid), "ids of full networks are used again"
    core.delete("router", last)
    assert [each["id"] for each in ha_networks(core)] == [network["id"]]


def test_network_is_of_the_configured_type_and_prefix(file_database: Database) -> None:
    core = Layer3(
        file_database,
        types=type_drivers(),
        l3_ha_network_type=NetworkType.VLAN,
        l3_ha_network_physical_name="physnet1",
        l3_ha_net_cidr="192.0.2.0/24",
    )
    routers = [ha_router(core, who) for who in (ANNA, BERT, ADMIN)]
    for network in ha_networks(core):
        assert network["provider:network_type"] == "vlan"
        assert network["provider:physical_network"] == "physnet1"
        (subnet,) = core.find("subnet", network_id=network["id"])
        assert subnet["cidr"] == "192.0.2.0/24"
    before = record(core)
    with pytest.raises(Conflict, match="no VLAN is left"):
        core.router(ADMIN, project_id="fourth", ha=True)
    assert record(core) == before
    core.delete("router", routers[0])
    core.router(ADMIN, project_id="fourth", ha=True)


def test_address_shortage_refuses_the_interface_and_leaves_nothing(
    file_database: Database,
) -> None:
    core = Layer3(file_database, l3_ha_net_cidr="192.0.2.0/29")
    for number in range(3):
        l3_agent(core, f"h{number}")
    routers = [ha_router(core) for _ in range(3)]
    subnets = [core.inside(f"10.0.{number}.0/24")[1] for number in range(3)]
    for router, subnet in zip(routers[:2], subnets, strict=False):
        core.connect(router, subnet_id=subnet)
    before = record(core)
    with pytest.raises(Conflict):
        core.connect(routers[2], subnet_id=subnets[2])
    assert record(core) == before


def test_address_shortage_of_one_project_does_not_keep_others_from_a_new_agent(
    file_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    core = Layer3(file_database, l3_ha_net_cidr="192.0.2.0/29")
    for host in ("one", "two"):
        l3_agent(core, host)

    def connected(number: int, who: RequestContext) -> str:
        _, subnet = core.inside(f"10.0.{number}.0/24", who)
        router = ha_router(core, who)
        core.connect(router, who, subnet_id=subnet)
        return router

    full = [connected(number, ANNA) for number in range(3)]
    others = [connected(number, BERT) for number in range(3, 5)]
    l3_agent(core, "three")
    assert [len(ha_ports(core, router)) for router in full] == [2, 2, 2]
    assert [len(ha_ports(core, router)) for router in others] == [3, 3]
    assert all(f"router {router} stays as it is" in caplog.text for router in full)


def test_router_cannot_be_ha_with_a_wrong_flag(core: Layer3) -> None:
    with pytest.raises(InvalidInput):
        core.router(ADMIN, ha="maybe")
    assert ha_networks(core) == []
