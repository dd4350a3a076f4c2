"""Ports: defaults, updates, and what requests may set."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.query import Query
from netfw.errors import (
    Conflict,
    Exhausted,
    Forbidden,
    InvalidInput,
    MacAddressInUse,
    NotFound,
    Outdated,
)
from netfw.model import NetworkId
from netfw.server.core.context import ServerContext
from netfw_drivers.extension_drivers.port_security import PortSecurityDriver
from tests.server.l2.environment import ADMIN, MEMBER, OTHER, World, addresses

RESERVED_OWNERS = (
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
    "network:router_gateway",
    "network:router_whatever",
    "network:floatingip",
    "network:floatingip_agent_gateway",
)


@pytest.fixture
def world(context: ServerContext) -> World:
    return World(context)


@pytest.fixture
def network(world: World) -> NetworkId:
    """A network with one IPv4 subnet."""
    made = world.network()
    world.subnet(made, "10.0.0.0/24")
    return made


@pytest.mark.spec("ML2-17")
@pytest.mark.spec("API-06")
def test_a_port_without_attributes_gets_all_defaults(world: World, network: NetworkId) -> None:
    port = world.create(network)
    assert addresses(port) == ["10.0.0.2"]
    assert re.fullmatch(r"fa:16:3e(:[0-9a-f]{2}){3}", port["mac_address"])
    assert port["security_groups"] == [world.group()]
    assert (port["status"], port["admin_state_up"], port["project_id"]) == ("DOWN", True, "p")
    bound = {name: value for name, value in port.items() if name.startswith("binding:")}
    assert bound == {
        "binding:host_id": "",
        "binding:vnic_type": "normal",
        "binding:vif_type": "unbound",
        "binding:vif_details": {},
        "binding:profile": {},
    }
    assert port["revision_number"] == 1
    assert port["created_at"] == port["updated_at"]
    assert world.show(port) == port
    assert world.used() == 1


def test_a_port_is_made_on_a_network_that_one_sees_and_on_no_other(world: World) -> None:
    own, shared, external = (
        world.network(),
        world.network(shared=True),
        world.network(external=True),
    )
    for seen in (shared, external):
        assert world.create(seen, OTHER)["project_id"] == "q"
    taken = world.create(own)["mac_address"]
    for said in ({}, {"mac_address": taken}):
        with pytest.raises(NotFound, match=str(own)):
            world.create(own, OTHER, **said)
    with pytest.raises(NotFound):
        world.create(NetworkId(uuid4()))
    assert world.create(own, ADMIN, project_id="q")["project_id"] == "q"


def test_one_sees_own_ports_and_those_on_own_networks(world: World) -> None:
    shared = world.network(shared=True)
    theirs = world.create(shared, OTHER)
    assert world.show(theirs, MEMBER)["id"] == theirs["id"]
    mine = world.create(shared)
    with pytest.raises(NotFound):
        world.show(mine, OTHER)
    assert [each["id"] for each in world.plugin.find(OTHER, "port", Query())] == [theirs["id"]]


# MAC addresses.


@pytest.mark.spec("ML2-17")
def test_a_mac_is_unique_on_its_network_and_only_there(world: World, network: NetworkId) -> None:
    mac = "fa:16:3e:00:00:01"
    world.create(network, mac_address=mac)
    with pytest.raises(
        MacAddressInUse, match=f"{mac} is taken by another port of network {network}"
    ):
        world.create(network, mac_address=mac.upper())
    assert world.create(world.network(), mac_address=mac)["mac_address"] == mac
    with pytest.raises(Conflict, match="twice"):
        world.bulk([{"network_id": str(network), "mac_address": "fa:16:3e:00:00:02"}] * 2)


def test_generated_macs_have_a_prefix_of_four_octets_if_configured(
    context: ServerContext,
) -> None:
    context.settings = evolve(context.settings, base_mac="fa:16:3e:4f:00:00")
    world = World(context)
    ports = world.bulk([{"network_id": str(world.network())}] * 20)
    assert all(port["mac_address"].startswith("fa:16:3e:4f:") for port in ports)


def test_a_made_mac_that_is_taken_is_made_again(
    world: World, network: NetworkId, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter([1, 1, 1, 2])
    monkeypatch.setattr("netfw.server.l2.port_macs.random.getrandbits", lambda bits: next(said))
    first, second = world.create(network), world.create(network)
    assert first["mac_address"] == "fa:16:3e:00:00:01"
    assert second["mac_address"] == "fa:16:3e:00:00:02"
    assert addresses(second) == ["10.0.0.3"]  # nothing of the first attempts remains


def test_a_mac_changes_while_the_port_is_bound_to_no_host(world: World, network: NetworkId) -> None:
    world.host("h1")
    port = world.create(network)
    changed = world.update(port, mac_address="fa:16:3e:aa:00:01")
    assert changed["mac_address"] == "fa:16:3e:aa:00:01"
    again = world.update(port, mac_address=None)
    assert again["mac_address"] not in (port["mac_address"], changed["mac_address"])
    world.update(port, ADMIN, binding__host_id="h1")
    with pytest.raises(Conflict, match="bound to host h1"):
        world.update(port, mac_address="fa:16:3e:aa:00:02")
    assert (
        world.update(port, mac_address=again["mac_address"])["mac_address"] == again["mac_address"]
    )
    world.create(network, mac_address="fa:16:3e:aa:00:03")
    world.update(port, ADMIN, binding__host_id="")
    with pytest.raises(Conflict, match="is taken"):
        world.update(port, mac_address="fa:16:3e:aa:00:03")


# Security.


def test_ports_of_the_network_itself_are_in_no_group(world: World, network: NetworkId) -> None:
    port = world.create(network, ADMIN, device_owner="network:dhcp", device_id="x")
    assert (port["security_groups"], port["port_security_enabled"]) == ([], False)


def test_a_port_inherits_from_its_network_whether_it_is_filtered(context: ServerContext) -> None:
    world = World(context, extensions=(PortSecurityDriver(),))
    unfiltered, filtered = world.network(port_security=False), world.network()
    port = world.create(unfiltered)
    assert (port["port_security_enabled"], port["security_groups"]) == (False, [])
    closed = world.create(unfiltered, port_security_enabled=True)
    assert closed["security_groups"] == [world.group()]
    assert world.create(filtered)["port_security_enabled"] is True
    with pytest.raises(InvalidInput, match="security_groups: need port security"):
        world.create(unfiltered, security_groups=[world.group()])
    with pytest.raises(Conflict, match="allowed_address_pairs need port security"):
        world.create(unfiltered, allowed_address_pairs=[{"ip_address": "10.9.0.7"}])
    assert world.update(closed, name="x")["port_security_enabled"] is True
    with pytest.raises(Conflict, match="while the port has security groups"):
        world.update(closed, port_security_enabled=False)


def test_groups_are_those_named_and_seen(world: World, network: NetworkId) -> None:
    mine, theirs = world.group("p"), world.group("q")
    assert world.create(network, security_groups=[])["security_groups"] == []
    assert world.create(network, security_groups=[mine])["security_groups"] == [mine]
    with pytest.raises(NotFound, match=f"security_group {theirs}"):
        world.create(network, security_groups=[mine, theirs])
    port = world.create(network)
    with pytest.raises(NotFound, match=theirs):
        world.update(port, security_groups=[theirs])
    assert world.update(port, security_groups=[])["security_groups"] == []
    assert world.update(port, name="x")["security_groups"] == []


def test_without_port_security_there_are_neither_groups_nor_pairs(
    world: World, network: NetworkId
) -> None:
    pairs = [{"ip_address": "10.9.0.0/16"}]
    open_port = world.create(network, port_security_enabled=False)
    assert open_port["security_groups"] == []
    with pytest.raises(InvalidInput, match="security_groups: need port security"):
        world.create(network, port_security_enabled=False, security_groups=[world.group()])
    with pytest.raises(Conflict, match="allowed_address_pairs need port security"):
        world.create(network, port_security_enabled=False, allowed_address_pairs=pairs)
    with pytest.raises(Conflict, match="allowed_address_pairs need port security"):
        world.update(open_port, allowed_address_pairs=pairs)
    with pytest.raises(InvalidInput, match="need port security"):
        world.update(open_port, security_groups=[world.group()])
    port = world.create(network, allowed_address_pairs=pairs)
    with pytest.raises(Conflict, match="while the port has security groups"):
        world.update(port, port_security_enabled=False)
    with pytest.raises(Conflict, match="allowed_address_pairs"):
        world.update(port, port_security_enabled=False, security_groups=[])
    opened = world.update(
        port, port_security_enabled=False, security_groups=[], allowed_address_pairs=[]
    )
    assert (opened["port_security_enabled"], opened["security_groups"]) == (False, [])
    closed = world.update(port, port_security_enabled=True)
    assert (closed["port_security_enabled"], closed["security_groups"]) == (True, [])


def test_an_address_pair_without_a_mac_is_for_that_of_the_port(
    world: World, network: NetworkId
) -> None:
    other = "fa:16:3e:99:00:01"
    asked = [{"ip_address": "10.9.0.7"}, {"ip_address": "10.9.0.0/16", "mac_address": other}]
    port = world.create(network, allowed_address_pairs=asked)
    mac = port["mac_address"]
    assert port["allowed_address_pairs"] == [
        {"ip_address": "10.9.0.7", "mac_address": mac},
        {"ip_address": "10.9.0.0/16", "mac_address": other},
    ]
    moved = world.update(port, mac_address="fa:16:3e:99:00:02")
    assert [pair["mac_address"] for pair in moved["allowed_address_pairs"]] == [
        "fa:16:3e:99:00:02",
        other,
    ]
    assert world.update(port, allowed_address_pairs=[])["allowed_address_pairs"] == []


def test_address_pairs_that_cannot_be_are_refused(world: World, network: NetworkId) -> None:
    pair: dict[str, Any] = {"ip_address": "10.9.0.7"}
    with pytest.raises(InvalidInput, match=r"allowed_address_pairs\[1\]: is there twice"):
        world.create(network, allowed_address_pairs=[pair, pair])
    many = [{"ip_address": f"10.9.0.{number}"} for number in range(11)]
    with pytest.raises(InvalidInput, match="11 are more than 10"):
        world.create(network, allowed_address_pairs=many)
    port = world.create(network)
    with pytest.raises(InvalidInput, match=r"10.0.0.2 is the port's own address already"):
        world.update(port, allowed_address_pairs=[{"ip_address": "10.0.0.2"}])


# Everything else that a port has.


def test_dhcp_options_are_added_replaced_and_removed_one_by_one(
    world: World, network: NetworkId
) -> None:
    def option(name: str, value: str | None, version: int = 4) -> dict[str, Any]:
        return {"opt_name": name, "opt_value": value, "ip_version": version}

    port = world.create(
        network, extra_dhcp_opts=[option("domain-search", "a"), option("server-ip-address", None)]
    )
    assert port["extra_dhcp_opts"] == [option("domain-search", "a")]
    both = world.update(
        port, extra_dhcp_opts=[option("tftp-server", "10.0.0.9"), option("domain-search", "b", 6)]
    )
    assert len(both["extra_dhcp_opts"]) == 3
    left = world.update(
        port, extra_dhcp_opts=[option("domain-search", None), option("tftp-server", "10.0.0.8")]
    )
    assert left["extra_dhcp_opts"] == [
        option("tftp-server", "10.0.0.8"),
        option("domain-search", "b", 6),
    ]
    with pytest.raises(InvalidInput, match=r"extra_dhcp_opts\[0\]"):
        world.update(port, extra_dhcp_opts=[option("bad name\n", "x")])


def test_what_a_change_does_not_name_stays(world: World, network: NetworkId) -> None:
    port = world.create(network, name="a", device_id="vm", device_owner="compute:nova")
    changed = world.update(port, name="b", admin_state_up=False)
    gone = {"name", "admin_state_up", "revision_number", "updated_at"}
    assert (changed["name"], changed["admin_state_up"]) == ("b", False)
    assert changed["revision_number"] == 2
    assert {k: v for k, v in changed.items() if k not in gone} == {
        k: v for k, v in port.items() if k not in gone
    }
    assert world.update(port, name="b")["revision_number"] == 2
    assert world.show(port) == changed


def test_a_change_meant_for_another_revision_is_refused(world: World, network: NetworkId) -> None:
    port = world.create(network)
    world.update(port, name="b")
    with pytest.raises(Outdated):
        world.plugin.update(MEMBER, "port", port["id"], {"name": "c"}, 1)
    with pytest.raises(Outdated):
        world.plugin.delete(MEMBER, "port", port["id"], 1)


def test_a_quota_counts_ports_made_and_deleted(context: ServerContext) -> None:
    context.quotas = {"port": 3}
    world = World(context)
    network = world.network()
    world.subnet(network)
    ports = world.bulk([{"network_id": str(network)}] * 2)
    with pytest.raises(Exhausted, match="has 2 of 3 port"):
        world.bulk([{"network_id": str(network)}] * 2)
    assert world.used() == 2
    world.delete(ports[0])
    assert world.used() == 1
    again = world.bulk([{"network_id": str(network)}] * 2)
    assert sorted(map(addresses, again)) == [["10.0.0.2"], ["10.0.0.4"]]


def test_of_a_list_all_are_made_or_none(world: World, network: NetworkId) -> None:
    bodies = [{"network_id": str(network), "name": f"n{number}"} for number in range(5)]
    with pytest.raises(NotFound):
        world.bulk([*bodies, {"network_id": str(uuid4())}])
    assert world.plugin.find(ADMIN, "port", Query()) == ()
    made = world.bulk(bodies)
    assert [port["name"] for port in made] == [body["name"] for body in bodies]
    assert [addresses(port) for port in made] == [[f"10.0.0.{n}"] for n in range(2, 7)]


# Deleting.


def test_a_deleted_port_leaves_nothing(world: World, network: NetworkId) -> None:
    port = world.create(network, tags=["x"])
    world.delete(port)
    with pytest.raises(NotFound):
        world.show(port)
    with pytest.raises(NotFound):
        world.delete(port)
    with pytest.raises(NotFound):
        world.plugin.delete(MEMBER, "port", "no uuid")
    assert addresses(world.create(network, mac_address=port["mac_address"])) == ["10.0.0.2"]


@pytest.mark.spec("API-09")
@pytest.mark.parametrize("owner", RESERVED_OWNERS)
def test_only_administrators_give_a_port_a_router_owner(
    world: World, network: NetworkId, owner: str
) -> None:
    router = str(world.router().id)
    for device in (router, "rubbish", ""):
        with pytest.raises(Forbidden, match="add_router_interface"):
            world.create(network, device_owner=owner, device_id=device)
    port = world.create(network, device_id=router)
    with pytest.raises(Forbidden):
        world.update(port, device_owner=owner)
    with pytest.raises(Forbidden):
        world.update(port, device_owner=owner, device_id="")
    with pytest.raises(Forbidden):
        world.bulk([{"network_id": str(network), "device_owner": each} for each in ("", owner)])
    interface = world.create(network, ADMIN, device_owner=owner, device_id="x", project_id="p")
    with pytest.raises((Conflict, Forbidden)):
        world.update(interface, device_id=router)
    same = world.update(interface, device_owner=owner, device_id="x", name="n")
    assert same["name"] == "n"


@pytest.mark.parametrize("owner", ["network:router_interface", "network:router_gateway"])
def test_a_port_of_a_router_goes_with_it(world: World, network: NetworkId, owner: str) -> None:
    router = world.router()
    port = world.create(network, ADMIN, device_owner=owner, device_id=str(router.id))
    for who in (MEMBER, ADMIN):
        with pytest.raises(Conflict, match=f"it is {owner} of router {router.id}"):
            world.delete(port, who)
    with pytest.raises(Conflict, match="device_id of port"):
        world.update(port, MEMBER, device_id="")
    assert world.update(port, MEMBER, name="x")["name"] == "x"
    world.context.run(ADMIN, lambda unit: world.handler.discard(unit, world.value(port)))
    assert world.used("admin") == 0
    orphan = world.create(network, ADMIN, device_owner=owner, device_id=str(uuid4()))
    world.delete(orphan, ADMIN)
    served = world.create(network, ADMIN, device_owner="network:dhcp", device_id="d")
    world.delete(served, ADMIN)
