"""Events of a lost and restored connection to the switch or its database."""

from __future__ import annotations

from collections.abc import Callable

from netfw.drivers.values.events import BackendRecovered, Event, FeedLost
from netfw.ovs.ovsdb.values import Connected, Disconnected, SwitchEvent


def connection_event(remote: str, up: bool) -> FeedLost:
    """Return the event of a connection to *remote* that was lost or, with *up*, restored."""
    if up:
        return BackendRecovered(f"{remote} answers again")
    return FeedLost(f"{remote} does not answer")


class DatabaseOutage:
    """Publishes that the database was lost, and that it is back; ignores the first connection."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._lost = False

    def handle(self, event: SwitchEvent) -> None:
        """Handle connection events; ignore all others."""
        match event:
            case Disconnected(remote):
                self._lost = True
                self._publish(connection_event(remote, up=False))
            case Connected(remote):
                if self._lost:
                    self._publish(connection_event(remote, up=True))
                self._lost = False
