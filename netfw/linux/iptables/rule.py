"""Rules of iptables and ip6tables as values.

A rule is validated when it is made and renders to exactly one line: whatever a name, comment or
option has, it cannot become a second rule, a second option or a broken restore.  The text is in
the order and spelling in which ``iptables-save`` prints rules, so that most compare as they are.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Hashable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeVar

from attrs import Attribute, field, frozen

from netfw.errors import InvalidInput
from netfw.linux.iptables.quoting import (
    Not,
    OptionValue,
    check_argument,
    check_chain_name,
    check_name,
    render_options,
    render_text,
)
from netfw.model.values.address import IpAddress, IpNetwork, unscoped

T = TypeVar("T")

_DEVICE = re.compile(r"[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,14}\+?")


class Family(enum.IntEnum):
    """Address family: iptables or ip6tables."""

    IPV4 = 4
    IPV6 = 6

    def __str__(self) -> str:
        return f"IPv{self.value}"


def _check_line(_: object, attribute: Attribute[str], text: str) -> None:
    if not text.isprintable():
        raise InvalidInput({attribute.name: f"{text!r} is not one line of printable characters"})


@frozen
class IptablesMatch:
    """A match extension with its options as text; made by :func:`match`, which checks them."""

    name: str
    text: str = field(validator=_check_line)


@frozen
class Target:
    """A target with its options as text, or a chain of another owner; made by :func:`target`."""

    name: str
    text: str = field(validator=_check_line)


@frozen
class Jump:
    """A jump to another chain of the same owner, by its short name; with *goto*, without return."""

    chain: str
    goto: bool = False


def match(extension: str, /, **options: OptionValue) -> IptablesMatch:
    """Make a match: ``match("conntrack", ctstate=Not("NEW"))`` is
    ``-m conntrack ! --ctstate NEW``.

    :raises InvalidInput: a name or value that iptables could take for something else.
    """
    check_name("match", extension)
    return IptablesMatch(extension, " ".join(["-m", extension, *render_options(options)]))


def target(name: str, /, **options: OptionValue) -> Target:
    """Make a target: ``target("MARK", set_xmark="0x1/0xff")`` is
    ``-j MARK --set-xmark 0x1/0xff``.

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
    if value is None:
        return None
    bare: IpNetwork | IpAddress = value.value if isinstance(value, Not) else value
    try:
        unscoped(bare)
    except ValueError as error:
        raise InvalidInput({"address": str(error)}) from error
    network = bare if isinstance(bare, (IPv4Network, IPv6Network)) else ip_network(bare)
    return Not(network) if isinstance(value, Not) else network


@frozen(kw_only=True)
class IptablesRule:
    """One rule: if all its matches apply to a packet, the target decides; without one, it counts.

    :raises InvalidInput: a value that iptables could take for something else.
    """

    target: Target | Jump | None
    source: IpNetwork | Not[IpNetwork] | None = field(default=None, converter=_to_network)
    destination: IpNetwork | Not[IpNetwork] | None = field(default=None, converter=_to_network)
    in_device: str | Not[str] | None = None
    out_device: str | Not[str] | None = None
    protocol: str | Not[str] | None = None
    matches: tuple[IptablesMatch, ...] = ()
    comment: str = ""
    owner: Hashable = field(default=None, eq=False, repr=False)
    """Key of the object that needs the rule; a refusal of the rule concerns it alone."""
    text: str = field(init=False, repr=False, eq=False)
    """The rule as text, without a jump, which needs the owner's name.  Rendered once: rules are
    compared far more often than made."""
    family: Family | None = field(init=False, repr=False, eq=False)
    """Family of its addresses, if it has any."""

    def __attrs_post_init__(self) -> None:
        for option, device in (("-i", self.in_device), ("-o", self.out_device)):
            _check_device(option, device)
        if self.protocol is not None:
            check_name("protocol", _bare(self.protocol))
        if self.comment:
            check_argument("comment", self.comment)
        if isinstance(self.target, Jump):
            check_chain_name(self.target.chain)

    @text.default
    def _render(self) -> str:
        parts = [*_network("-s", self.source), *_network("-d", self.destination)]
        for option, value in (
            ("-i", self.in_device),
            ("-o", self.out_device),
            ("-p", self.protocol),
        ):
            if isinstance(value, Not):
                parts.append(f"! {option} {value.value}")
            elif value is not None:
                parts.append(f"{option} {value}")
        parts += [extension.text for extension in self.matches]
        if self.comment:
            parts.append(f"-m comment --comment {render_text(self.comment)}")
        if isinstance(self.target, Target):
            parts.append(self.target.text)
        return " ".join(parts)

    @family.default
    def _find_family(self) -> Family | None:
        networks = (self.source, self.destination)
        bare = [each.value if isinstance(each, Not) else each for each in networks]
        versions = {network.version for network in bare if network is not None}
        if len(versions) > 1:
            raise InvalidInput({"source": f"{self.source} is not of {self.destination}'s family"})
        return Family(versions.pop()) if versions else None


def render_rule(rule: IptablesRule, owner: str) -> str:
    """Render the rule as one line, without its chain."""
    if not isinstance(rule.target, Jump):
        return rule.text
    jump = f"{'-g' if rule.target.goto else '-j'} {owner}-{rule.target.chain}"
    return f"{rule.text} {jump}" if rule.text else jump


def _network(option: str, network: IpNetwork | Not[IpNetwork] | None) -> list[str]:
    if isinstance(network, Not):
        return [f"! {option} {network.value}"]
    # iptables does not print a match that every packet fulfils.
    return [f"{option} {network}"] if network is not None and network.prefixlen else []


def _check_device(option: str, device: str | Not[str] | None) -> None:
    if device is not None and not _DEVICE.fullmatch(_bare(device)):
        raise InvalidInput({option: f"{_bare(device)!r} is not the name of a device"})


def _bare(value: T | Not[T]) -> T:
    return value.value if isinstance(value, Not) else value
