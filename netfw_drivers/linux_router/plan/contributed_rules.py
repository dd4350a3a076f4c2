"""Rules of extensions as text.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from netfw.drivers.values.contribution import RouterRule
from netfw.model.values.ids import PortId

PortDevices = Mapping[PortId, str]
"""Devices of the interfaces and of the gateway of a part of a router, by port."""
_ADDRESSES = (("-s",), ("-d",))


def render_contributed(rule: RouterRule, devices: PortDevices) -> str | None:
    """Render a rule in the order of ``iptables-save``, in which devices follow addresses.

    ``None``: it names a port that is not among *devices*.
    """
    options: list[str] = []
    for option, port in (("-i", rule.in_port), ("-o", rule.out_port)):
        if port is not None:
            if port not in devices:
                return None
            options += [option, devices[port]]
    at = _count_address_words(rule.words)
    return " ".join((*rule.words[:at], *options, *rule.words[at:]))


def _count_address_words(words: tuple[str, ...]) -> int:
    """Return how many words at the beginning match addresses."""
    at = 0
    while True:
        option = at + 1 if words[at : at + 1] == ("!",) else at
        if words[option : option + 1] not in _ADDRESSES:
            return at
        at = option + 2
