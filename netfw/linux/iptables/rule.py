"""Rules of iptables and ip6tables as values.

A rule is checked when it is made and renders to exactly one line: whatever a name, comment or
option holds, it can not become a second rule, a second option or a broken restore.  The text is in
the order and spelling in which ``iptables-save`` prints rules, so that most compare as they are.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeVar

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.model.address import IpAddress, IpNetwork

T = TypeVar("T")

ARGUMENT_LENGTH = 255
CHAIN_NAME_LENGTH = 28

_DEVICE = re.compile(r"[A-Za-z0-9_.@][A-Za-z0-9_.:@-]{0,14}\+?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_OPTION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BARE = re.compile(r"[A-Za-z0-9_./:,+=@%-]+")
_BARE_TEXT = re.compile(r"[A-Za-z0-9_-]+")
_TEXTS = frozenset({"comment", "log-prefix", "nflog-prefix", "string", "hashlimit-name"})


class Family(enum.IntEnum):
    """Which of the two tools."""

    IPV4 = 4
    IPV6 = 6

    def __str__(self) -> str:
        return f"IPv{self.value}"


@frozen
class Not(Generic[T]):
    """Everything but this."""

    value: T


OptionValue = str | int | bool | tuple[str | int, ...] | Not[str] | Not[int] | Not[tuple[str, ...]]
"""What `match` and `target` take: True is an option without an argument."""


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
    _check_name("match", extension)
    return Match(extension, " ".join(["-m", extension, *_options(options.items())]))


def target(name: str, /, **options: OptionValue) -> Target:
    """``target("MARK", set_xmark="0x1/0xff")`` is ``-j MARK --set-xmark 0x1/0xff``.

    :raises InvalidInput: a name or value that iptables could take for something else.
    """
    _check_name("target", name)
    return Target(name, " ".join(["-j", name, *_options(options.items())]))


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
            _check_name("protocol", _bare(self.protocol))
        if self.comment:
            _check_argument("comment", self.comment)
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
        parts.append(f"-m comment --comment {_quoted(rule.comment, _BARE_TEXT)}")
    if isinstance(rule.target, Jump):
        parts.append(f"{'-g' if rule.target.goto else '-j'} {owner}-{rule.target.chain}")
    elif rule.target is not None:
        parts.append(rule.target.text)
    return " ".join(parts)


def check_chain_name(name: str) -> None:
    """Refuse what can not be a chain's name.

    :raises InvalidInput: empty, or with a character that iptables or a person could mistake.
    """
    _check_name("chain", name)
    if len(name) > CHAIN_NAME_LENGTH:
        raise InvalidInput({f"chain {name}": f"longer than {CHAIN_NAME_LENGTH} characters"})


def _network(option: str, network: IpNetwork | Not[IpNetwork]) -> list[str]:
    if isinstance(network, Not):
        return ["!", option, str(network.value)]
    # iptables does not print what every packet fulfils.
    return [option, str(network)] if network.prefixlen else []


def _options(options: Iterable[tuple[str, OptionValue]]) -> list[str]:
    words = []
    for key, given in options:
        name = key.replace("_", "-")
        if not _OPTION.fullmatch(name):
            raise InvalidInput({f"option {key!r}": "not the name of an option"})
        value: object = given
        if isinstance(value, Not):
            words.append("!")
            value = value.value
        words.append(f"--{name}")
        if value is not True:
            values = value if isinstance(value, tuple) else (value,)
            words += [_argument(name, str(each)) for each in values]
    return words


def _argument(option: str, text: str) -> str:
    _check_argument(f"--{option}", text)
    return _quoted(text, _BARE_TEXT if option in _TEXTS else _BARE)


def _quoted(text: str, bare: re.Pattern[str]) -> str:
    if bare.fullmatch(text):
        return text
    return '"' + re.sub(r"([\"\\'])", r"\\\1", text) + '"'


def _check_argument(path: str, text: str) -> None:
    if not text or not text.isprintable():
        raise InvalidInput({path: f"{text!r} is empty or has characters that are not printable"})
    if text.startswith("-") or text == "!":
        raise InvalidInput({path: f"{text!r} would be read as an option"})
    if len(text.encode()) > ARGUMENT_LENGTH:
        raise InvalidInput({path: f"longer than {ARGUMENT_LENGTH} bytes"})


def _check_device(option: str, device: str | Not[str] | None) -> None:
    if device is not None and not _DEVICE.fullmatch(_bare(device)):
        raise InvalidInput({option: f"{_bare(device)!r} is not the name of a device"})


def _check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput({f"{kind} {name!r}": "not a name (A-Z a-z 0-9 _ . -)"})


def _bare(value: T | Not[T]) -> T:
    return value.value if isinstance(value, Not) else value
