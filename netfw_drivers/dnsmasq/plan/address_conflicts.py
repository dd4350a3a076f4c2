"""Who has to wait for his addresses until somebody else has given them up.  Pure.

dnsmasq gives an address to whom it read first, and refuses the line of anybody else for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from netfw.model.ids import PortId

Claims = Mapping[PortId, frozenset[str]]
"""MAC and IP addresses that ports are to have."""


def blocked_ports(
    wanted: Claims,
    owner_of: Callable[[str], PortId | None],
    gives_up: Callable[[PortId], bool],
    gone: Iterable[PortId],
) -> dict[PortId, str]:
    """Those of *wanted* who cannot have something yet, and what.

    Several may pass on what they have among them, at once or one after the other: who waits and has
    what is not his any more gives up everything, or two could wait for each other for ever.

    :param owner_of: the port that has an address now.
    :param gives_up: whether a port of *wanted* has something that it is not to have.
    :param gone: ports that give up everything.
    """
    waiting: dict[PortId, str] = {}
    going, free = dict(wanted), set(gone)
    while late := dict(_late(going, owner_of, free)):
        waiting |= late
        free |= {port for port in late if gives_up(port)}
        going = {port: words for port, words in going.items() if port not in late}
    return waiting


def _late(
    going: Claims, owner_of: Callable[[str], PortId | None], gone: Container[PortId]
) -> list[tuple[PortId, str]]:
    claimed: dict[str, PortId] = {}
    late = []
    for port, words in going.items():
        for word in words:
            holder = owner_of(word)
            if holder is None or holder in gone or word not in going.get(holder, (word,)):
                holder = claimed.setdefault(word, port)
            if holder != port:
                late.append((port, f"{word} is still of port {holder}"))
                break
    return late
