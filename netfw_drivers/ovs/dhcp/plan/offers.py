"""What a port is answered: its leases and its router advertisement.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support.classless_routes import advertised_gateway, advertised_routes, octets
from netfw.drivers.support.dhcp_options import check_options, encode_domains, options_for, routes
from netfw.drivers.support.unsupported_dhcp import (
    coded_option_problem,
    restrict_network,
    restrict_port,
)
from netfw.errors import InvalidInput
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.text_validation import check_dns_name
from netfw_drivers.ovs.dhcp.plan import leases
from netfw_drivers.ovs.dhcp.plan.dhcp4 import LEASE, MASK, T1, T2
from netfw_drivers.ovs.dhcp.plan.dhcp6 import AdvertisedPrefix, render_advertisement
from netfw_drivers.ovs.dhcp.plan.leases import Answers, Lease4, Leases4, Leases6, PortAdvertisement
from netfw_drivers.ovs.dhcp.plan.options6 import option6_problem, options6_for

ROUTER, DNS, HOSTNAME, DOMAIN, MTU, BROADCAST = 3, 6, 12, 15, 26, 28
ROUTES, MICROSOFT_ROUTES = 121, 249
DNS6, SEARCH6 = 23, 24
FOR_EVER = 0xFFFFFFFF
_MAX_OCTETS_TWICE = 100
"""Octets of routes that are sent twice, as 249 for old clients of Microsoft, too."""
_MAX_SERVERS = 15


@frozen(kw_only=True)
class LeaseTimes:
    """Times of leases, in seconds."""

    duration: int = 86400
    """``FOR_EVER``: leases do not end."""
    renewal: int = 0
    """0: half of the duration."""
    rebinding: int = 0
    """0: 7/8 of the duration."""

    @property
    def t1(self) -> int:
        """The time after which clients renew their lease."""
        return self.renewal or self._part(1, 2)

    @property
    def t2(self) -> int:
        """The time after which clients request it from any server."""
        return self.rebinding or self._part(7, 8)

    def _part(self, dividend: int, divisor: int) -> int:
        is_finite = self.duration != FOR_EVER
        return self.duration * dividend // divisor if is_finite else FOR_EVER


def make_answers(port: DhcpPort, network: DhcpNetwork, times: LeaseTimes) -> Iterator[Answers]:
    """Yield what *port* is answered in each protocol; what cannot be sent is left out alone.

    :raises InvalidInput: a text could be read as several; the field is named.
    """
    network, _ = restrict_network(network, option_problem)
    port, _ = restrict_port(port, option_problem)
    for field, name in (
        ("dns_domain", network.dns_domain),
        ("hostname", port.hostname),
        ("domain", port.domain),
    ):
        _check_name(field, name)
    check_options(network.options)
    check_options(port.options)
    macs = {"client": port.mac, "server": network.server.mac}
    leases4 = tuple(_leases4(port, network, times))
    if leases4:
        yield Leases4(**macs, leases=leases4)
    yield from _leases6(port, network, times)
    yield from _advertisement(port, network)


def option_problem(option: DhcpOption) -> tuple[str, str] | None:
    """Return the field of an option that cannot be sent, and why; ``None``: it can be sent."""
    return option6_problem(option) if option.ip_version == 6 else coded_option_problem(option)


def _check_name(field: str, name: str) -> None:
    try:
        check_dns_name(name)
    except ValueError as exc:
        raise InvalidInput({field: str(exc)}) from exc


def _leases4(port: DhcpPort, network: DhcpNetwork, times: LeaseTimes) -> Iterator[Lease4]:
    served = {subnet.id: subnet for subnet in network.subnets if subnet.enable_dhcp}
    for fixed in port.fixed_ips:
        subnet = served.get(fixed.subnet_id)
        if subnet is None or not isinstance(fixed.address, IPv4Address):
            continue
        own = [each.ip for each in network.server.addresses if each.ip in subnet.cidr]
        if not own or not isinstance(own[0], IPv4Address):
            continue
        defaults = _defaults4(fixed.address, subnet, port, network) | _times4(times)
        options, ipxe_options = (
            _with_requested4(defaults, port, network, ipxe=ipxe) for ipxe in (False, True)
        )
        yield Lease4(
            address=fixed.address, server=own[0], options=options, ipxe_options=ipxe_options
        )


def _with_requested4(
    defaults: dict[int, bytes], port: DhcpPort, network: DhcpNetwork, *, ipxe: bool
) -> dict[int, bytes]:
    common, own = (options_for(each.options, ipxe=ipxe) for each in (network, port))
    merged = {**defaults, **common, **own}
    return {number: value for number, value in merged.items() if value}


def _times4(times: LeaseTimes) -> dict[int, bytes]:
    seconds = {LEASE: times.duration, T1: times.t1, T2: times.t2}
    return {number: value.to_bytes(4, "big") for number, value in seconds.items()}


def _defaults4(
    address: IPv4Address, subnet: Subnet, port: DhcpPort, network: DhcpNetwork
) -> dict[int, bytes]:
    gateway, advertised = advertised_gateway(subnet), advertised_routes(network, subnet)
    coded_routes = routes(advertised)
    is_short = sum(map(octets, advertised)) <= _MAX_OCTETS_TWICE
    hostname = port.hostname or f"host-{address}".replace(".", "-")
    domain = port.domain or network.dns_domain
    return {
        MASK: subnet.cidr.netmask.packed,
        ROUTER: gateway.packed if gateway else b"",
        DNS: _name_servers(subnet, network),
        HOSTNAME: hostname.removesuffix(".").encode(),
        DOMAIN: domain.removesuffix(".").encode(),
        MTU: network.mtu.to_bytes(2, "big"),
        BROADCAST: subnet.cidr.broadcast_address.packed,
        ROUTES: coded_routes,
        MICROSOFT_ROUTES: coded_routes if is_short else b"",
    }


def _name_servers(subnet: Subnet, network: DhcpNetwork) -> bytes:
    """Return the name servers of the subnet, or other DHCP servers on it: this one is none."""
    peers = [each.ip for each in network.peers if each.ip in subnet.cidr]
    servers = subnet.dns_nameservers or peers
    if any(server.is_unspecified for server in servers):
        return b""
    return b"".join(server.packed for server in servers[:_MAX_SERVERS])


def _leases6(port: DhcpPort, network: DhcpNetwork, times: LeaseTimes) -> Iterator[Leases6]:
    subnets = {subnet.id: subnet for subnet in network.subnets if subnet.ip_version == 6}
    fixed = [
        (each, subnets[each.subnet_id]) for each in port.fixed_ips if each.subnet_id in subnets
    ]
    given = [(each.address, subnet) for each, subnet in fixed if _gives_addresses(subnet)]
    configured = [subnet for _, subnet in fixed if _gives_options(subnet)]
    if not given and not configured:
        return
    addresses = tuple(address for address, _ in given if isinstance(address, IPv6Address))
    subnet = given[0][1] if given else configured[0]
    domain = (port.domain or network.dns_domain).removesuffix(".")
    defaults = {
        DNS6: _name_servers(subnet, network),
        SEARCH6: encode_domains(domain) if domain else b"",
    }
    requested = {**options6_for(network.options), **options6_for(port.options)}
    yield Leases6(
        client=port.mac,
        server=network.server.mac,
        addresses=addresses,
        seconds=times.duration,
        renewal=times.t1,
        rebinding=times.t2,
        options={code: value for code, value in {**defaults, **requested}.items() if value},
    )


def _gives_addresses(subnet: Subnet) -> bool:
    """Return whether DHCPv6 gives ports their addresses on *subnet*."""
    if not subnet.enable_dhcp:
        return False
    mode = subnet.ipv6_address_mode
    return mode is Ipv6Mode.STATEFUL or (mode is None and subnet.ipv6_ra_mode is None)


def _gives_options(subnet: Subnet) -> bool:
    """Return whether DHCPv6 gives options to ports that derive their addresses."""
    return subnet.enable_dhcp and subnet.ipv6_address_mode is Ipv6Mode.STATELESS


def _is_announced(subnet: Subnet) -> bool:
    """Return whether *subnet* is advertised by this cloud, and not by a router from outside."""
    is_complete = subnet.ipv6_ra_mode is not None and subnet.ipv6_address_mode is not None
    return subnet.ip_version == 6 and subnet.enable_dhcp and is_complete


def _advertisement(port: DhcpPort, network: DhcpNetwork) -> Iterator[PortAdvertisement]:
    announced = [subnet for subnet in network.subnets if _is_announced(subnet)]
    if not announced:
        return
    managed = any(map(_gives_addresses, announced))
    prefixes = [
        AdvertisedPrefix(
            network=subnet.cidr.network_address.packed,
            length=subnet.cidr.prefixlen,
            autonomous=not _gives_addresses(subnet),
        )
        for subnet in announced
    ]
    message = render_advertisement(
        prefixes,
        managed=managed,
        other=managed or any(map(_gives_options, announced)),
        mtu=network.mtu,
        mac=leases.octets(network.server.mac),
    )
    yield PortAdvertisement(client=port.mac, server=network.server.mac, message=message)
