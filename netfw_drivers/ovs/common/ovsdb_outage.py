"""How drivers tell that the switch's database went away, and that it is back."""

from __future__ import annotations

from collections.abc import Callable

from netfw.drivers.events import Event, FeedLost
from netfw.ovs.ovsdb.values import Connected, Disconnected, SwitchEvent


class Outage:
    """Tells of the database's absence and return; a first connection is neither."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._lost = False

    def hear(self, event: SwitchEvent) -> None:
        """Take note of *event*; what is not about the connection is none of its business."""
        match event:
            case Disconnected(remote):
                self._lost = True
                self._tell(FeedLost(f"{remote} does not answer"))
            case Connected(remote):
                if self._lost:
                    self._tell(FeedLost(f"{remote} answers again"))
                self._lost = False
