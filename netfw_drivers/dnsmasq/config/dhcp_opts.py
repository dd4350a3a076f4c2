"""Files of ``opts``: DHCP options of networks and ports.  Pure.

dnsmasq lets options by a port's tag win over those by a subnet's, whichever it reads first, and of
two by the same tags the one it reads last: lines with more tags come behind those with fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support.classless_routes import advertised_gateway, advertised_routes, octets
from netfw.drivers.support.dhcp_option_text import render_client_id, render_value
from netfw.drivers.support.dhcp_options import (
    check_left_out,
    find_option,
    is_client_id,
    is_of_other_family,
)
from netfw.errors import InvalidInput
from netfw.model.subnet import Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import PortId
from netfw.model.values.text_validation import check_dhcp_option_name
from netfw_drivers.dnsmasq.config.dhcp_hosts import network_domain
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.config.subnet_modes import served, subnet_tag

_ROUTER, _DNS, _ROUTES, _ROUTES_TOO, _T1, _T2, _DOMAIN = 3, 6, 121, 249, 58, 59, 15
_DNS6, _SEARCH6 = 23, 24
_MAX_OCTETS_TWICE = 100
"""Octets of routes that are sent twice, as 249 for old clients of Microsoft, too: more would not
fit into an answer twice, and dnsmasq then leaves out either."""
_MAX_SERVERS = 15
"""Limit of name servers; a line of more IPv6 addresses could be too long."""
_BY_ITSELF = {4: frozenset({_ROUTER, _DNS, _DOMAIN}), 6: frozenset({_DNS6})}
"""Options that dnsmasq sends by default unless an empty one suppresses them.  Other options must
not be empty: of some (66, 67, T1, T2, 255) dnsmasq dies then, and others it sends empty."""

Values = dict[int, str]
"""Default values by option code."""


def port_tag(port: PortId) -> str:
    return f"port-{port}"


@frozen
class PortOptions:
    """Options of one port."""

    text: str
    """Its file of ``opts``."""
    tags: tuple[str, ...]
    """Tags that select its options and suppress those it must not get; empty: it has none of its
    own."""


def network_opts(network: DhcpNetwork, settings: Settings) -> str:
    """Render the options of all ports of a network.

    :raises InvalidInput: a value is invalid; the field is named.
    """
    lines: list[str] = []
    requested = {version: [*_requested(network.options, version)] for version in (4, 6)}
    for subnet, _ in served(network.subnets):
        version, tag = subnet.ip_version, subnet_tag(subnet)
        if version == 4:
            values = _values4(subnet, network, settings)
        else:
            values = _values6(subnet, network, settings)
        requested_options = requested[version]
        plain = values | {each.code: each.value for each in requested_options if not each.tags}
        lines += (
            _line((tag, *_unless(version, code)), version, code, value)
            for code, value in sorted(plain.items())
            if value or code in _BY_ITSELF[version]
        )
        lines += (
            _line((tag, *_unless(version, each.code), *each.tags), version, each.code, each.value)
            for each in requested_options
            if each.tags
        )
    return "".join(lines)


def port_opts(id: PortId, port: DhcpPort, network: DhcpNetwork, settings: Settings) -> PortOptions:
    """Render the options of one port.

    :raises InvalidInput: a value is invalid; the field is named.
    """
    tag, lines, without = port_tag(id), [], []
    domain = port.domain.removesuffix(".")
    differs = bool(domain) and domain != network_domain(network, settings)
    for version, domain_option in ((4, _DOMAIN), (6, _SEARCH6)):
        requested_options = [*_requested(port.options, version)]
        plain = {domain_option: domain} if differs else {}
        plain |= {each.code: each.value for each in requested_options if not each.tags}
        for code, value in sorted(plain.items()):
            if value or code in _BY_ITSELF[version]:
                lines.append(_line((tag,), version, code, value))
            else:
                without.append(_without(version, code))
        lines += (
            _line((tag, *each.tags), version, each.code, each.value)
            for each in requested_options
            if each.tags
        )
    return PortOptions("".join(lines), (*((tag,) if lines else ()), *without))


@frozen
class _RequestedOption:
    """Requested option in dnsmasq's format."""

    code: int
    value: str
    tags: tuple[str, ...]


