"""The addresses of ports: chosen, named, derived, kept and given back."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.server.ipam import AddressRequest, AddressStore, AnyAddress
from netfw.drivers.server.query import Query
from netfw.errors import Conflict, InvalidInput
from netfw.errors.ports import IpAddressAlreadyAllocated, IpAddressGenerationFailure
from netfw.model import AllocationPool, NetworkId
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode
from netfw.server.core.server_context import ServerContext
from netfw.server.l2.port_addresses import AddressOwner, requests
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.server.l2.environment import ADMIN, MEMBER, PortsEnvironment, addresses

SLAAC = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
STATEFUL = {"ipv6_ra_mode": Ipv6Mode.STATEFUL, "ipv6_address_mode": Ipv6Mode.STATEFUL}


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    return PortsEnvironment(context)


@pytest.fixture
def network(env: PortsEnvironment) -> NetworkId:
    return env.network()


def by_address(*texts: str) -> list[dict[str, Any]]:
    return [{"ip_address": text} for text in texts]


@pytest.mark.spec("ML2-09")
def test_a_port_gets_one_address_of_each_family_and_those_it_derives(
    env: PortsEnvironment, network: NetworkId
) -> None:
    four = [env.subnet(network, f"10.{n}.0.0/24") for n in range(3)]
    six = [env.subnet(network, f"2001:db8:{n}::/64", **STATEFUL) for n in (1, 2)]
    env.subnet(network, "2001:db8:a::/64", **SLAAC)
    env.subnet(network, "2001:db8:b::/64", ipv6_address_mode=Ipv6Mode.STATELESS)
    port = env.create(network, mac_address="fa:16:3e:01:02:03")
    first, second, *derived = port["fixed_ips"]
    assert first["subnet_id"] in map(str, four)
    assert second["subnet_id"] in map(str, six)
    assert sorted(fixed["ip_address"] for fixed in derived) == [
        "2001:db8:a:0:f816:3eff:fe01:203",
        "2001:db8:b:0:f816:3eff:fe01:203",
    ]


def test_a_network_without_subnets_has_ports_without_addresses(
    env: PortsEnvironment, network: NetworkId
) -> None:
    assert env.create(network)["fixed_ips"] == []
    with pytest.raises(InvalidInput, match=r"fixed_ips\[0\].ip_address: 10.0.0.9 is in no subnet"):
        env.create(network, fixed_ips=by_address("10.0.0.9"))


@pytest.mark.spec("ML2-09")
def test_addresses_are_given_by_subnet_by_address_or_by_both(
    env: PortsEnvironment, network: NetworkId
) -> None:
    one, two = env.subnet(network, "10.0.0.0/24"), env.subnet(network, "10.1.0.0/24")
    asked = [
        {"subnet_id": str(two)},
        {"ip_address": "10.0.0.77"},
        {"subnet_id": str(one), "ip_address": "10.0.0.78"},
        {"subnet_id": str(one)},
    ]
    port = env.create(network, fixed_ips=asked)
    assert addresses(port) == ["10.1.0.2", "10.0.0.77", "10.0.0.78", "10.0.0.2"]
    none = env.create(network, fixed_ips=[])
    assert (none["fixed_ips"], none["ip_allocation"]) == ([], "none")
    assert port["ip_allocation"] == "immediate"
    assert env.update(none, fixed_ips=by_address("10.0.0.9"))["ip_allocation"] == "immediate"


def test_an_address_outside_the_pools_is_given_on_request(
    env: PortsEnvironment, network: NetworkId
) -> None:
    pool = (AllocationPool(start="10.0.0.100", end="10.0.0.101"),)
    subnet = env.subnet(network, allocation_pools=pool)
    assert addresses(env.create(network, fixed_ips=by_address("10.0.0.5"))) == ["10.0.0.5"]
    env.bulk([{"network_id": str(network)}] * 2)
    with pytest.raises(
        IpAddressGenerationFailure, match=f"no address is left in 10.0.0.0/24 .subnet {subnet}"
    ):
        env.create(network)


@pytest.mark.spec("ML2-09")
def test_an_address_is_on_one_port_only(env: PortsEnvironment, network: NetworkId) -> None:
    subnet = env.subnet(network)
    env.create(network, fixed_ips=by_address("10.0.0.9"))
    taken = f"address 10.0.0.9 is taken in 10.0.0.0/24 .subnet {subnet}"
    with pytest.raises(IpAddressAlreadyAllocated, match=taken):
        env.create(network, fixed_ips=by_address("10.0.0.9"))
    with pytest.raises(Conflict, match=taken):
        env.update(env.create(network), fixed_ips=by_address("10.0.0.9"))
    with pytest.raises(InvalidInput, match=r"fixed_ips\[1\].ip_address: 10.0.0.8 is there twice"):
        env.create(network, fixed_ips=by_address("10.0.0.8", "10.0.0.8"))
    with pytest.raises(Conflict, match=r"10.0.0.8 is taken"):
        env.bulk([{"network_id": str(network), "fixed_ips": by_address("10.0.0.8")}] * 2)


def test_all_invalid_addresses_are_reported_at_once(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.subnet(network)
    other = env.subnet(env.network(), "10.5.0.0/24")
    with pytest.raises(InvalidInput) as caught:
        env.create(network, fixed_ips=[{"subnet_id": str(other)}, *by_address("10.5.0.4")])
    assert caught.value.problems == {
        "fixed_ips[0].subnet_id": f"{other} is no subnet of the port's network",
        "fixed_ips[1].ip_address": "10.5.0.4 is in no subnet of the port's network",
    }
    for bad in ("10.0.0.0", "10.0.0.255"):
        with pytest.raises(InvalidInput, match=bad):
            env.create(network, fixed_ips=by_address(bad))


def test_the_address_of_the_gateway_is_for_no_instance(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.subnet(network)
    with pytest.raises(InvalidInput, match=r"10.0.0.1 is the gateway of 10.0.0.0/24"):
        env.create(network, device_owner="compute:az", fixed_ips=by_address("10.0.0.1"))
    router = {"device_owner": "network:router_interface", "device_id": "r"}
    port = env.create(network, ADMIN, fixed_ips=by_address("10.0.0.1"), **router)
    env.delete(port, ADMIN)
    # A port without an owner may become a router's.
    assert addresses(env.create(network, fixed_ips=by_address("10.0.0.1"))) == ["10.0.0.1"]


@pytest.mark.spec("ML2-09")
def test_where_hosts_derive_addresses_no_other_can_be_named(
    env: PortsEnvironment, network: NetworkId
) -> None:
    subnet = env.subnet(network, "2001:db8::/64", **SLAAC)
    mac, own = "fa:16:3e:01:02:03", "2001:db8::f816:3eff:fe01:203"
    with pytest.raises(InvalidInput, match=f"it is {own}, not 2001:db8::99"):
        env.create(network, mac_address=mac, fixed_ips=by_address("2001:db8::99"))
    for asked in (by_address(own), [{"subnet_id": str(subnet)}], None):
        port = env.create(network, mac_address=mac, fixed_ips=asked)
        assert addresses(port) == [own]
        env.delete(port)
    router = {"device_owner": "network:router_interface", "device_id": "r"}
    interface = env.create(network, ADMIN, fixed_ips=by_address("2001:db8::1"), **router)
    assert addresses(interface) == ["2001:db8::1"]


def test_a_derived_address_comes_with_those_that_are_named(
    env: PortsEnvironment, network: NetworkId
) -> None:
    four = env.subnet(network)
    env.subnet(network, "2001:db8::/64", **SLAAC)
    port = env.create(
        network, mac_address="fa:16:3e:01:02:03", fixed_ips=[{"subnet_id": str(four)}]
    )
    assert addresses(port) == ["10.0.0.2", "2001:db8::f816:3eff:fe01:203"]
    moved = env.update(port, mac_address="fa:16:3e:01:02:04")
    assert addresses(moved) == ["10.0.0.2", "2001:db8::f816:3eff:fe01:204"]
    changed = env.update(port, fixed_ips=by_address("10.0.0.40"))
    assert addresses(changed) == ["10.0.0.40", "2001:db8::f816:3eff:fe01:204"]
    assert env.update(port, fixed_ips=[])["fixed_ips"] == []
    env.create(network, mac_address="fa:16:3e:01:02:03")  # the address is free again


def test_a_change_keeps_what_it_can_and_frees_the_rest(
    env: PortsEnvironment, network: NetworkId
) -> None:
    one, two = env.subnet(network, "10.0.0.0/24"), env.subnet(network, "10.1.0.0/24")
    port = env.create(network, fixed_ips=[{"subnet_id": str(one)}, {"subnet_id": str(two)}])
    assert addresses(port) == ["10.0.0.2", "10.1.0.2"]
    same = env.update(port, fixed_ips=[{"subnet_id": str(one)}, {"subnet_id": str(two)}])
    assert same["revision_number"] == port["revision_number"]
    more = env.update(
        port, fixed_ips=[{"subnet_id": str(one)}, {"subnet_id": str(one)}, *by_address("10.1.0.2")]
    )
    assert sorted(addresses(more)) == ["10.0.0.2", "10.0.0.3", "10.1.0.2"]
    fewer = env.update(port, fixed_ips=by_address("10.0.0.3"))
    assert addresses(fewer) == ["10.0.0.3"]
    assert addresses(env.create(network, fixed_ips=[{"subnet_id": str(two)}])) == ["10.1.0.2"]
    with pytest.raises(InvalidInput, match=r"fixed_ips\[1\].ip_address"):
        env.update(port, fixed_ips=by_address("10.0.0.3", "10.7.0.3"))
    assert addresses(env.show(port)) == ["10.0.0.3"]


def test_an_address_can_be_exchanged_in_a_full_subnet(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.subnet(network, "10.0.0.0/30")  # one address beside the gateway's
    port = env.create(network)
    other = env.create(network, fixed_ips=[])
    with pytest.raises(Conflict, match="no address is left"):
        env.create(network)
    env.update(port, fixed_ips=[])
    assert addresses(env.update(other, fixed_ips=by_address("10.0.0.2"))) == ["10.0.0.2"]


def test_subnets_for_certain_owners_are_for_them(env: PortsEnvironment, network: NetworkId) -> None:
    env.subnet(network, "10.0.0.0/24", service_types=("network:router_gateway",))
    with pytest.raises(Conflict, match="no subnet of the network is for a port of compute:az"):
        env.create(network, device_owner="compute:az")
    env.subnet(network, "10.1.0.0/24")
    assert addresses(env.create(network, device_owner="compute:az")) == ["10.1.0.2"]
    gateway = {"device_owner": "network:router_gateway", "device_id": "r"}
    assert addresses(env.create(network, ADMIN, **gateway)) == ["10.0.0.2"]


def test_ports_of_one_list_share_subnets_that_run_out(
    env: PortsEnvironment, network: NetworkId
) -> None:
    env.subnet(network, "10.0.0.0/29")  # five addresses
    env.subnet(network, "10.0.1.0/29")
    asked = [{"network_id": str(network)}] * 8
    named = {"network_id": str(network), "fixed_ips": by_address("10.0.0.4")}
    made = env.bulk([*asked, named])
    found = [address for port in made for address in addresses(port)]
    assert len(set(found)) == 9
    assert addresses(made[-1]) == ["10.0.0.4"]
    with pytest.raises(Conflict, match=r"no address is left in 10.0.[01].0/29 .*, 10.0.[01].0/29"):
        env.bulk([{"network_id": str(network)}] * 2)
    env.bulk([{"network_id": str(network)}])  # what was taken for two went back


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
    env = PortsEnvironment(context)
    network = env.network()
    env.subnet(network, "10.0.0.0/28")
    made = env.bulk([{"network_id": str(network)}] * 4)
    assert [addresses(port)[0] for port in made] == [
        "10.0.0.2",
        "10.0.0.14",
        "10.0.0.13",
        "10.0.0.12",
    ]
    context.ipam = InternalIpamDriver()
    rest = env.bulk([{"network_id": str(network)}] * 9)
    assert {addresses(port)[0] for port in rest} == {f"10.0.0.{n}" for n in range(3, 12)}


def test_ports_are_found_by_their_addresses(env: PortsEnvironment, network: NetworkId) -> None:
    env.subnet(network)
    port = env.bulk([{"network_id": str(network)}] * 3)[1]
    found = env.plugin.find(
        MEMBER, "port", Query(filters={"fixed_ips": (f"ip_address={addresses(port)[0]}",)})
    )
    assert [each["id"] for each in found] == [port["id"]]


def test_no_request_is_made_for_an_empty_list() -> None:
    assert requests((), AddressOwner(mac="fa:16:3e:00:00:01"), None) == ()
    assert requests((), AddressOwner(mac="fa:16:3e:00:00:01"), []) == ()
