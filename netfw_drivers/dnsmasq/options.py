"""The files of ``opts``: what clients are told beside their addresses.  Pure.

dnsmasq lets options by a port's tag win over those by a subnet's, whichever it reads first, and of
two by the same tags the one it reads last: lines with more tags come behind those with fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, ip_network

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.errors import InvalidInput
from netfw.model.address import IpAddress
from netfw.model.dhcp_option import DhcpOption
from netfw.model.ids import PortId
from netfw.model.subnet import Subnet
from netfw_drivers.dnsmasq.modes import Mode, served, subnet_tag
from netfw_drivers.dnsmasq.names import domain_of
from netfw_drivers.dnsmasq.option_table import CLIENT_ID, Option, find_option
from netfw_drivers.dnsmasq.option_values import render_value
from netfw_drivers.dnsmasq.settings import Settings

METADATA = IPv4Network("169.254.169.254/32")
_LINE_LENGTH = 1000
"""dnsmasq takes what is beyond the 1024th byte of a line for another one."""
_EVERYWHERE = ip_network("0.0.0.0/0")
_ON_LINK = "0.0.0.0"
_ROUTER, _DNS, _ROUTES, _ROUTES_TOO, _T1, _T2, _DOMAIN = 3, 6, 121, 249, 58, 59, 15
_DNS6, _SEARCH6 = 23, 24

Values = dict[int, str]
"""What is told by default, by the option's code."""


def port_tag(port: PortId) -> str:
    return f"port-{port}"


def network_opts(network: DhcpNetwork, settings: Settings) -> str:
    """The options of all ports of a network.

    :raises InvalidInput: one has no such value; the field is named.
    """
    lines: list[str] = []
    for subnet, mode in served(network.subnets):
        values = _values4(subnet, network, settings) if subnet.ip_version == 4 else _values6(
            subnet, mode, network, settings
        )  # fmt: skip
        tag = subnet_tag(subnet)
        lines += _lines(tag, subnet.ip_version, values, network.options)
    return "".join(lines)


def port_opts(id: PortId, port: DhcpPort, network: DhcpNetwork, settings: Settings) -> str:
    """The options of one port; those for its kinds of addresses alone.

    :raises InvalidInput: one has no such value; the field is named.
    """
    tag, common = port_tag(id), domain_of(network, settings)
    domain = port.domain.removesuffix(".")
    differs = bool(domain) and domain != common
    defaults: Mapping[int, Values] = {
        4: {_DOMAIN: domain} if differs else {},
        6: {_SEARCH6: domain} if differs else {},
    }
    return "".join(
        line for version in (4, 6) for line in _lines(tag, version, defaults[version], port.options)
    )


def _lines(tag: str, version: int, values: Values, options: Iterable[DhcpOption]) -> Iterator[str]:
    """The lines of *values*, but where *options* have others."""
    plain: dict[int, str] = {
        code: _line((tag,), version, str(code), value) for code, value in values.items()
    }
    tagged: list[str] = []
    faults: dict[str, str] = {}
    for at, option in enumerate(options):
        *tags, name = option.name.split(",")
        if option.ip_version != version or name.lower() in CLIENT_ID[version]:
            continue
        try:
            found = find_option(version, name)
        except ValueError as exc:
            faults[f"options[{at}].name"] = str(exc)
            continue
        try:
            line = _asked((tag, *(t.removeprefix("tag:") for t in tags)), version, found, option)
        except ValueError as exc:
            faults[f"options[{at}].value"] = str(exc)
            continue
        if tags:
            tagged.append(line)
        else:
            plain[found.code] = line
    if faults:
        raise InvalidInput(faults)
    yield from (plain[code] for code in sorted(plain))
    yield from tagged


def _asked(tags: tuple[str, ...], version: int, option: Option, asked: DhcpOption) -> str:
    line = _line(tags, version, str(option.code), render_value(option, version, asked.value))
    if len(line) > _LINE_LENGTH:
        raise ValueError(f"makes a line of {len(line)} bytes; {_LINE_LENGTH} is the most")
    return line


