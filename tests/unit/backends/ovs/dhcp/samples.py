"""A network with both families, a port on it, and requests as bytes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_interface
from struct import pack
from uuid import UUID

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort, ServerPort
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.ids import NetworkId, PortId, SubnetId
from netfw.model.values.route import Route
from netfw_drivers.ovs.dhcp.plan.leases import encode_options4, encode_options6, octets

NETWORK = NetworkId(UUID(int=1))
CLIENT, SERVER = "fa:16:3e:00:00:0b", "fa:16:3e:ff:00:02"
COOKIE = b"\x63\x82\x53\x63"
SUBNET = Subnet(
    id=SubnetId(UUID(int=4)),
    network_id=NETWORK,
    cidr="10.0.0.0/24",
    gateway="10.0.0.1",
    dns_nameservers=("192.0.2.53",),
    host_routes=(Route(destination="198.51.100.0/24", nexthop="10.0.0.9"),),
)
SUBNET6 = Subnet(
    id=SubnetId(UUID(int=6)),
    network_id=NETWORK,
    cidr="fd00::/64",
    gateway="fd00::1",
    dns_nameservers=("2001:db8::53",),
    ipv6_address_mode=Ipv6Mode.STATEFUL,
    ipv6_ra_mode=Ipv6Mode.STATEFUL,
)
SERVED = DhcpNetwork(
    server=ServerPort(
        id=PortId(UUID(int=2)),
        mac=SERVER,
        addresses=(ip_interface("10.0.0.2/24"), ip_interface("fd00::2/64")),
    ),
    subnets=(SUBNET, SUBNET6),
    mtu=1400,
    dns_domain="example.org",
)
PORT = DhcpPort(
    network=NETWORK,
    mac=CLIENT,
    fixed_ips=(
        FixedIp(subnet_id=SUBNET.id, address="10.0.0.11"),
        FixedIp(subnet_id=SUBNET6.id, address="fd00::11"),
    ),
    hostname="web",
)
DUID = b"\0\3\0\1" + octets(CLIENT)
SERVER_DUID = b"\0\3\0\1" + octets(SERVER)


def request4(
    kind: int,
    options: dict[int, bytes] | None = None,
    *,
    address: str = "0.0.0.0",
    mac: str = CLIENT,
    flags: int = 0,
    relay: str = "0.0.0.0",
) -> bytes:
    """Return the frame of a DHCP request."""
    message = pack(
        "!4BIHH4s4s4s4s16s64s128s4s", 1, 1, 6, 0, 0x1234, 0, flags, IPv4Address(address).packed,
        b"", b"", IPv4Address(relay).packed, octets(mac), b"", b"", COOKIE,
    )  # fmt: skip
    message += encode_options4({53: bytes((kind,)), **(options or {})}.items()) + b"\xff"
    udp = pack("!HHHH", 68, 67, 8 + len(message), 0) + message
    ip = pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    return b"\xff" * 6 + octets(mac) + b"\x08\x00" + ip + udp


def request6(kind: int, *options: tuple[int, bytes], mac: str = CLIENT) -> bytes:
    """Return the frame of a DHCPv6 request from fe80::9."""
    message = bytes((kind,)) + b"abc" + encode_options6(options)
    udp = pack("!HHHH", 546, 547, 8 + len(message), 0) + message
    return _ipv6(17, udp, mac)


def solicitation(source: str = "fe80::9") -> bytes:
    """Return the frame of a router solicitation."""
    return _ipv6(58, pack("!BBHI", 133, 0, 0, 0), CLIENT, source)


def _ipv6(protocol: int, payload: bytes, mac: str, source: str = "fe80::9") -> bytes:
    addresses = IPv6Address(source).packed, IPv6Address("ff02::1:2").packed
    head = pack("!IHBB16s16s", 6 << 28, len(payload), protocol, 255, *addresses)
    return b"\x33\x33\0\1\0\2" + octets(mac) + b"\x86\xdd" + head + payload
