"""Validation of texts: one line, bounded, of a known alphabet where they are written to files.

Every check raises ``ValueError`` with a sentence, and returns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

TEXT_LENGTH = 255
SHOWN_LENGTH = 60

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]*")
TOKEN = re.compile(r"[A-Za-z0-9_.:@/+=-]*")
PHYSICAL_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@/+-]*")
DHCP_OPTION_NAME = re.compile(r"(tag:!?[A-Za-z0-9_-]+,)*[A-Za-z0-9][A-Za-z0-9-]*")
_SYNTAX = re.compile(r"[\"\\]|(^|\s)#|^\s|\s$")
SOCKET_PATH = re.compile(r"/[A-Za-z0-9_.:@/+-]*")
_AUTODISCOVERY_NAMES = frozenset({"isatap", "localhost", "wpad"})
"""Names that hosts look up by themselves: a tunnel endpoint, the host itself, a web proxy."""


def quote(text: str) -> str:
    """Return *text* quoted, escaped and cut for a message."""
    return repr(text) if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]!r}..."


def counted(count: int, word: str) -> str:
    """Return *count* with its noun: ``1 port``, ``2 ports``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def check_text(text: str, limit: int = TEXT_LENGTH) -> None:
    """Refuse text over *limit* characters, or with line ends or terminal control characters."""
    if len(text) > limit:
        raise ValueError(f"longer than {limit} characters")
    control = _CONTROL.search(text)
    if control:
        code = ord(control.group())
        raise ValueError(f"has a control character (U+{code:04X} at {control.start()})")


def check_host(text: str) -> None:
    """Refuse text that cannot name a host, an agent's host or an availability zone."""
    _check_alphabet(text, HOST, "a host name", "A-Z a-z 0-9 _ . : @ -")


def check_token(text: str) -> None:
    """Refuse text that a file or a rule could parse as several words; empty is allowed."""
    _check_alphabet(text, TOKEN, "a plain word", "A-Z a-z 0-9 _ . : @ / + = -")


def check_physical_network(text: str) -> None:
    """Refuse text that cannot name a physical network in an agent's mappings."""
    _check_alphabet(
        text, PHYSICAL_NETWORK, "a physical network name", "A-Z a-z 0-9 _ . @ / + -", 64
    )


def check_dns_name(text: str) -> None:
    """Refuse text that is not a DNS name; a last dot and the empty name are allowed."""
    check_text(text)
    if not text:
        return
    for label in text.removesuffix(".").split("."):
        if not LABEL.fullmatch(label):
            raise ValueError(
                f"not a DNS name: {quote(text)} "
                "(labels of 1 to 63 of A-Z a-z 0-9 -, no hyphen first or last)"
            )


def is_autodiscovery_name(text: str) -> bool:
    """Return whether systems look this host name up by themselves, and trust what they find."""
    return text.split(".", maxsplit=1)[0].lower() in _AUTODISCOVERY_NAMES


def check_dhcp_option_name(text: str) -> None:
    """Require a DHCP option's name or number, with or without ``tag:`` prefixes."""
    _check_alphabet(
        text, DHCP_OPTION_NAME, "a DHCP option name", "A-Z a-z 0-9 -, after tag:NAME,", 64
    )


def check_dhcp_option_value(text: str) -> None:
    """Refuse text that a DHCP server's files could parse as quotes, an escape or a comment.

    Commas are allowed: they stand between the values of an option that has several.
    """
    check_text(text)
    found = _SYNTAX.search(text)
    if found:
        raise ValueError(
            f"{quote(text)} has {found.group()!r} at {found.start()}: leave out quotes, "
            "backslashes, a # after a blank, and blanks at both ends"
        )


def check_socket_path(text: str) -> None:
    """Refuse text that cannot be the absolute path of a unix socket."""
    _check_alphabet(text, SOCKET_PATH, "an absolute socket path", "A-Z a-z 0-9 _ . : @ / + -", 107)


def _check_alphabet(
    text: str, pattern: re.Pattern[str], what: str, letters: str, limit: int = TEXT_LENGTH
) -> None:
    check_text(text, limit)
    if not pattern.fullmatch(text):
        raise ValueError(f"not {what}: {quote(text)} ({letters})")


def render_names(names: Iterable[object], count: int, limit: int = 3, separator: str = ", ") -> str:
    """Render the first of *count* names for a message: ``a, b, c and 2 more``."""
    more = f" and {count - limit} more" if count > limit else ""
    return f"{separator.join(map(str, islice(names, limit)))}{more}"
