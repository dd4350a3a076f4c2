"""What is wrong with a security group rule, in the words that clients look for.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.errors import InvalidInput
from netfw.model.port_range import PORTS
from netfw.model.protocol import ICMP, ICMPV6, NAMES, PORTED
from netfw.model.security_group import Ethertype
from netfw.model.validation import Fault

ICMP_NUMBERS = range(256)
IPV6_ONLY = frozenset(number for number, name in NAMES.items() if name.startswith("ipv6-"))
"""Protocols that the API takes in rules for IPv6 alone."""


def check_family(ethertype: Ethertype, protocol: int | None, prefix: str | None) -> None:
    """Accept a protocol and a prefix in a rule for one family.

    :raises InvalidInput: one is of the other.
    """
    faults: dict[str, str] = {}
    if protocol is not None and protocol in IPV6_ONLY and ethertype is Ethertype.IPV4:
        faults["protocol"] = f"Conflicting value ethertype IPv4: {NAMES[protocol]} is for IPv6"
    if prefix is not None and (":" in prefix) != (ethertype is Ethertype.IPV6):
        faults["remote_ip_prefix"] = (
            f"Conflicting value ethertype {ethertype}: not that of {prefix}"
        )
    if faults:
        raise InvalidInput(faults)


def check_range(protocol: int | None, low: int | None, high: int | None) -> None:
    """Accept the two numbers of a rule: ports, or type and code of ICMP.

    :raises InvalidInput: they are none of its protocol.
    """
    faults: Iterator[Fault] = iter(())
    if protocol in PORTED:
        faults = _ports(low, high)
    elif protocol in (ICMP, ICMPV6):
        faults = _icmp(low, high)
    if found := dict(faults):
        raise InvalidInput(found)


def _ports(low: int | None, high: int | None) -> Iterator[Fault]:
    given = {"port_range_min": low, "port_range_max": high}
    wrong = {name: n for name, n in given.items() if n is not None and n not in PORTS}
    for name, number in wrong.items():
        yield name, f"Invalid value for port {number}: it is not 1 to 65535"
    if not wrong and (low is None) != (high is None):
        yield "port_range_max", "port_range_min must be <= port_range_max: give both, or none"
    elif not wrong and low is not None and high is not None and low > high:
        yield "port_range_max", f"port_range_min must be <= port_range_max: {high} is before {low}"


def _icmp(kind: int | None, code: int | None) -> Iterator[Fault]:
    if kind is not None and kind not in ICMP_NUMBERS:
        yield "port_range_min", f"Invalid value for ICMP type {kind}: it is not 0 to 255"
    if code is not None and code not in ICMP_NUMBERS:
        yield "port_range_max", f"Invalid value for ICMP code {code}: it is not 0 to 255"
    if kind is None and code is not None:
        yield "port_range_max", "ICMP type (port-range-min) is missing, and a code is given"
