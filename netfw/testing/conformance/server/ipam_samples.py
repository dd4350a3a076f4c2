"""The subnets and requests of the IPAM suite."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import NAMESPACE_DNS, uuid5

from netfw.drivers.server.ipam import AddressRequest, DerivedAddress, ThisAddress
from netfw.model.subnet import AllocationPool, Ipv6Mode, Subnet
from netfw.model.values.address import as_address
from netfw.model.values.ids import NetworkId, SubnetId

NETWORK = NetworkId(uuid5(NAMESPACE_DNS, "network"))
MAC = "fa:16:3e:01:02:03"


def subnet(
    cidr: str,
    *pools: tuple[str, str],
    gateway: str | None = None,
    mode: Ipv6Mode | None = None,
) -> Subnet:
    """Return the subnet of that block."""
    return Subnet(
        id=SubnetId(uuid5(NAMESPACE_DNS, cidr)),
        network_id=NETWORK,
        cidr=cidr,
        gateway=gateway,
        allocation_pools=[AllocationPool(start=start, end=end) for start, end in pools],
        ipv6_ra_mode=mode,
        ipv6_address_mode=mode,
    )


SMALL = subnet("192.0.2.0/29", ("192.0.2.2", "192.0.2.4"), gateway="192.0.2.1")
OTHER = subnet("198.51.100.0/24", ("198.51.100.10", "198.51.100.19"), gateway="198.51.100.1")
TWO_POOLS = subnet(
    "203.0.113.0/28", ("203.0.113.9", "203.0.113.10"), ("203.0.113.3", "203.0.113.3")
)
HUGE = subnet("10.0.0.0/8", ("10.0.0.2", "10.255.255.254"), gateway="10.0.0.1")
V6 = subnet("2001:db8:1::/64", ("2001:db8:1::2", "2001:db8:1::4"), gateway="2001:db8:1::1")
HUGE_V6 = subnet("2001:db8:2::/64", ("2001:db8:2::1", "2001:db8:2::ffff:ffff:ffff:ffff"))
SLAAC = subnet("2001:db8:3::/64", mode=Ipv6Mode.SLAAC)
STATELESS = subnet("2001:db8:4::/64", mode=Ipv6Mode.STATELESS)
STATEFUL = subnet("2001:db8:5::/64", mode=Ipv6Mode.STATEFUL)
PAIR = subnet("192.0.2.8/31")
PAIR_V6 = subnet("2001:db8:6::/127")
ANYCAST = subnet("2001:db8:7::/64", gateway="2001:db8:7::")

SUBNETS = (
    SMALL, OTHER, TWO_POOLS, HUGE, V6, HUGE_V6, SLAAC, STATELESS, STATEFUL, PAIR, PAIR_V6, ANYCAST,
)  # fmt: skip


def this(where: Subnet, address: str) -> ThisAddress:
    """Return the request for *address*."""
    return ThisAddress(subnet=where, address=as_address(address))


POSSIBLE: tuple[tuple[AddressRequest, str], ...] = (
    (this(SMALL, "192.0.2.3"), "192.0.2.3"),
    (this(SMALL, "192.0.2.6"), "192.0.2.6"),
    (this(SMALL, "192.0.2.1"), "192.0.2.1"),
    (this(V6, "2001:db8:1::4"), "2001:db8:1::4"),
    (this(V6, "2001:db8:1:0:ffff:ffff:ffff:ffff"), "2001:db8:1:0:ffff:ffff:ffff:ffff"),
    (this(SLAAC, "2001:db8:3::1"), "2001:db8:3::1"),
    (this(PAIR, "192.0.2.8"), "192.0.2.8"),
    (this(PAIR, "192.0.2.9"), "192.0.2.9"),
    (this(PAIR_V6, "2001:db8:6::"), "2001:db8:6::"),
    (this(ANYCAST, "2001:db8:7::"), "2001:db8:7::"),
    (DerivedAddress(subnet=SLAAC, mac=MAC), "2001:db8:3::f816:3eff:fe01:203"),
    (DerivedAddress(subnet=STATELESS, mac=MAC), "2001:db8:4::f816:3eff:fe01:203"),
    (DerivedAddress(subnet=SLAAC, mac="02:00:00:00:00:01"), "2001:db8:3::ff:fe00:1"),
)
"""Requests, and the one address that is right for each."""

IMPOSSIBLE: Mapping[str, AddressRequest] = {
    "of another block": this(SMALL, "192.0.2.8"),
    "of another family": this(SMALL, "2001:db8:1::2"),
    "of another family, too": this(V6, "192.0.2.2"),
    "the network's own": this(SMALL, "192.0.2.0"),
    "the broadcast address": this(SMALL, "192.0.2.7"),
    "the address of all routers": this(V6, "2001:db8:1::"),
    "derived in IPv4": DerivedAddress(subnet=SMALL, mac=MAC),
    "derived where DHCP gives addresses": DerivedAddress(subnet=STATEFUL, mac=MAC),
    "derived where no router advertises the prefix": DerivedAddress(subnet=V6, mac=MAC),
}

UNFIT: Mapping[str, Subnet] = {
    "a pool with the network's own address": subnet("192.0.2.0/29", ("192.0.2.0", "192.0.2.3")),
    "a pool with the broadcast address": subnet("192.0.2.0/29", ("192.0.2.4", "192.0.2.7")),
    "a pool with the address of all routers": subnet(
        "2001:db8:1::/64", ("2001:db8:1::", "2001:db8:1::9")
    ),
    "the network's own address as gateway": subnet("192.0.2.0/29", gateway="192.0.2.0"),
    "the broadcast address as gateway": subnet("192.0.2.0/29", gateway="192.0.2.7"),
}
"""Subnets that no driver can serve."""
