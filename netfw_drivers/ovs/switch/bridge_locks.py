"""The sole right to write to bridges: a lock of the switch's database for each of them.

Two who keep one bridge would remove each other's flows for ever.  A lock ends with the process that
holds it, however that ends, and is the same however the database is reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from netfw.drivers.events import Event, FeedLost
from netfw.errors import BackendLocked
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.values import LockChanged, SwitchEvent
from netfw_drivers.ovs.switch.plan.settings import Settings

_NO_LETTER = re.compile("[^a-zA-Z0-9]")


def lock_name(bridge: str) -> str:
    """The lock of *bridge*; names of locks are letters, digits and underscores."""
    return "netfw_" + _NO_LETTER.sub(lambda found: f"_{ord(found[0]):x}_", bridge)


class BridgeLocks:
    """One driver's right to write to the bridges of its settings; asked for when first needed.

    Bridges are taken one after the other in the order of their names, so that no two drivers wait
    for each other.
    """

    def __init__(self, ovsdb: Ovsdb, settings: Settings, tell: Callable[[Event], None]) -> None:
        self._ovsdb, self._settings, self._tell = ovsdb, settings, tell
        self._bridges = {lock_name(bridge): bridge for bridge in sorted(settings.bridges)}
        self.locks = tuple(self._bridges)

    def take(self) -> None:
        """Have the right from now on; costs nothing while it is there.

        :raises BackendLocked: another one has it; `FeedLost` follows when that has changed.
        :raises BackendUnavailable: the database does not answer.
        """
        for lock, bridge in self._bridges.items():
            if not self._ovsdb.hold(lock, self):
                raise BackendLocked(
                    f"another agent or switch driver holds {bridge} on the switch at "
                    f"{self._ovsdb.remote}: stop it, or give this one its own "
                    f"{self._option(bridge)}"
                )

    def __call__(self, event: SwitchEvent) -> None:
        """Hear the database: a lock that is gone, or that was waited for, is worth a look."""
        if isinstance(event, LockChanged) and event.lock in self._bridges:
            self._tell(FeedLost(f"the lock of {self._bridges[event.lock]} has changed hands"))

    def end(self) -> None:
        """Give everything back."""
        for lock in self.locks:
            self._ovsdb.release(lock, self)

    def _option(self, bridge: str) -> str:
        if bridge == self._settings.integration:
            return "integration_bridge"
        return "tunnel_bridge" if bridge == self._settings.tunnel else "bridge in bridge_mappings"
