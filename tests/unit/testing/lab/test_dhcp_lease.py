"""What clients say in their own ways becomes the same values."""

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Network

from netfw.model.values.route import Route
from netfw.testing.lab.dhcp_lease import (
    Announcement,
    ClientLease,
    Lease6,
    announcement_of_rdisc6,
    lease6_of_dhclient,
    lease_of_dhclient,
    lease_of_udhcpc,
)

LEASE = ClientLease(
    address=IPv4Interface("10.0.0.9/24"),
    server=IPv4Address("10.0.0.2"),
    seconds=86400,
    gateways=(IPv4Address("10.0.0.1"),),
    dns=(IPv4Address("10.0.0.7"), IPv4Address("10.0.0.8")),
    routes=frozenset(
        {
            Route(destination="192.168.128.0/17", nexthop="10.0.0.3"),
            Route(destination="0.0.0.0/0", nexthop="10.0.0.1"),
            Route(destination="198.51.100.1/32", nexthop="0.0.0.0"),
        }
    ),
    mtu=1400,
    domain="example.org",
    hostname="guest",
    options={42: bytes([10, 0, 0, 5]), 67: b"boot.img", 150: bytes([10, 1, 2, 3])},
)


def octets(*parts: bytes | str) -> str:
    """Return bytes as dhclient shows them."""
    coded = b"".join(p if isinstance(p, bytes) else IPv4Address(p).packed for p in parts)
    return " ".join(map(str, coded))


def test_udhcpc_tells_options_by_its_own_names_or_as_octets():
    variables = {
        "interface": "eth0",
        "ip": "10.0.0.9",
        "mask": "24",
        "subnet": "255.255.255.0",
        "serverid": "10.0.0.2",
        "lease": "86400",
        "router": "10.0.0.1",
        "dns": "10.0.0.7 10.0.0.8",
        "staticroutes": "192.168.128.0/17 10.0.0.3 0.0.0.0/0 10.0.0.1 198.51.100.1/32 0.0.0.0",
        "mtu": "1400",
        "domain": "example.org",
        "hostname": "guest",
        "ntpsrv": "10.0.0.5",
        "bootfile": "boot.img",
        "opt150": "0a010203",
        "opt53": "05",
        "opt58": "0000942a",
    }
    assert lease_of_udhcpc(variables) == LEASE


def test_dhclient_tells_them_by_name_or_octet_by_octet():
    routes = octets(
        bytes([17, 192, 168, 128]), "10.0.0.3", b"\0", "10.0.0.1",
        b"\x20", "198.51.100.1", "0.0.0.0",
    )  # fmt: skip
    variables = {
        "reason": "BOUND",
        "old_ip_address": "10.0.0.66",
        "new_ip_address": "10.0.0.9",
        "new_subnet_mask": "255.255.255.0",
        "new_dhcp_server_identifier": "10.0.0.2",
        "new_dhcp_lease_time": "86400",
        "new_routers": "10.0.0.1",
        "new_domain_name_servers": "10.0.0.7 10.0.0.8",
        "new_interface_mtu": "1400",
        "new_domain_name": "example.org",
        "new_host_name": "guest",
        "new_option_121": routes,
        "new_option_42": octets("10.0.0.5"),
        "new_option_67": octets(b"boot.img\0"),
        "new_option_150": octets("10.1.2.3"),
    }
    assert lease_of_dhclient(variables) == LEASE


def test_what_was_not_said_is_not_there():
    least = {"ip": "10.0.0.9", "serverid": "10.0.0.2", "lease": "120"}
    assert lease_of_udhcpc(least) == ClientLease(
        address=IPv4Interface("10.0.0.9/32"), server=IPv4Address("10.0.0.2"), seconds=120
    )
    assert lease6_of_dhclient({"reason": "RENEW6"}) == Lease6()


def test_dhclient_tells_ipv6_addresses_and_the_rest():
    variables = {
        "new_ip6_address": "fd00::9",
        "new_ip6_prefixlen": "128",
        "new_dhcp6_name_servers": "fd00::7 fd00::8",
        "new_dhcp6_domain_search": "a.example.org. example.org.",
        "new_dhcp6_option_59": octets(b"http://x/"),
    }
    assert lease6_of_dhclient(variables) == Lease6(
        addresses=(IPv6Address("fd00::9"),),
        dns=(IPv6Address("fd00::7"), IPv6Address("fd00::8")),
        search=("a.example.org", "example.org"),
        options={59: b"http://x/"},
    )


def test_rdisc6_prints_an_announcement():
    message = """Soliciting ff02::2 (ff02::2) on eth0...

Hop limit                 :           64 (      0x40)
Stateful address conf.    :           No
Stateful other conf.      :          Yes
Router lifetime           :            0 (0x00000000) seconds
 Prefix                   : fd00::/64
  On-link                 :          Yes
  Autonomous address conf.:          Yes
  Valid time              :        86400 (0x00015180) seconds
 Prefix                   : fd00:1::/64
  On-link                 :          Yes
  Autonomous address conf.:           No
 MTU                      :         1450 bytes (valid)
 Source link-layer address: C6:BF:36:C2:6E:61
 DNS search list          : a.example.org
 Recursive DNS server     : fd00::7
  DNS server lifetime     :        86400 (0x00015180) seconds
 from fe80::c4bf:36ff:fec2:6e61
"""
    assert announcement_of_rdisc6(message) == Announcement(
        managed=False,
        other=True,
        lifetime=0,
        source=IPv6Address("fe80::c4bf:36ff:fec2:6e61"),
        mtu=1450,
        prefixes={IPv6Network("fd00::/64"): True, IPv6Network("fd00:1::/64"): False},
        dns=(IPv6Address("fd00::7"),),
        search=("a.example.org",),
    )
