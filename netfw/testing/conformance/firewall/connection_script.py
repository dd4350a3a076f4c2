"""Connections of the firewall suite: the opening packet, and the packets in both directions."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from netfw.model.values.protocol import TCP
from netfw.testing.conformance.firewall.environment import FirewallTestPort, answer
from netfw.testing.conformance.firewall.packets import Flags, Packet

_DATA = b"something to say"


class ConnectionScript:
    """A connection between two ports, and its progress."""

    def __init__(self, one: FirewallTestPort, two: FirewallTestPort, opening: Packet) -> None:
        self.one, self.two, self.opening = one, two, opening
        self._sent = self._answered = 0

    def handshake(self) -> Iterator[tuple[FirewallTestPort, FirewallTestPort, Packet]]:
        """Yield the packets that have to pass, in order, until the connection is established."""
        one, two = self.one, self.two
        yield one, two, self.opening
        if self.opening.protocol != TCP:
            yield two, one, self.back()
            return
        first = self.opening.sequence + 1
        taken = evolve(
            answer(self.opening), flags=Flags.SYN | Flags.ACK, sequence=5000, acknowledged=first
        )
        yield two, one, taken
        self._sent, self._answered = first, 5001
        yield one, two, evolve(self.forth(), flags=Flags.ACK, body=b"")

    def forth(self) -> Packet:
        """Return the opener's next packet."""
        if self.opening.protocol != TCP:
            return self.opening
        return evolve(
            self.opening,
            flags=Flags.PSH | Flags.ACK,
            sequence=self._sent,
            acknowledged=self._answered,
            body=_DATA,
        )

    def back(self) -> Packet:
        """Return the other side's next packet."""
        if self.opening.protocol != TCP:
            return answer(self.opening)
        return evolve(
            answer(self.opening),
            flags=Flags.PSH | Flags.ACK,
            sequence=self._answered,
            acknowledged=self._sent,
            body=_DATA,
        )

    def went_forth(self) -> None:
        """Record that the opener's packet arrived."""
        self._sent += len(_DATA)

    def went_back(self) -> None:
        self._answered += len(_DATA)

    def __str__(self) -> str:
        return f"the connection of {self.opening}"
