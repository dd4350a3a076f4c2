"""Delay ports whose addresses another port still has.  Pure.

dnsmasq gives an address to the port whose file it read first, and refuses all others for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from netfw.model.values.ids import PortId

Claims = Mapping[PortId, frozenset[str]]
"""Desired MAC and IP addresses of ports."""


def blocked_ports(
    wanted: Claims,
    owner_of: Callable[[str], PortId | None],
    gives_up: Callable[[PortId], bool],
    gone: Iterable[PortId],
) -> dict[PortId, str]:
    """Return the ports of *wanted* that have to wait, each with the reason.

    Ports may exchange addresses, at once or in a chain.  A port that waits and has an address that
    is no longer its own releases all of its addresses; else two ports could wait for each other for
    ever.

    :param owner_of: returns the port that has an address now.
    :param gives_up: returns whether a port of *wanted* has an address that it must release.
    :param gone: ports that release all of their addresses.
    """
    waiting: dict[PortId, str] = {}
    going, free = dict(wanted), set(gone)
    while blocked := dict(_blocked(going, owner_of, free)):
        waiting |= blocked
        free |= {port for port in blocked if gives_up(port)}
        going = {port: words for port, words in going.items() if port not in blocked}
    return waiting


def _blocked(
    going: Claims, owner_of: Callable[[str], PortId | None], gone: Container[PortId]
) -> list[tuple[PortId, str]]:
    claimed: dict[str, PortId] = {}
    blocked = []
    for port, words in going.items():
        for word in words:
            holder = owner_of(word)
            if holder is None or holder in gone or word not in going.get(holder, (word,)):
                holder = claimed.setdefault(word, port)
            if holder != port:
                blocked.append((port, f"{word} is still of port {holder}"))
                break
    return blocked
