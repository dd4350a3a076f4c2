"""Renderer of a network's command line, and of the files of networks and ports."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from netfw.drivers.dhcp import DhcpLocation, DhcpNetwork, DhcpPort
from netfw.drivers.support.dhcp_option_text import check_domain
from netfw.drivers.support.unsupported_dhcp import MAX_OPTIONS
from netfw.errors import InvalidInput
from netfw.model.values.device_names import check_device_name
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.command_line import command_line
from netfw_drivers.dnsmasq.config.dhcp_hosts import host_lines, port_hostname, validate_hostname
from netfw_drivers.dnsmasq.config.dhcp_opts import network_opts, port_opts
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.config.subnet_modes import unserved_reason


@frozen(kw_only=True)
class NetworkText:
    """Rendered network."""

    argv: tuple[str, ...]
    """Command line; another one needs another process."""
    opts: str
    """Content of ``NetworkPaths.network_opts``."""
    interface: str
    """Content of ``NetworkPaths.interface``."""


@frozen(kw_only=True)
class PortText:
    """Rendered port: three files; an empty one is omitted."""

    host: str = ""
    opts: str = ""
    names: str = ""


def render_network(
    id: NetworkId, network: DhcpNetwork, location: DhcpLocation, settings: Settings
) -> NetworkText:
    """Render the command line and files of a network.

    :raises InvalidInput: dnsmasq would misread a text; the faulty field is named.
    """
    _check("location.device", check_device_name, location.device)
    _count(network.options)
    if network.dns_domain:
        _check("dns_domain", check_domain, network.dns_domain)
    return NetworkText(
        argv=command_line(id, network, location, settings),
        opts=network_opts(network, settings),
        interface=f"{location.device}\n",
    )


def render_port(id: PortId, port: DhcpPort, network: DhcpNetwork, settings: Settings) -> PortText:
    """Render the files of a port.

    :raises InvalidInput: dnsmasq would misread a text, or the port exceeds its limits, or no
        address of it can be served; the faulty field is named.
    """
    _count(port.options)
    if port.domain:
        _check("domain", check_domain, port.domain)
    if port.hostname:
        _check("hostname", check_domain, port.hostname)
    names = []
    for fixed in port.fixed_ips:
        name = port_hostname(port, fixed.address, network, settings)
        _check("hostname", validate_hostname, name.full)
        words = (str(fixed.address), *dict.fromkeys((name.full, name.host)))
        names.append(" ".join(words) + "\n")
    opts = port_opts(id, port, network, settings)
    host = host_lines(port, network, settings, opts.tags)
    if not host:
        _refuse_unserved(port, network)
    return PortText(host=host, opts=opts.text if host else "", names="".join(names))


def needs_reload(before: PortText | None, after: PortText | None) -> bool:
    """Return whether dnsmasq, having read *before*, must read all files to apply *after*.

    It reads new files by itself, and changed ones of names.  Of a changed host file it keeps the
    former lines, and refuses new ones with an IPv4 address that it has.  A port that is gone gets a
    tombstone instead (:func:`~netfw_drivers.dnsmasq.config.dhcp_hosts.ignore_line`).  Whether it
    can be told
    by SIGHUP says :func:`~netfw_drivers.dnsmasq.config.dhcp_hosts.is_tagged`.
    """
    if before is None or after is None or not before.host:
        return False
    return (before.host, before.opts) != (after.host, after.opts)


def _refuse_unserved(port: DhcpPort, network: DhcpNetwork) -> None:
    """Refuse a port of which no address can be served."""
    reasons = {subnet.id: unserved_reason(subnet) for subnet in network.subnets}
    problems = {
        f"fixed_ips[{at}]": reason
        for at, fixed in enumerate(port.fixed_ips)
        if (reason := reasons.get(fixed.subnet_id)) is not None
    }
    if problems:
        raise InvalidInput(problems)


def _count(options: tuple[DhcpOption, ...]) -> None:
    if len(options) > MAX_OPTIONS:
        raise InvalidInput({"options": f"are {len(options)}; {MAX_OPTIONS} is the most"})


def _check(field: str, check: Callable[[str], None], text: str) -> None:
    try:
        check(text)
    except ValueError as exc:
        raise InvalidInput({field: str(exc)}) from exc
