"""Events of a lost and restored connection to the switch's database."""

from __future__ import annotations

from collections.abc import Callable

from netfw.drivers.values.events import Event, FeedLost
from netfw.ovs.ovsdb.values import Connected, Disconnected, SwitchEvent


class Outage:
    """Publishes that the database was lost, and that it is back; ignores the first connection."""

    def __init__(self, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._lost = False

    def handle(self, event: SwitchEvent) -> None:
        """Handle connection events; ignore all others."""
        match event:
            case Disconnected(remote):
                self._lost = True
                self._publish(FeedLost(f"{remote} does not answer"))
            case Connected(remote):
                if self._lost:
                    self._publish(FeedLost(f"{remote} answers again"))
                self._lost = False
