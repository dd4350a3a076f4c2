"""Words of a restore: each is checked, and quoted where it has to be.

``iptables-restore`` splits at spaces outside of double quotes; within them a backslash takes the
next character as it is.  ``iptables-save`` quotes free text unless it is a plain word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

from attrs import frozen

from netfw.errors import InvalidInput

T = TypeVar("T")

ARGUMENT_LENGTH = 255
CHAIN_NAME_LENGTH = 28

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_OPTION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BARE = re.compile(r"[A-Za-z0-9_./:,+=@%-]+")
_BARE_TEXT = re.compile(r"[A-Za-z0-9_-]+")
_TEXTS = frozenset({"comment", "log-prefix", "nflog-prefix", "string"})


@frozen
class Not(Generic[T]):
    """A negated value."""

    value: T


OptionValue = str | int | bool | tuple[str | int, ...] | Not[str] | Not[int] | Not[tuple[str, ...]]
"""Option values of `match` and `target`; True is an option without an argument."""


def render_options(options: Mapping[str, OptionValue]) -> list[str]:
    """Render the options as words: ``ctstate="NEW"`` is ``--ctstate NEW``.

    :raises InvalidInput: a name or value that iptables could take for something else.
    """
    words = []
    for key, given in options.items():
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
    check_argument(f"--{option}", text)
    return _quoted(text, _BARE_TEXT if option in _TEXTS else _BARE)


def _quoted(text: str, bare: re.Pattern[str]) -> str:
    if bare.fullmatch(text):
        return text
    return '"' + re.sub(r"([\"\\'])", r"\\\1", text) + '"'


def check_argument(path: str, text: str) -> None:
    """Refuse text that cannot be one argument, whatever the quoting.

    :raises InvalidInput: *path* names what is refused.
    """
    if not text or not text.isprintable():
        raise InvalidInput({path: f"{text!r} is empty or has characters that are not printable"})
    if text.startswith("-") or text == "!":
        raise InvalidInput({path: f"{text!r} would be read as an option"})
    if len(text.encode()) > ARGUMENT_LENGTH:
        raise InvalidInput({path: f"longer than {ARGUMENT_LENGTH} bytes"})


def render_text(text: str) -> str:
    """Render free text as one word, quoted as ``iptables-save`` does it."""
    return _quoted(text, _BARE_TEXT)


def check_name(kind: str, name: str) -> None:
    """Refuse text that is not one plain word.

    :raises InvalidInput: it is empty, or has a character that could be taken for syntax.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput({f"{kind} {name!r}": "not a name (A-Z a-z 0-9 _ . -)"})


def check_chain_name(name: str) -> None:
    """Refuse text that cannot be a chain's name.

    :raises InvalidInput: empty, or with a character that iptables or an operator could misread.
    """
    check_name("chain", name)
    if len(name) > CHAIN_NAME_LENGTH:
        raise InvalidInput({f"chain {name}": f"longer than {CHAIN_NAME_LENGTH} characters"})
