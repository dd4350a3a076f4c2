"""Ports: defaults, updates, and what requests may set."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.errors import Conflict, Exhausted, Forbidden, InvalidInput, NotFound, Outdated
from netfw.errors.ports import MacAddressInUse
from netfw.model import NetworkId
from netfw.server.core.server_context import ServerContext
from netfw_drivers.extension_drivers.port_security import PortSecurityDriver
from tests.server.l2.environment import ADMIN, MEMBER, OTHER, PortsEnvironment, addresses

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
def env(context: ServerContext) -> PortsEnvironment:
    return PortsEnvironment(context)


@pytest.fixture
def network(env: PortsEnvironment) -> NetworkId:
    """Return a network with one IPv4 subnet."""
    made = env.network()
    env.subnet(made, "10.0.0.0/24")
    return made


@pytest.mark.spec("ML2-17")
@pytest.mark.spec("API-06")
def test_a_port_without_attributes_gets_all_defaults(
    env: PortsEnvironment, network: NetworkId
) -> None:
    port = env.create(network)
    assert addresses(port) == ["10.0.0.2"]
    assert re.fullmatch(r"fa:16:3e(:[0-9a-f]{2}){3}", port["mac_address"])
    assert port["security_groups"] == [env.group()]
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
    assert env.show(port) == port
    assert env.used() == 1


def test_a_port_is_made_on_a_network_that_one_sees_and_on_no_other(env: PortsEnvironment) -> None:
    own, shared, external = (
        env.network(),
        env.network(shared=True),
        env.network(external=True),
    )
    for seen in (shared, external):
        assert env.create(seen, OTHER)["project_id"] == "q"
    taken = env.create(own)["mac_address"]
    for given in ({}, {"mac_address": taken}):
        with pytest.raises(NotFound, match=str(own)):
            env.create(own, OTHER, **given)
    with pytest.raises(NotFound):
        env.create(NetworkId(uuid4()))
    assert env.create(own, ADMIN, project_id="q")["project_id"] == "q"


def test_one_sees_own_ports_and_those_on_own_networks(env: PortsEnvironment) -> None:
    shared = env.network(shared=True)
    theirs = env.create(shared, OTHER)
    assert env.show(theirs, MEMBER)["id"] == theirs["id"]
    mine = env.create(shared)
    with pytest.raises(NotFound):
        env.show(mine, OTHER)
    assert [each["id"] for each in env.plugin.find(OTHER, "port", Query())] == [theirs["id"]]


# MAC addresses.


@pytest.mark.spec("ML2-17")
def test_a_mac_is_unique_on_its_network_and_only_there(
    env: PortsEnvironment, network: NetworkId
) -> None:
    mac = "fa:16:3e:00:00:01"
    env.create(network, mac_address=mac)
    with pytest.raises(
        MacAddressInUse, match=f"{mac} is taken by another port of network {network}"
    ):
        env.create(network, mac_address=mac.upper())
    assert env.create(env.network(), mac_address=mac)["mac_address"] == mac
    with pytest.raises(Conflict, match="twice"):
        env.bulk([{"network_id": str(network), "mac_address": "fa:16:3e:00:00:02"}] * 2)


def test_generated_macs_have_a_prefix_of_four_octets_if_configured(
    context: ServerContext,
) -> None:
    context.settings = evolve(context.settings, base_mac="fa:16:3e:4f:00:00")
    env = PortsEnvironment(context)
    ports = env.bulk([{"network_id": str(env.network())}] * 20)
    assert all(port["mac_address"].startswith("fa:16:3e:4f:") for port in ports)


def test_a_made_mac_that_is_taken_is_made_again(
    env: PortsEnvironment, network: NetworkId, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter([1, 1, 1, 2])
    monkeypatch.setattr("netfw.server.l2.port_macs.random.getrandbits", lambda bits: next(given))
    first, second = env.create(network), env.create(network)
    assert first["mac_address"] == "fa:16:3e:00:00:01"
    assert second["mac_address"] == "fa:16:3e:00:00:02"
    assert addresses(second) == ["10.0.0.3"]  # nothing of the first attempts remains


def test_a_mac_changes_while_the_port_is_bound_to_no_host(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.host("h1")
    port = env.create(network)
    changed = env.update(port, mac_address="fa:16:3e:aa:00:01")
    assert changed["mac_address"] == "fa:16:3e:aa:00:01"
    again = env.update(port, mac_address=None)
    assert again["mac_address"] not in (port["mac_address"], changed["mac_address"])
    env.update(port, ADMIN, binding__host_id="h1")
    with pytest.raises(Conflict, match="bound to host h1"):
        env.update(port, mac_address="fa:16:3e:aa:00:02")
    assert env.update(port, mac_address=again["mac_address"])["mac_address"] == again["mac_address"]
    env.create(network, mac_address="fa:16:3e:aa:00:03")
    env.update(port, ADMIN, binding__host_id="")
    with pytest.raises(Conflict, match="is taken"):
        env.update(port, mac_address="fa:16:3e:aa:00:03")


# Security.


def test_ports_of_the_network_itself_are_in_no_group(
    env: PortsEnvironment, network: NetworkId
) -> None:
    port = env.create(network, ADMIN, device_owner="network:dhcp", device_id="x")
    assert (port["security_groups"], port["port_security_enabled"]) == ([], False)


def test_a_port_inherits_from_its_network_whether_it_is_filtered(context: ServerContext) -> None:
    env = PortsEnvironment(context, extensions=(PortSecurityDriver(),))
    unfiltered, filtered = env.network(port_security=False), env.network()
    port = env.create(unfiltered)
    assert (port["port_security_enabled"], port["security_groups"]) == (False, [])
    closed = env.create(unfiltered, port_security_enabled=True)
    assert closed["security_groups"] == [env.group()]
    assert env.create(filtered)["port_security_enabled"] is True
    with pytest.raises(InvalidInput, match="security_groups: need port security"):
        env.create(unfiltered, security_groups=[env.group()])
    with pytest.raises(Conflict, match="allowed_address_pairs need port security"):
        env.create(unfiltered, allowed_address_pairs=[{"ip_address": "10.9.0.7"}])
    assert env.update(closed, name="x")["port_security_enabled"] is True
    with pytest.raises(Conflict, match="while the port has security groups"):
        env.update(closed, port_security_enabled=False)


def test_groups_are_those_named_and_seen(env: PortsEnvironment, network: NetworkId) -> None:
    mine, theirs = env.group("p"), env.group("q")
    assert env.create(network, security_groups=[])["security_groups"] == []
    assert env.create(network, security_groups=[mine])["security_groups"] == [mine]
    with pytest.raises(NotFound, match=f"security_group {theirs}"):
        env.create(network, security_groups=[mine, theirs])
    port = env.create(network)
    with pytest.raises(NotFound, match=theirs):
        env.update(port, security_groups=[theirs])
    assert env.update(port, security_groups=[])["security_groups"] == []
    assert env.update(port, name="x")["security_groups"] == []


def test_without_port_security_there_are_neither_groups_nor_pairs(
    env: PortsEnvironment, network: NetworkId
) -> None:
    pairs = [{"ip_address": "10.9.0.0/16"}]
    open_port = env.create(network, port_security_enabled=False)
    assert open_port["security_groups"] == []
    with pytest.raises(InvalidInput, match="security_groups: need port security"):
        env.create(network, port_security_enabled=False, security_groups=[env.group()])
    with pytest.raises(Conflict, match="allowed_address_pairs need port security"):
        env.create(network, port_security_enabled=False, allowed_address_pairs=pairs)
    with pytest.raises(Conflict, match="allowed_address_pairs need port security"):
        env.update(open_port, allowed_address_pairs=pairs)
    with pytest.raises(InvalidInput, match="need port security"):
        env.update(open_port, security_groups=[env.group()])
    port = env.create(network, allowed_address_pairs=pairs)
    with pytest.raises(Conflict, match="while the port has security groups"):
        env.update(port, port_security_enabled=False, allowed_address_pairs=[])
    with pytest.raises(Conflict, match="allowed_address_pairs"):
        env.update(port, port_security_enabled=False, security_groups=[])
    opened = env.update(
        port, port_security_enabled=False, security_groups=[], allowed_address_pairs=[]
    )
    assert (opened["port_security_enabled"], opened["security_groups"]) == (False, [])
    closed = env.update(port, port_security_enabled=True)
    assert (closed["port_security_enabled"], closed["security_groups"]) == (True, [])


def test_an_address_pair_without_a_mac_is_for_that_of_the_port(
    env: PortsEnvironment, network: NetworkId
) -> None:
    other = "fa:16:3e:99:00:01"
    asked = [{"ip_address": "10.9.0.7"}, {"ip_address": "10.9.0.0/16", "mac_address": other}]
    port = env.create(network, allowed_address_pairs=asked)
    mac = port["mac_address"]
    assert port["allowed_address_pairs"] == [
        {"ip_address": "10.9.0.7", "mac_address": mac},
        {"ip_address": "10.9.0.0/16", "mac_address": other},
    ]
    moved = env.update(port, mac_address="fa:16:3e:99:00:02")
    assert [pair["mac_address"] for pair in moved["allowed_address_pairs"]] == [
        "fa:16:3e:99:00:02",
        other,
    ]
    assert env.update(port, allowed_address_pairs=[])["allowed_address_pairs"] == []


def test_address_pairs_that_cannot_be_are_refused(
    env: PortsEnvironment, network: NetworkId
) -> None:
    pair: dict[str, Any] = {"ip_address": "10.9.0.7"}
    with pytest.raises(InvalidInput, match=r"allowed_address_pairs\[1\]: is there twice"):
        env.create(network, allowed_address_pairs=[pair, pair])
    many = [{"ip_address": f"10.9.0.{number}"} for number in range(11)]
    with pytest.raises(InvalidInput, match="11 are more than 10"):
        env.create(network, allowed_address_pairs=many)
    port = env.create(network)
    with pytest.raises(InvalidInput, match=r"10.0.0.2 is the port's own address already"):
        env.update(port, allowed_address_pairs=[{"ip_address": "10.0.0.2"}])


# Everything else that a port has.


def test_dhcp_options_are_added_replaced_and_removed_one_by_one(
    env: PortsEnvironment, network: NetworkId
) -> None:
    def option(name: str, value: str | None, version: int = 4) -> dict[str, Any]:
        return {"opt_name": name, "opt_value": value, "ip_version": version}

    port = env.create(
        network, extra_dhcp_opts=[option("domain-search", "a"), option("server-ip-address", None)]
    )
    assert port["extra_dhcp_opts"] == [option("domain-search", "a")]
    both = env.update(
        port, extra_dhcp_opts=[option("tftp-server", "10.0.0.9"), option("domain-search", "b", 6)]
    )
    assert len(both["extra_dhcp_opts"]) == 3
    left = env.update(
        port, extra_dhcp_opts=[option("domain-search", None), option("tftp-server", "10.0.0.8")]
    )
    assert left["extra_dhcp_opts"] == [
        option("tftp-server", "10.0.0.8"),
        option("domain-search", "b", 6),
    ]
    with pytest.raises(InvalidInput, match=r"extra_dhcp_opts\[0\]"):
        env.update(port, extra_dhcp_opts=[option("bad name\n", "x")])


def test_what_a_change_does_not_name_stays(env: PortsEnvironment, network: NetworkId) -> None:
    port = env.create(network, name="a", device_id="vm", device_owner="compute:nova")
    changed = env.update(port, name="b", admin_state_up=False)
    gone = {"name", "admin_state_up", "revision_number", "updated_at"}
    assert (changed["name"], changed["admin_state_up"]) == ("b", False)
    assert changed["revision_number"] == 2
    assert {k: v for k, v in changed.items() if k not in gone} == {
        k: v for k, v in port.items() if k not in gone
    }
    assert env.update(port, name="b")["revision_number"] == 2
    assert env.show(port) == changed


def test_a_change_meant_for_another_revision_is_refused(
    env: PortsEnvironment, network: NetworkId
) -> None:
    port = env.create(network)
    env.update(port, name="b")
    with pytest.raises(Outdated):
        env.plugin.update(MEMBER, "port", port["id"], {"name": "c"}, 1)
    with pytest.raises(Outdated):
        env.plugin.delete(MEMBER, "port", port["id"], 1)


def test_a_quota_counts_ports_made_and_deleted(context: ServerContext) -> None:
    context.quotas = {"port": 3}
    env = PortsEnvironment(context)
    network = env.network()
    env.subnet(network)
    ports = env.bulk([{"network_id": str(network)}] * 2)
    with pytest.raises(Exhausted, match="has 2 of 3 port"):
        env.bulk([{"network_id": str(network)}] * 2)
    assert env.used() == 2
    env.delete(ports[0])
    assert env.used() == 1
    again = env.bulk([{"network_id": str(network)}] * 2)
    assert sorted(map(addresses, again)) == [["10.0.0.2"], ["10.0.0.4"]]


def test_of_a_list_all_are_made_or_none(env: PortsEnvironment, network: NetworkId) -> None:
    bodies = [{"network_id": str(network), "name": f"n{number}"} for number in range(5)]
    with pytest.raises(NotFound):
        env.bulk([*bodies, {"network_id": str(uuid4())}])
    assert env.plugin.find(ADMIN, "port", Query()) == ()
    made = env.bulk(bodies)
    assert [port["name"] for port in made] == [body["name"] for body in bodies]
    assert [addresses(port) for port in made] == [[f"10.0.0.{n}"] for n in range(2, 7)]


# Deleting.


def test_a_deleted_port_leaves_nothing(env: PortsEnvironment, network: NetworkId) -> None:
    port = env.create(network, tags=["x"])
    env.delete(port)
    with pytest.raises(NotFound):
        env.show(port)
    with pytest.raises(NotFound):
        env.delete(port)
    with pytest.raises(NotFound):
        env.plugin.delete(MEMBER, "port", "no uuid")
    assert addresses(env.create(network, mac_address=port["mac_address"])) == ["10.0.0.2"]


@pytest.mark.spec("API-09")
@pytest.mark.parametrize("owner", RESERVED_OWNERS)
def test_only_administrators_give_a_port_a_router_owner(
    env: PortsEnvironment, network: NetworkId, owner: str
) -> None:
    router = str(env.router().id)
    for device in (router, "rubbish", ""):
        with pytest.raises(Forbidden, match="add_router_interface"):
            env.create(network, device_owner=owner, device_id=device)
    port = env.create(network, device_id=router)
    with pytest.raises(Forbidden):
        env.update(port, device_owner=owner)
    with pytest.raises(Forbidden):
        env.update(port, device_owner=owner, device_id="")
    with pytest.raises(Forbidden):
        env.bulk([{"network_id": str(network), "device_owner": each} for each in ("", owner)])
    interface = env.create(network, ADMIN, device_owner=owner, device_id="x", project_id="p")
    with pytest.raises((Conflict, Forbidden)):
        env.update(interface, device_id=router)
    same = env.update(interface, device_owner=owner, device_id="x", name="n")
    assert same["name"] == "n"


@pytest.mark.parametrize("owner", ["network:router_interface", "network:router_gateway"])
def test_a_port_of_a_router_goes_with_it(
    env: PortsEnvironment, network: NetworkId, owner: str
) -> None:
    router = env.router()
    port = env.create(network, ADMIN, device_owner=owner, device_id=str(router.id))
    for who in (MEMBER, ADMIN):
        with pytest.raises(Conflict, match=f"it is {owner} of router {router.id}"):
            env.delete(port, who)
    with pytest.raises(Conflict, match="device_id of port"):
        env.update(port, MEMBER, device_id="")
    assert env.update(port, MEMBER, name="x")["name"] == "x"
    env.context.run(ADMIN, lambda unit: env.handler.discard(unit, env.value(port)))
    assert env.used("admin") == 0
    orphan = env.create(network, ADMIN, device_owner=owner, device_id=str(uuid4()))
    env.delete(orphan, ADMIN)
    served = env.create(network, ADMIN, device_owner="network:dhcp", device_id="d")
    env.delete(served, ADMIN)
