"""Parsers of what a router's namespace lists: routes, and rules of address translation.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

_DEVICE = re.compile(r"\bdev (\S+)")
_VIA = re.compile(r"\bvia (?:inet6? )?(\S+)")
_MOST_RULES = 20


@frozen(kw_only=True)
class RouteReply:
    """The way of a packet out of a router."""

    namespace: str
    device: str
    mac: str = ""
    """The MAC address of the device."""
    via: str = ""
    """The next router; empty: the target is on the network of the device."""
    translations: tuple[str, ...] = ()
    """Rules of address translation that name the source or the target."""


def parse_route(text: str) -> tuple[str, str]:
    """Return the device and the next router in a reply; both empty: there is no route."""
    line = text.strip().partition("\n")[0]
    if line.startswith(("unreachable", "blackhole", "prohibit", "local", "RTNETLINK")):
        return "", ""
    device, via = _DEVICE.search(line), _VIA.search(line)
    return (device[1] if device else "", via[1] if via else "")


def parse_translations(text: str, addresses: Iterable[str]) -> tuple[str, ...]:
    """Return the first rules that name one of *addresses* in a listing of ``iptables-save``."""
    ends = {f"{each}{length}" for each in addresses for length in ("", "/32", "/128")}
    found = [line for line in text.splitlines() if ends & set(line.split())]
    return tuple(found[:_MOST_RULES])
