"""Rules of extensions as text.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from netfw.drivers.values.router_contribution import RouterRule
from netfw.model.values.ids import PortId
from netfw_drivers.linux_router.plan.names import extension_chain, extension_subchain

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


def chain_of(rule: RouterRule, owner: str) -> str:
    """Return the name of the chain that has a rule of the extension *owner*."""
    if rule.subchain:
        return extension_subchain(owner, rule.chain, rule.subchain)
    return extension_chain(owner, rule.chain)


def entered_chain(rule: RouterRule, owner: str) -> str | None:
    """Return the name of the chain that a rule enters; ``None``: its words have a target."""
    return extension_subchain(owner, rule.chain, rule.enter) if rule.enter else None


def _count_address_words(words: tuple[str, ...]) -> int:
    """Return how many words at the beginning match addresses."""
    at = 0
    while True:
        option = at + 1 if words[at : at + 1] == ("!",) else at
        if words[option : option + 1] not in _ADDRESSES:
            return at
        at = option + 2
