"""Validation of subnets and host addresses, and derived addresses."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_address, ip_network

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.server.ipam import AnyAddress, DerivedAddress
from netfw.errors import Conflict, InvalidInput
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import Mac, derives, eui64, link_local_mac
from netfw.testing.conformance.server.ipam_samples import SMALL, STATEFUL, UNFIT, subnet, this
from netfw.testing.fakes.allocations import MemoryAddresses
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.ipam.validation import reserved_addresses, subnet_problems

pytestmark = pytest.mark.spec("ML2-09")


@pytest.mark.parametrize(
    ("block", "addresses"),
    [
        ("192.0.2.0/24", {"192.0.2.0", "192.0.2.255"}),
        ("192.0.2.4/30", {"192.0.2.4", "192.0.2.7"}),
        ("192.0.2.4/31", set()),
        ("192.0.2.4/32", set()),
        ("2001:db8::/64", {"2001:db8::"}),
        ("2001:db8::/126", {"2001:db8::"}),
        ("2001:db8::/127", set()),
        ("2001:db8::/128", set()),
    ],
)
def test_blocks_of_three_addresses_and_more_have_some_that_are_none_for_hosts(
    block: str, addresses: set[str]
) -> None:
    assert reserved_addresses(ip_network(block)).keys() == {ip_address(text) for text in addresses}


@given(st.integers(0, 2**48 - 1).filter(lambda number: not number >> 40 & 1))
def test_two_macs_derive_two_addresses_of_the_block(number: int) -> None:
    digits = f"{number:012x}"
    mac = Mac(":".join(digits[at : at + 2] for at in range(0, 12, 2)))
    block = ip_network("2001:db8:0:7::/64")
    address = eui64(block, mac)
    assert address in block
    identifier = int(address) & (2**64 - 1)
    back = (identifier >> 40 << 24 | identifier & 0xFFFFFF) ^ 2 << 40
    assert identifier >> 24 & 0xFFFF == 0xFFFE
    assert back == number


@pytest.mark.parametrize("what", UNFIT)
def test_each_fault_of_a_subnet_is_named_with_its_attribute(what: str) -> None:
    ((attribute, problem),) = subnet_problems(None, UNFIT[what])
    assert attribute == ("gateway_ip" if "as gateway" in what else "allocation_pools[0]")
    assert str(UNFIT[what].cidr) in problem


def test_a_gateway_outside_the_block_is_accepted() -> None:
    assert not list(subnet_problems(None, evolve(SMALL, gateway="198.51.100.1")))


@pytest.mark.parametrize("who", ["ipv6_ra_mode", "ipv6_address_mode"])
@pytest.mark.parametrize("mode", [Ipv6Mode.SLAAC, Ipv6Mode.STATELESS])
def test_hosts_derive_addresses_whatever_announces_the_prefix(who: str, mode: Ipv6Mode) -> None:
    block = subnet("2001:db8::/64")
    assert not block.automatic
    assert evolve(block, **{who: mode}).automatic
    assert not evolve(block, **{who: Ipv6Mode.STATEFUL}).automatic


def test_refusals_say_which_address_and_where() -> None:
    driver, other = InternalIpamDriver(), subnet("198.51.100.0/24")
    with MemoryAddresses().transaction() as store:
        with pytest.raises(InvalidInput, match=r"ip_address: 192\.0\.2\.8 is not in 192\.0\.2\.0"):
            driver.allocate(this(SMALL, "192.0.2.8"), store)
        with pytest.raises(InvalidInput, match=r"192\.0\.2\.7 is the broadcast of 192\.0\.2\.0/29"):
            driver.allocate(this(SMALL, "192.0.2.7"), store)
        with pytest.raises(InvalidInput, match="neither slaac nor dhcpv6-stateless"):
            driver.allocate(DerivedAddress(subnet=STATEFUL, mac="02:00:00:00:00:01"), store)
        with pytest.raises(Conflict, match="there is no subnet"):
            driver.allocate(AnyAddress(subnets=()), store)
        with pytest.raises(Conflict, match=rf"198\.51\.100\.0/24 \(subnet {other.id}\)"):
            driver.allocate(AnyAddress(subnets=(other,)), store)


@given(st.binary(min_size=6, max_size=6).filter(lambda octets: not octets[0] & 1))
def test_a_link_local_address_tells_the_mac_that_it_was_derived_from(octets: bytes) -> None:
    mac = Mac(octets.hex(":"))
    for block in ("fe80::/64", "2001:db8:1::/64"):
        network = ip_network(block)
        assert isinstance(network, IPv6Network)
        address = eui64(network, mac)
        assert derives(mac, address)
        assert link_local_mac(address) == (mac if block == "fe80::/64" else None)
    assert not derives(mac, ip_address("192.0.2.1"))


@pytest.mark.parametrize(
    "address",
    ["192.0.2.1", "fe80::1", "fe80:0:0:1:f816:3eff:fe00:1", "fe80::fb16:3eff:fe00:1"],
)
def test_other_addresses_tell_no_mac(address: str) -> None:
    assert link_local_mac(ip_address(address)) is None
