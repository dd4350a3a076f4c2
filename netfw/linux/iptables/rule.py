"""Rules of iptables and ip6tables as values.

A rule is checked when it is made and renders to exactly one line: whatever a name, comment or
option holds, it can not become a second rule, a second option or a broken restore.  The text is in
the order and spelling in which ``iptables-save`` prints rules, so that most compare as they are.
"""

from __future__ import annotations

import enum
import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeVar

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.linux.iptables.argument import (
    Not,
    OptionValue,
    check_argument,
    check_chain_name,
    check_name,
    render_options,
    render_text,
)
from netfw.model.address import IpAddress, IpNetwork

T = TypeVar("T")

_DEVICE = re.compile(r"[A-Za-z0-9_.@][A-Za-z0-9_.:@-]{0,14}\+?")


class Family(enum.IntEnum):
    """Which of the two tools."""

    IPV4 = 4
    IPV6 = 6

    def __str__(self) -> str:
        return f"IPv{self.value}"


@frozen
class Match:
    """A match extension with its options; made by :func:`match`."""

    name: str
    text: str


@frozen
class Target:
    """A target with its options, or somebody else's chain; made by :func:`target`."""

    name: str
    text: str


@frozen
class Jump:
    """To another chain of the same owner, by the name the owner gave it; with *goto*, no return."""

    chain: str
    goto: bool = False


def match(extension: str, /, **options: OptionValue) -> Match:
    """``match("conntrack", ctstate=Not("NEW"))`` is ``-m conntrack ! --ctstate NEW``.

    :raises InvalidInput: a name or value that iptables could take for something else.
    """
    check_name("match", extension)
    return Match(extension, " ".join(["-m", extension, *render_options(options)]))


def target(name: str, /, **options: OptionValue) -> Target:
    """``target("MARK", set_xmark="0x1/0xff")`` is ``-j MARK --set-xmark 0x1/0xff``.

    :raises InvalidInput: a name or value that iptables could take for something else.
    """
    check_name("target", name)
    return Target(name, " ".join(["-j", name, *render_options(options)]))


ACCEPT = target("ACCEPT")
DROP = target("DROP")
RETURN = target("RETURN")


def _to_network(
    value: IpNetwork | IpAddress | Not[IpNetwork] | Not[IpAddress] | None,
) -> IpNetwork | Not[IpNetwork] | None:
    if isinstance(value, Not):
        return Not(ip_network(value.value))
    if value is None or isinstance(value, (IPv4Network, IPv6Network)):
        return value
    return ip_network(value)


@frozen(kw_only=True)
class Rule:
    """One rule: when all of it applies to a packet, the target decides; without one, it counts.

    :raises InvalidInput: a value that iptables could take for something else.
    """

    target: Target | Jump | None
    source: IpNetwork | Not[IpNetwork] | None = field(default=None, converter=_to_network)
    destination: IpNetwork | Not[IpNetwork] | None = field(default=None, converter=_to_network)
    in_device: str | Not[str] | None = None
    out_device: str | Not[str] | None = None
    protocol: str | Not[str] | None = None
    matches: tuple[Match, ...] = ()
    comment: str = ""

    def __attrs_post_init__(self) -> None:
        for option, device in (("-i", self.in_device), ("-o", self.out_device)):
            _check_device(option, device)
        if self.protocol is not None:
            check_name("protocol", _bare(self.protocol))
        if self.comment:
            check_argument("comment", self.comment)
        if isinstance(self.target, Jump):
            check_chain_name(self.target.chain)

    def families(self) -> frozenset[Family]:
        """The families this rule is possible in, by its addresses."""
        networks = (self.source, self.destination)
        bare = [each.value if isinstance(each, Not) else each for each in networks]
        return frozenset({Family(each.version) for each in bare if each}) or frozenset(Family)


def render_rule(rule: Rule, owner: str) -> str:
    """The rule as one line, without the chain it is in."""
    parts = []
    if rule.source is not None:
        parts += _network("-s", rule.source)
    if rule.destination is not None:
        parts += _network("-d", rule.destination)
    for option, value in (
        ("-i", rule.in_device), ("-o", rule.out_device), ("-p", rule.protocol),
    ):  # fmt: skip
        if value is not None:
            parts.append(f"! {option} {value.value}" if isinstance(value, Not) else
                         f"{option} {value}")  # fmt: skip
    parts += [extension.text for extension in rule.matches]
    if rule.comment:
        parts.append(f"-m comment --comment {render_text(rule.comment)}")
    if isinstance(rule.target, Jump):
        parts.append(f"{'-g' if rule.target.goto else '-j'} {owner}-{rule.target.chain}")
    elif rule.target is not None:
        parts.append(rule.target.text)
    return " ".join(parts)


def _network(option: str, network: IpNetwork | Not[IpNetwork]) -> list[str]:
    if isinstance(network, Not):
        return ["!", option, str(network.value)]
    # iptables does not print what every packet fulfils.
    return [option, str(network)] if network.prefixlen else []


def _check_device(option: str, device: str | Not[str] | None) -> None:
    if device is not None and not _DEVICE.fullmatch(_bare(device)):
        raise InvalidInput({option: f"{_bare(device)!r} is not the name of a device"})


def _bare(value: T | Not[T]) -> T:
    return value.value if isinstance(value, Not) else value
