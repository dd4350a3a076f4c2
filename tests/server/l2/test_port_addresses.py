"""The addresses of ports: chosen, named, derived, kept and given back."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.ipam import AddressRequest, AddressStore, AnyAddress
from netfw.drivers.query import Query
from netfw.errors import (
    Conflict,
    InvalidInput,
    IpAddressAlreadyAllocated,
    IpAddressGenerationFailure,
)
from netfw.model import AllocationPool, NetworkId
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode
from netfw.server.core.context import ServerContext
from netfw.server.l2.port_addresses import AddressOwner, requests
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.server.l2.environment import ADMIN, MEMBER, World, addresses

SLAAC = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
STATEFUL = {"ipv6_ra_mode": Ipv6Mode.STATEFUL, "ipv6_address_mode": Ipv6Mode.STATEFUL}


@pytest.fixture
def world(context: ServerContext) -> World:
    return World(context)


@pytest.fixture
def network(world: World) -> NetworkId:
    return world.network()


def by_address(*texts: str) -> list[dict[str, Any]]:
    return [{"ip_address": text} for text in texts]


@pytest.mark.spec("ML2-09")
def test_a_port_gets_one_address_of_each_family_and_those_it_derives(
    world: World, network: NetworkId
) -> None:
    four = [world.subnet(network, f"10.{n}.0.0/24") for n in range(3)]
    six = [world.subnet(network, f"2001:db8:{n}::/64", **STATEFUL) for n in (1, 2)]
    world.subnet(network, "2001:db8:a::/64", **SLAAC)
    world.subnet(network, "2001:db8:b::/64", ipv6_address_mode=Ipv6Mode.STATELESS)
    port = world.create(network, mac_address="fa:16:3e:01:02:03")
    first, second, *derived = port["fixed_ips"]
    assert first["subnet_id"] in map(str, four)
    assert second["subnet_id"] in map(str, six)
    assert sorted(fixed["ip_address"] for fixed in derived) == [
        "2001:db8:a:0:f816:3eff:fe01:203",
        "2001:db8:b:0:f816:3eff:fe01:203",
    ]


def test_a_network_without_subnets_has_ports_without_addresses(
    world: World, network: NetworkId
) -> None:
    assert world.create(network)["fixed_ips"] == []
    with pytest.raises(InvalidInput, match=r"fixed_ips\[0\].ip_address: 10.0.0.9 is in no subnet"):
        world.create(network, fixed_ips=by_address("10.0.0.9"))


@pytest.mark.spec("ML2-09")
def test_addresses_are_given_by_subnet_by_address_or_by_both(
    world: World, network: NetworkId
) -> None:
    one, two = world.subnet(network, "10.0.0.0/24"), world.subnet(network, "10.1.0.0/24")
    asked = [
        {"subnet_id": str(two)},
        {"ip_address": "10.0.0.77"},
        {"subnet_id": str(one), "ip_address": "10.0.0.78"},
        {"subnet_id": str(one)},
    ]
    port = world.create(network, fixed_ips=asked)
    assert addresses(port) == ["10.1.0.2", "10.0.0.77", "10.0.0.78", "10.0.0.2"]
    none = world.create(network, fixed_ips=[])
    assert (none["fixed_ips"], none["ip_allocation"]) == ([], "none")
    assert port["ip_allocation"] == "immediate"
    assert world.update(none, fixed_ips=by_address("10.0.0.9"))["ip_allocation"] == "immediate"


def test_an_address_outside_the_pools_is_given_on_request(world: World, network: NetworkId) -> None:
    pool = (AllocationPool(start="10.0.0.100", end="10.0.0.101"),)
    subnet = world.subnet(network, allocation_pools=pool)
    assert addresses(world.create(network, fixed_ips=by_address("10.0.0.5"))) == ["10.0.0.5"]
    world.bulk([{"network_id": str(network)}] * 2)
    with pytest.raises(
        IpAddressGenerationFailure, match=f"no address is left in 10.0.0.0/24 .subnet {subnet}"
    ):
        world.create(network)


@pytest.mark.spec("ML2-09")
def test_an_address_is_on_one_port_only(world: World, network: NetworkId) -> None:
    subnet = world.subnet(network)
    world.create(network, fixed_ips=by_address("10.0.0.9"))
    taken = f"address 10.0.0.9 is taken in 10.0.0.0/24 .subnet {subnet}"
    with pytest.raises(IpAddressAlreadyAllocated, match=taken):
        world.create(network, fixed_ips=by_address("10.0.0.9"))
    with pytest.raises(Conflict, match=taken):
        world.update(world.create(network), fixed_ips=by_address("10.0.0.9"))
    with pytest.raises(InvalidInput, match=r"fixed_ips\[1\].ip_address: 10.0.0.8 is there twice"):
        world.create(network, fixed_ips=by_address("10.0.0.8", "10.0.0.8"))
    with pytest.raises(Conflict, match=r"10.0.0.8 is taken"):
        world.bulk([{"network_id": str(network), "fixed_ips": by_address("10.0.0.8")}] * 2)


def test_all_invalid_addresses_are_reported_at_once(world: World, network: NetworkId) -> None:
    world.subnet(network)
    other = world.subnet(world.network(), "10.5.0.0/24")
    with pytest.raises(InvalidInput) as caught:
        world.create(network, fixed_ips=[{"subnet_id": str(other)}, *by_address("10.5.0.4")])
    assert caught.value.problems == {
        "fixed_ips[0].subnet_id": f"{other} is no subnet of the port's network",
        "fixed_ips[1].ip_address": "10.5.0.4 is in no subnet of the port's network",
    }
    for bad in ("10.0.0.0", "10.0.0.255"):
        with pytest.raises(InvalidInput, match=bad):
            world.create(network, fixed_ips=by_address(bad))


def test_the_address_of_the_gateway_is_for_no_instance(world: World, network: NetworkId) -> None:
    world.subnet(network)
    with pytest.raises(InvalidInput, match=r"10.0.0.1 is the gateway of 10.0.0.0/24"):
        world.create(network, device_owner="compute:az", fixed_ips=by_address("10.0.0.1"))
    router = {"device_owner": "network:router_interface", "device_id": "r"}
    port = world.create(network, ADMIN, fixed_ips=by_address("10.0.0.1"), **router)
    world.delete(port, ADMIN)
    # A port without an owner may become a router's.
    assert addresses(world.create(network, fixed_ips=by_address("10.0.0.1"))) == ["10.0.0.1"]


@pytest.mark.spec("ML2-09")
def test_where_hosts_derive_addresses_no_other_can_be_named(
    world: World, network: NetworkId
) -> None:
    subnet = world.subnet(network, "2001:db8::/64", **SLAAC)
    mac, own = "fa:16:3e:01:02:03", "2001:db8::f816:3eff:fe01:203"
    with pytest.raises(InvalidInput, match=f"it is {own}, not 2001:db8::99"):
        world.create(network, mac_address=mac, fixed_ips=by_address("2001:db8::99"))
    for asked in (by_address(own), [{"subnet_id": str(subnet)}], None):
        port = world.create(network, mac_address=mac, fixed_ips=asked)
        assert addresses(port) == [own]
        world.delete(port)
    router = {"device_owner": "network:router_interface", "device_id": "r"}
    interface = world.create(network, ADMIN, fixed_ips=by_address("2001:db8::1"), **router)
    assert addresses(interface) == ["2001:db8::1"]


def test_a_derived_address_comes_with_those_that_are_named(
    world: World, network: NetworkId
) -> None:
    four = world.subnet(network)
    world.subnet(network, "2001:db8::/64", **SLAAC)
    port = world.create(
        network, mac_address="fa:16:3e:01:02:03", fixed_ips=[{"subnet_id": str(four)}]
    )
    assert addresses(port) == ["10.0.0.2", "2001:db8::f816:3eff:fe01:203"]
    moved = world.update(port, mac_address="fa:16:3e:01:02:04")
    assert addresses(moved) == ["10.0.0.2", "2001:db8::f816:3eff:fe01:204"]
    changed = world.update(port, fixed_ips=by_address("10.0.0.40"))
    assert addresses(changed) == ["10.0.0.40", "2001:db8::f816:3eff:fe01:204"]
    assert world.update(port, fixed_ips=[])["fixed_ips"] == []
    world.create(network, mac_address="fa:16:3e:01:02:03")  # the address is free again


def test_a_change_keeps_what_it_can_and_frees_the_rest(world: World, network: NetworkId) -> None:
    one, two = world.subnet(network, "10.0.0.0/24"), world.subnet(network, "10.1.0.0/24")
    port = world.create(network, fixed_ips=[{"subnet_id": str(one)}, {"subnet_id": str(two)}])
    assert addresses(port) == ["10.0.0.2", "10.1.0.2"]
    same = world.update(port, fixed_ips=[{"subnet_id": str(one)}, {"subnet_id": str(two)}])
    assert same["revision_number"] == port["revision_number"]
    more = world.update(
        port, fixed_ips=[{"subnet_id": str(one)}, {"subnet_id": str(one)}, *by_address("10.1.0.2")]
    )
    assert sorted(addresses(more)) == ["10.0.0.2", "10.0.0.3", "10.1.0.2"]
    fewer = world.update(port, fixed_ips=by_address("10.0.0.3"))
    assert addresses(fewer) == ["10.0.0.3"]
    assert addresses(world.create(network, fixed_ips=[{"subnet_id": str(two)}])) == ["10.1.0.2"]
    with pytest.raises(InvalidInput, match=r"fixed_ips\[1\].ip_address"):
        world.update(port, fixed_ips=by_address("10.0.0.3", "10.7.0.3"))
    assert addresses(world.show(port)) == ["10.0.0.3"]


def test_an_address_can_be_exchanged_in_a_full_subnet(world: World, network: NetworkId) -> None:
    world.subnet(network, "10.0.0.0/30")  # one address beside the gateway's
    port = world.create(network)
    other = world.create(network, fixed_ips=[])
    with pytest.raises(Conflict, match="no address is left"):
        world.create(network)
    world.update(port, fixed_ips=[])
    assert addresses(world.update(other, fixed_ips=by_address("10.0.0.2"))) == ["10.0.0.2"]


def test_subnets_for_certain_owners_are_for_them(world: World, network: NetworkId) -> None:
    world.subnet(network, "10.0.0.0/24", service_types=("network:router_gateway",))
    with pytest.raises(Conflict, match="no subnet of the network is for a port of compute:az"):
        world.create(network, device_owner="compute:az")
    world.subnet(network, "10.1.0.0/24")
    assert addresses(world.create(network, device_owner="compute:az")) == ["10.1.0.2"]
    gateway = {"device_owner": "network:router_gateway", "device_id": "r"}
    assert addresses(world.create(network, ADMIN, **gateway)) == ["10.0.0.2"]


def test_ports_of_one_list_share_subnets_that_run_out(world: World, network: NetworkId) -> None:
    world.subnet(network, "10.0.0.0/29")  # five addresses
    world.subnet(network, "10.0.1.0/29")
    asked = [{"network_id": str(network)}] * 8
    named = {"network_id": str(network), "fixed_ips": by_address("10.0.0.4")}
    made = world.bulk([*asked, named])
    found = [address for port in made for address in addresses(port)]
    assert len(set(found)) == 9
    assert addresses(made[-1]) == ["10.0.0.4"]
    with pytest.raises(Conflict, match=r"no address is left in 10.0.[01].0/29 .*, 10.0.[01].0/29"):
        world.bulk([{"network_id": str(network)}] * 2)
    world.bulk([{"network_id": str(network)}])  # what was taken for two went back


class FromTheEnd(InternalIpamDriver):
    """Chooses addresses itself, but for the first."""

    def __init__(self) -> None:
        self.asked = 0

    def allocate(self, request: AddressRequest, store: AddressStore) -> FixedIp:
        self.asked += 1
        if not isinstance(request, AnyAddress) or self.asked == 1:
            return super().allocate(request, store)
        subnet = request.subnets[0]
        for address in reversed(list(subnet.cidr.hosts())):
            if store.acquire(subnet.id, address):
                return FixedIp(subnet_id=subnet.id, address=address)
        raise Conflict("none is left")


def test_addresses_allocated_ahead_and_unused_are_released(context: ServerContext) -> None:
    context.ipam = FromTheEnd()
    world = World(context)
    network = world.network()
    world.subnet(network, "10.0.0.0/28")
    made = world.bulk([{"network_id": str(network)}] * 4)
    assert [addresses(port)[0] for port in made] == [
        "10.0.0.2",
        "10.0.0.14",
        "10.0.0.13",
        "10.0.0.12",
    ]
    context.ipam = InternalIpamDriver()
    rest = world.bulk([{"network_id": str(network)}] * 9)
    assert {addresses(port)[0] for port in rest} == {f"10.0.0.{n}" for n in range(3, 12)}


def test_ports_are_found_by_their_addresses(world: World, network: NetworkId) -> None:
    world.subnet(network)
    port = world.bulk([{"network_id": str(network)}] * 3)[1]
    found = world.plugin.find(
        MEMBER, "port", Query(filters={"fixed_ips": (f"ip_address={addresses(port)[0]}",)})
    )
    assert [each["id"] for each in found] == [port["id"]]


def test_no_request_is_made_for_an_empty_list() -> None:
    assert requests((), AddressOwner(mac="fa:16:3e:00:00:01"), None) == ()
    assert requests((), AddressOwner(mac="fa:16:3e:00:00:01"), []) == ()
