"""Which addresses of a block a host can have, and what is said about the others."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.ipam import AnyAddress, DerivedAddress
from netfw.errors import Conflict, InvalidInput
from netfw.model.address import Mac
from netfw.model.subnet import Ipv6Mode
from netfw.testing.conformance.ipam_scene import SMALL, STATEFUL, UNFIT, subnet, this
from netfw.testing.fakes.allocations import MemoryAddresses
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.ipam.rules import eui64, is_automatic, special, subnet_faults

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
    assert special(ip_network(block)).keys() == {ip_address(text) for text in addresses}


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
    ((attribute, said),) = subnet_faults(None, UNFIT[what])
    assert attribute == ("gateway_ip" if "as gateway" in what else "allocation_pools[0]")
    assert str(UNFIT[what].cidr) in said


def test_a_gateway_outside_the_block_is_accepted() -> None:
    assert not list(subnet_faults(None, evolve(SMALL, gateway="198.51.100.1")))


@pytest.mark.parametrize("who", ["ipv6_ra_mode", "ipv6_address_mode"])
@pytest.mark.parametrize("mode", [Ipv6Mode.SLAAC, Ipv6Mode.STATELESS])
def test_hosts_derive_addresses_whoever_announces_the_prefix(who: str, mode: Ipv6Mode) -> None:
    block = subnet("2001:db8::/64")
    assert not is_automatic(block)
    assert is_automatic(evolve(block, **{who: mode}))
    assert not is_automatic(evolve(block, **{who: Ipv6Mode.STATEFUL}))


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
