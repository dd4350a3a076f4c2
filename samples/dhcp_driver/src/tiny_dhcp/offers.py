"""DHCP options of a port by number, computed when the port is put.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support.classless_routes import advertised_gateway, advertised_routes
from netfw.drivers.support.dhcp_options import check_options, options_for, routes
from netfw.errors import InvalidInput
from netfw.model.subnet import Subnet
from netfw.model.values.text_validation import check_dns_name

MASK, ROUTER, DNS, HOSTNAME, DOMAIN, MTU, BROADCAST, LEASE = 1, 3, 6, 12, 15, 26, 28, 51
ROUTES, MICROSOFT_ROUTES = 121, 249


@frozen(kw_only=True)
class Offer:
    """One address that the server offers to a port."""

    port: DhcpPort
    network: DhcpNetwork
    subnet: Subnet
    address: IPv4Address
    server: IPv4Address

    def render_options(self, lease: int, *, ipxe: bool) -> dict[str, str]:
        """Return the options sent with the address, in hexadecimal for JSON; omit empty ones."""
        own, common = self.port.options, self.network.options
        requested = {**options_for(common, ipxe=ipxe), **options_for(own, ipxe=ipxe)}
        options = {**self.default_options(lease), **requested}
        return {str(number): value.hex() for number, value in options.items() if value}

    def default_options(self, lease: int) -> dict[int, bytes]:
        """Return the options of every client; options of the network or the port override them."""
        subnet, peers = self.subnet, [peer.ip for peer in self.network.peers]
        servers = subnet.dns_nameservers or [peer for peer in peers if peer in subnet.cidr]
        dns = b"".join(server.packed for server in servers if not server.is_unspecified)
        hostname = self.port.hostname or f"host-{self.address}".replace(".", "-")
        domain = self.port.domain or self.network.dns_domain
        gateway = advertised_gateway(subnet)
        route_list = routes(advertised_routes(self.network, subnet))
        return {
            MASK: subnet.cidr.netmask.packed,
            ROUTER: gateway.packed if gateway else b"",
            DNS: dns,
            HOSTNAME: hostname.encode(),
            DOMAIN: domain.removesuffix(".").encode(),
            MTU: self.network.mtu.to_bytes(2),
            BROADCAST: subnet.cidr.broadcast_address.packed,
            LEASE: lease.to_bytes(4),
            ROUTES: route_list,
            MICROSOFT_ROUTES: route_list,
        }


def offers(port: DhcpPort, network: DhcpNetwork, lease: int) -> dict[str, Any]:
    """Return, by address, the server that offers it, and the options for iPXE and other clients.

    :raises InvalidInput: a value that no client would understand; the field is named.
    """
    _check_name("hostname", port.hostname)
    _check_name("domain", port.domain)
    check_options(port.options)
    return {
        str(offer.address): {
            "server": str(offer.server),
            "ipxe": offer.render_options(lease, ipxe=True),
            "others": offer.render_options(lease, ipxe=False),
        }
        for offer in _offers(port, network)
    }


def check_network(network: DhcpNetwork) -> None:
    """Raise unless the options of *network* can be sent.

    :raises InvalidInput: the field is named.
    """
    _check_name("dns_domain", network.dns_domain)
    check_options(network.options)


def _check_name(field: str, name: str) -> None:
    try:
        check_dns_name(name)
    except ValueError as error:
        raise InvalidInput({field: str(error)}) from error


def _offers(port: DhcpPort, network: DhcpNetwork) -> Iterator[Offer]:
    served = {subnet.id: subnet for subnet in network.subnets if subnet.enable_dhcp}
    for fixed in port.fixed_ips:
        subnet, address = served.get(fixed.subnet_id), fixed.address
        own = [each.ip for each in network.server.addresses if subnet and each.ip in subnet.cidr]
        if subnet and own and isinstance(address, IPv4Address) and isinstance(own[0], IPv4Address):
            yield Offer(port=port, network=network, subnet=subnet, address=address, server=own[0])
