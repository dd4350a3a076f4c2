"""Networks and ports, one for each thing that can be rendered."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_interface
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import evolve

from netfw.drivers.dhcp import DhcpLocation, DhcpNetwork, DhcpPort, ServerPort
from netfw.drivers.support.lease_options import INFINITE
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import NetworkId, PortId, SubnetId
from netfw.model.values.route import Route
from netfw_drivers.dnsmasq.config.render import render_network, render_port
from netfw_drivers.dnsmasq.config.settings import Settings

NETWORK = NetworkId(UUID("11111111-0000-4000-8000-000000000000"))
PORT = PortId(UUID("99999999-0000-4000-8000-000000000000"))
PLACE = DhcpLocation(netns=f"qdhcp-{NETWORK}", device="tap55555555-00")
SETTINGS = Settings(confs=Path("/dhcp"))
MAC = "fa:16:3e:00:00:0a"


def a_subnet(number: int = 4, **more: Any) -> Subnet:
    """Return the IPv4 subnet 10.NUMBER.0.0/24."""
    return Subnet(
        id=SubnetId(UUID(int=number)),
        network_id=NETWORK,
        cidr=f"10.{number}.0.0/24",
        **{"gateway": f"10.{number}.0.1"} | more,
    )


def a_subnet6(number: int = 6, mode: Ipv6Mode | None = Ipv6Mode.STATEFUL, **more: Any) -> Subnet:
    """Return the IPv6 subnet 2001:db8:NUMBER::/64, which the driver announces."""
    modes = {"ipv6_address_mode": mode, "ipv6_ra_mode": mode}
    return Subnet(
        id=SubnetId(UUID(int=number)),
        network_id=NETWORK,
        **{"cidr": f"2001:db8:{number}::/64", "gateway": f"2001:db8:{number}::1"} | modes | more,
    )


def a_network(*subnets: Subnet, **more: Any) -> DhcpNetwork:
    """Return a network whose server has the second address of each of *subnets*."""
    served = [subnet for subnet in subnets if subnet.enable_dhcp]
    addresses = [ip_interface(f"{subnet.cidr[2]}/{subnet.cidr.prefixlen}") for subnet in served]
    server = ServerPort(id=PortId(UUID(int=5)), mac="fa:16:3e:00:00:05", addresses=tuple(addresses))
    return DhcpNetwork(**{"server": server, "subnets": subnets, "mtu": 1450} | more)


def a_port(*addresses: tuple[Subnet, int], **more: Any) -> DhcpPort:
    """Return a port with an address on each of the subnets, given by its index in the subnet."""
    fixed = tuple(FixedIp(subnet_id=s.id, address=s.cidr[place]) for s, place in addresses)
    return DhcpPort(**{"network": NETWORK, "mac": MAC, "fixed_ips": fixed} | more)


def option(name: str, value: str, version: int = 4) -> DhcpOption:
    return DhcpOption(name=name, value=value, ip_version=version)


def network_text(network: DhcpNetwork, settings: Settings = SETTINGS) -> str:
    text = render_network(NETWORK, network, PLACE, settings)
    command = "\n".join(text.argv)
    return f"# command\n{command}\n# opts/network\n{text.opts}# interface\n{text.interface}"


def port_text(port: DhcpPort, network: DhcpNetwork, settings: Settings = SETTINGS) -> str:
    text = render_port(PORT, port, network, settings)
    return f"# host\n{text.host}# opts\n{text.opts}# addn_hosts\n{text.names}"


V4, OTHER4, V6, OTHER6 = a_subnet(4), a_subnet(5), a_subnet6(6), a_subnet6(7)
STATELESS, SLAAC = a_subnet6(8, Ipv6Mode.STATELESS), a_subnet6(9, Ipv6Mode.SLAAC)
PLAIN = a_network(V4)
ROUTES = (
    Route(destination="192.0.2.0/24", nexthop="10.4.0.9"),
    Route(destination="198.51.100.0/24", nexthop="10.4.0.8"),
)
BOOT = (
    option("bootfile-name", "undionly.kpxe"),
    option("tag:ipxe,bootfile-name", "http://boot/x.ipxe"),
    option("server-ip-address", "10.4.0.66"),
    option("150", "10.4.0.66"),
    option("59", "http://boot/six", 6),
)

NETWORKS: dict[str, Callable[[], str]] = {
    "plain": lambda: network_text(PLAIN),
    "no-dhcp": lambda: network_text(a_network(a_subnet(enable_dhcp=False))),
    "no-gateway": lambda: network_text(a_network(a_subnet(gateway=None))),
    "gateway-outside": lambda: network_text(a_network(a_subnet(gateway="192.0.2.1"))),
    "host-routes": lambda: network_text(a_network(a_subnet(host_routes=ROUTES))),
    "host-route-to-everywhere": lambda: network_text(
        a_network(
            a_subnet(gateway=None, host_routes=[Route(destination="0.0.0.0/0", nexthop="10.4.0.7")])
        )
    ),
    "several-subnets": lambda: network_text(
        a_network(V4, OTHER4, a_subnet(7, enable_dhcp=False))
    ),
    "metadata": lambda: network_text(
        a_network(
            V4, a_subnet(5, gateway=None), metadata_for=frozenset({V4.id, OTHER4.id})
        )
    ),
    "own-name-servers": lambda: network_text(
        a_network(a_subnet(dns_nameservers=["192.0.2.53", "192.0.2.54"]))
    ),
    "no-name-servers": lambda: network_text(
        a_network(a_subnet(dns_nameservers=["0.0.0.0"]), a_subnet6(dns_nameservers=["::"]))
    ),
    "peers": lambda: network_text(
        a_network(
            V4, V6, peers=(ip_interface("10.4.0.3/24"), ip_interface("2001:db8:6::3/64"))
        )
    ),
    "domain": lambda: network_text(evolve(PLAIN, dns_domain="example.org.")),
    "no-domain": lambda: network_text(a_network(V4, V6), evolve(SETTINGS, domain="")),
    "options": lambda: network_text(
        a_network(
            V4, V6,
            options=(
                *BOOT, option("dns-server", "192.0.2.1"), option("mtu", "1400"),
                option("router", ""), option("ntp-server", ""),
            ),
        )
    ),
    "ipv6-stateful": lambda: network_text(a_network(V6)),
    "ipv6-stateful-router-outside": lambda: network_text(
        a_network(a_subnet6(ipv6_ra_mode=None))
    ),
    "ipv6-stateless": lambda: network_text(a_network(STATELESS)),
    "ipv6-stateless-router-outside": lambda: network_text(
        a_network(a_subnet6(8, Ipv6Mode.STATELESS, ipv6_ra_mode=None))
    ),
    "ipv6-slaac": lambda: network_text(a_network(SLAAC)),
    "ipv6-slaac-router-outside": lambda: network_text(
        a_network(a_subnet6(9, Ipv6Mode.SLAAC, ipv6_ra_mode=None))
    ),
    "ipv6-no-modes": lambda: network_text(a_network(a_subnet6(6, None))),
    "ipv6-short-prefix": lambda: network_text(
        a_network(V4, a_subnet6(6, Ipv6Mode.STATEFUL, cidr="2001:db8::/48"))
    ),
    "settings": lambda: network_text(
        PLAIN,
        Settings(
            confs=Path("/dhcp"), lease=INFINITE, renewal=1800, rebinding=3000, domain="cloud",
            dns_servers=("192.0.2.53", "2001:db8::53#5353"), local_resolv=True,
            config_file=Path("/etc/netfw/dnsmasq.conf"), lease_max=100, broadcast_reply=True,
            log_directory=Path("/var/log/netfw"), command="/opt/dnsmasq", user="netfw",
            bridged=False,
        ),
    ),
}  # fmt: skip

PORTS: dict[str, Callable[[], str]] = {
    "plain": lambda: port_text(a_port((V4, 5)), PLAIN),
    "named": lambda: port_text(
        a_port((V4, 5), hostname="web", domain="prod.example.org."), PLAIN
    ),
    "named-in-no-domain": lambda: port_text(
        a_port((V4, 5), hostname="web"), PLAIN, evolve(SETTINGS, domain="")
    ),
    "not-served": lambda: port_text(
        a_port((a_subnet(7, enable_dhcp=False), 5), options=BOOT),
        a_network(V4, a_subnet(7, enable_dhcp=False)),
    ),
    "several-addresses": lambda: port_text(
        a_port((V4, 5), (OTHER4, 5), (V6, 5), (OTHER6, 6)), a_network(V4, OTHER4, V6, OTHER6)
    ),
    "options": lambda: port_text(a_port((V4, 5), (V6, 5), options=BOOT), a_network(V4, V6)),
    "options-left-out": lambda: port_text(
        a_port((V4, 5), options=(option("router", ""), option("ntp-server", ""))), PLAIN
    ),
    "options-alone-for-stateless": lambda: port_text(
        a_port((V4, 5), (STATELESS, 5), options=BOOT), a_network(V4, STATELESS)
    ),
    "stateless-without-options": lambda: port_text(
        a_port((V4, 5), (STATELESS, 5)), a_network(V4, STATELESS)
    ),
    "slaac": lambda: port_text(a_port((V4, 5), (SLAAC, 5)), a_network(V4, SLAAC)),
    "client-id": lambda: port_text(
        a_port(
            (V4, 5), (V6, 5),
            options=(option("client-id", "01:0a:ff"), option("1", "00:03:00:01:ff", 6)),
        ),
        a_network(V4, V6),
    ),
    "client-id-by-number": lambda: port_text(
        a_port((V4, 5), options=(option("61", "tftp-07"),)), PLAIN
    ),
}  # fmt: skip
