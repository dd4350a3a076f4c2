"""Ports without the options and names that dnsmasq cannot serve.  Pure."""

from __future__ import annotations

from attrs import evolve

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support import unsupported_dhcp
from netfw.drivers.support.unsupported_dhcp import UnsupportedFields, is_malformed
from netfw.model.values.dhcp_option import DhcpOption
from netfw_drivers.dnsmasq.config.dhcp_hosts import port_hostname, validate_hostname
from netfw_drivers.dnsmasq.config.dhcp_opts import option_problem, without_tag
from netfw_drivers.dnsmasq.config.settings import Settings

_TAGS_LENGTH = 500
"""Characters of a host line for the tags of options that a port goes without."""


def restrict_port(
    port: DhcpPort, network: DhcpNetwork, settings: Settings
) -> tuple[DhcpPort, UnsupportedFields]:
    """Return *port* as dnsmasq can serve it on *network*, and what is left out."""
    served, unsupported = unsupported_dhcp.restrict_port(port, option_problem)
    if port.options:
        served = evolve(served, options=_with_short_tags(served.options, port.options, unsupported))

    def check_full_names(_: str) -> None:
        for fixed in served.fixed_ips:
            validate_hostname(port_hostname(served, fixed.address, network, settings).full)

    if served.hostname and not unsupported.restrict_name(
        "hostname", served.hostname, check_full_names
    ):
        served = evolve(served, hostname="")
    return served, unsupported


def _with_short_tags(
    options: tuple[DhcpOption, ...],
    requested: tuple[DhcpOption, ...],
    unsupported: UnsupportedFields,
) -> tuple[DhcpOption, ...]:
    """Leave out empty options for whose tags the host line of a port has no room.

    Errors name their positions among those *requested*.
    """
    if any(map(is_malformed, options)):
        return options
    kept: list[DhcpOption] = []
    length = 0
    for option in options:
        tag = without_tag(option)
        length += len(f",set:{tag}") if tag else 0
        if tag and length > _TAGS_LENGTH:
            why = "is one more than dnsmasq can leave out of its answers: give it a value"
            unsupported.problems[f"options[{requested.index(option)}].value"] = why
        else:
            kept.append(option)
    return tuple(kept)
