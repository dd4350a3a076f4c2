"""Networks and ports without what a DHCP server cannot serve: promise 10 of `DhcpDriver`.  Pure.

A subnet, a gateway, an option or a name that the model accepts and that cannot be served is left
out.  Text that the model refuses comes from a source without checks: it stays, so that the driver
refuses the whole value.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.support.dhcp_option_text import check_domain
from netfw.drivers.support.dhcp_options import check_options
from netfw.drivers.support.unusable_addresses import gateway_problem, prefix_problem
from netfw.errors import InvalidInput, PartlyInvalid
from netfw.model.subnet import Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.text_validation import (
    check_dhcp_option_name,
    check_dhcp_option_value,
    check_dns_name,
)

MAX_OPTIONS = 256
"""Limit of options of a port, and of a network."""

OptionProblem = Callable[[DhcpOption], tuple[str, str] | None]
"""Returns the field of an option that cannot be sent, and why; ``None``: it can be sent."""


def coded_option_problem(option: DhcpOption) -> tuple[str, str] | None:
    """Return the problem of *option* for a driver that encodes options itself."""
    try:
        check_options((option,))
    except InvalidInput as exc:
        field, why = next(iter(exc.problems.items()))
        return field.rpartition(".")[2], why
    return None


class UnsupportedFields:
    """What a DHCP server cannot serve of one network or port: by field, why it is left out."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    @property
    def error(self) -> PartlyInvalid | None:
        """The error to report; ``None``: nothing is left out."""
        return PartlyInvalid(self.problems) if self.problems else None

    def restrict_subnet(self, at: int, subnet: Subnet) -> Subnet:
        """Return *subnet* without what no host can use: DHCP as a whole, or its gateway."""
        unusable = prefix_problem(subnet.cidr) if subnet.enable_dhcp else None
        if unusable is not None:
            self.problems[f"subnets[{at}]"] = unusable
            return evolve(
                subnet, enable_dhcp=False, gateway=None, ipv6_ra_mode=None, ipv6_address_mode=None
            )
        gateway = subnet.gateway
        no_router = None if gateway is None else gateway_problem(gateway, subnet.cidr)
        if no_router is None:
            return subnet
        self.problems[f"subnets[{at}].gateway"] = no_router
        return evolve(subnet, gateway=None)

    def restrict_options(
        self, options: tuple[DhcpOption, ...], problem_of: OptionProblem
    ) -> tuple[DhcpOption, ...]:
        """Return *options* without those that cannot be sent, and the first ones of too many."""
        if any(map(is_malformed, options)):
            return options
        kept: list[DhcpOption] = []
        for at, option in enumerate(options):
            problem = problem_of(option)
            if problem is None and len(kept) == MAX_OPTIONS:
                problem = "name", f"is one more than {MAX_OPTIONS} options"
            if problem is None:
                kept.append(option)
            else:
                self.problems[f"options[{at}].{problem[0]}"] = problem[1]
        return tuple(kept)

    def restrict_name(
        self, field: str, name: str, check: Callable[[str], None] = check_domain
    ) -> str:
        """Return *name*, or nothing if it is a DNS name that *check* refuses."""
        try:
            check_dns_name(name)
        except ValueError:
            return name
        try:
            if name:
                check(name)
        except ValueError as exc:
            self.problems[field] = str(exc)
            return ""
        return name


def restrict_network(
    network: DhcpNetwork, problem_of: OptionProblem = coded_option_problem
) -> tuple[DhcpNetwork, UnsupportedFields]:
    """Return *network* as it can be served, and what is left out."""
    unsupported = UnsupportedFields()
    subnets = tuple(
        unsupported.restrict_subnet(at, each) for at, each in enumerate(network.subnets)
    )
    options = unsupported.restrict_options(network.options, problem_of)
    domain = unsupported.restrict_name("dns_domain", network.dns_domain)
    if not unsupported.problems:
        return network, unsupported
    addresses = network.server.addresses
    usable = tuple(each for each in addresses if prefix_problem(each.network) is None)
    server = evolve(network.server, addresses=usable)
    rest = evolve(network, subnets=subnets, options=options, dns_domain=domain, server=server)
    return rest, unsupported


def restrict_port(
    port: DhcpPort, problem_of: OptionProblem = coded_option_problem
) -> tuple[DhcpPort, UnsupportedFields]:
    """Return *port* as it can be served, and what is left out."""
    unsupported = UnsupportedFields()
    options = unsupported.restrict_options(port.options, problem_of)
    domain = unsupported.restrict_name("domain", port.domain)
    hostname = unsupported.restrict_name("hostname", port.hostname)
    if not unsupported.problems:
        return port, unsupported
    return evolve(port, options=options, domain=domain, hostname=hostname), unsupported


def is_malformed(option: DhcpOption) -> bool:
    """Return whether the model refuses the texts of *option*."""
    try:
        check_dhcp_option_name(option.name)
        check_dhcp_option_value(option.value)
    except ValueError:
        return True
    return False