def _line(tags: tuple[str, ...], version: int, option: str, value: str) -> str:
    words = [f"tag:{tag}" for tag in tags]
    words.append(option if version == 4 else f"option6:{option}")
    return ",".join([*words, value] if value else words) + "\n"


def _values4(subnet: Subnet, network: DhcpNetwork, settings: Settings) -> Values:
    gateway = _gateway(subnet)
    routes = ",".join(_routes(subnet, gateway, network))
    values = {
        _ROUTER: str(gateway or ""),
        _DNS: _name_servers(subnet, network),
    }
    if routes:
        values |= {_ROUTES: routes, _ROUTES_TOO: routes}
        _check_routes(network.subnets.index(subnet), routes)
    if settings.renewal:
        values[_T1] = f"{settings.renewal}s"
    if settings.rebinding:
        values[_T2] = f"{settings.rebinding}s"
    return values


def _check_routes(position: int, routes: str) -> None:
    try:
        render_value(find_option(4, str(_ROUTES)), 4, routes)
    except ValueError as exc:
        raise InvalidInput(
            {f"subnets[{position}].host_routes": f"all routes for its instances: {exc}"}
        ) from exc


def _values6(subnet: Subnet, mode: Mode, network: DhcpNetwork, settings: Settings) -> Values:
    values = {_DNS6: _name_servers(subnet, network)}
    domain = domain_of(network, settings)
    if domain and mode is not Mode.RA_ONLY:
        values[_SEARCH6] = domain
    return values


def _gateway(subnet: Subnet) -> IpAddress | None:
    """The subnet's, or else where its host routes lead to everywhere."""
    asked = (route.nexthop for route in subnet.host_routes if route.destination == _EVERYWHERE)
    return subnet.gateway or next(asked, None)


def _routes(subnet: Subnet, gateway: IpAddress | None, network: DhcpNetwork) -> Iterator[str]:
    """All routes, or none: whoever is told these does not look at the router."""
    routes = {
        str(route.destination): str(route.nexthop)
        for route in subnet.host_routes
        if route.destination != _EVERYWHERE
    }
    for other in _beside(subnet, network):
        routes.setdefault(str(other.cidr), _ON_LINK)
    server = _own_address(subnet, network)
    if subnet.id in network.metadata_for and server is not None:
        routes.setdefault(str(METADATA), str(server))
    outside = gateway is not None and gateway not in subnet.cidr
    if outside and not any(gateway in other.cidr for other in _beside(subnet, network)):
        routes = {f"{gateway}/32": _ON_LINK, **routes}
    if routes and gateway is not None:
        routes[str(_EVERYWHERE)] = str(gateway)
    yield from (f"{destination},{nexthop}" for destination, nexthop in routes.items())


def _beside(subnet: Subnet, network: DhcpNetwork) -> Iterator[Subnet]:
    """Other IPv4 subnets on the same link."""
    for other in sorted(network.subnets, key=lambda other: (other.ip_version, other.cidr)):
        same_link = other.segment_id == subnet.segment_id
        if other.id != subnet.id and other.ip_version == 4 and same_link:
            yield other


def _own_address(subnet: Subnet, network: DhcpNetwork) -> IpAddress | None:
    """The server's address on *subnet*."""
    addresses = (interface.ip for interface in network.server.addresses)
    return next((address for address in addresses if address in subnet.cidr), None)


def _name_servers(subnet: Subnet, network: DhcpNetwork) -> str:
    """The subnet's own; if it names none, all that serve it; none where it names address zero."""
    servers = list(subnet.dns_nameservers)
    if not servers:
        interfaces = (*network.server.addresses, *network.peers)
        family = {i.ip for i in interfaces if i.version == subnet.ip_version}
        near = {address for address in family if address in subnet.cidr}
        servers = sorted(near or family, key=int)
    if any(server.is_unspecified for server in servers):
        return ""
    return ",".join(str(s) if s.version == 4 else f"[{s}]" for s in servers)