def _requested(options: Iterable[DhcpOption], version: int) -> Iterator[_RequestedOption]:
    """Yield the requested options of one family."""
    problems: dict[str, str] = {}
    for at, option in enumerate(options):
        field = f"options[{at}].name"
        try:
            check_dhcp_option_name(option.name)
            if option.ip_version != version or is_client_id(option):
                continue
            found = find_option(version, option.code)
            field = f"options[{at}].value"
            if is_of_other_family(option, found):
                continue
            if not option.value:
                check_left_out(option, found)
            yield _RequestedOption(
                found.code, render_value(found, version, option.value), option.tags
            )
        except ValueError as exc:
            problems[field] = str(exc)
    if problems:
        raise InvalidInput(problems)


def option_problem(option: DhcpOption) -> tuple[str, str] | None:
    """Return the field of *option* that dnsmasq cannot send, and why; ``None``: it can."""
    try:
        if is_client_id(option):
            render_client_id(option.value)
        else:
            _ = [*_requested((option,), option.ip_version)]
    except InvalidInput as exc:
        field, why = next(iter(exc.problems.items()))
        return field.rpartition(".")[2], why
    except ValueError as exc:
        return "value", str(exc)
    return None


def without_tag(option: DhcpOption) -> str:
    """Return the tag by which a port goes without *option*; empty: it needs none."""
    if option.value or is_client_id(option):
        return ""
    code = find_option(option.ip_version, option.code).code
    return "" if code in _BY_ITSELF[option.ip_version] else _without(option.ip_version, code)


def _without(version: int, code: int) -> str:
    """Return the tag of ports that must not get an option."""
    return f"without-{code}" if version == 4 else f"without6-{code}"


def _unless(version: int, code: int) -> tuple[str, ...]:
    return () if code in _BY_ITSELF[version] else (f"!{_without(version, code)}",)


def _line(tags: Iterable[str], version: int, code: int, value: str) -> str:
    option = str(code) if version == 4 else f"option6:{code}"
    words = (*(f"tag:{tag}" for tag in tags), option, *((value,) if value else ()))
    return ",".join(words) + "\n"


def _values4(subnet: Subnet, network: DhcpNetwork, settings: Settings) -> Values:
    routes_sent = advertised_routes(network, subnet)
    routes = ",".join(f"{route.destination},{route.nexthop}" for route in routes_sent)
    values = {
        _ROUTER: str(advertised_gateway(subnet) or ""),
        _DNS: _name_servers(subnet, network),
    }
    if routes:
        values[_ROUTES] = routes
        if sum(map(octets, routes_sent)) <= _MAX_OCTETS_TWICE:
            values[_ROUTES_TOO] = routes
    if settings.renewal:
        values[_T1] = f"{settings.renewal}s"
    if settings.rebinding:
        values[_T2] = f"{settings.rebinding}s"
    return values


def _values6(subnet: Subnet, network: DhcpNetwork, settings: Settings) -> Values:
    values = {_DNS6: _name_servers(subnet, network)}
    domain = network_domain(network, settings)
    if domain:
        values[_SEARCH6] = domain
    return values


def _name_servers(subnet: Subnet, network: DhcpNetwork) -> str:
    """Return the subnet's name servers; without any, its DHCP servers; none for address zero.

    Of very many the first ones: a client uses three.
    """
    servers = list(subnet.dns_nameservers)
    if not servers:
        interfaces = (*network.server.addresses, *network.peers)
        family = {i.ip for i in interfaces if i.version == subnet.ip_version}
        near = {address for address in family if address in subnet.cidr}
        servers = sorted(near or family, key=int)
    if any(server.is_unspecified for server in servers):
        return ""
    return ",".join(str(s) if s.version == 4 else f"[{s}]" for s in servers[:_MAX_SERVERS])
