"""Locks of bridges: one lock of the switch's database for each bridge that a driver writes to.

Two drivers on one bridge would remove each other's flows for ever.  A lock ends with the process
that holds it, however that ends, and is the same however the database is reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from netfw.drivers.values.events import Event, FeedLost
from netfw.errors import BackendLocked
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.values import LockChanged, SwitchEvent
from netfw_drivers.ovs.switch.plan.settings import Settings

_NO_LETTER = re.compile("[^a-zA-Z0-9]")


def lock_name(bridge: str) -> str:
    """Return the lock of *bridge*; names of locks are letters, digits and underscores."""
    return "netfw_" + _NO_LETTER.sub(lambda found: f"_{ord(found[0]):x}_", bridge)


class BridgeLocks:
    """The locks of the bridges of one driver's settings; acquired when first needed.

    They are acquired one after the other in the order of the bridges' names, so that no two drivers
    wait for each other.
    """

    def __init__(self, ovsdb: Ovsdb, settings: Settings, publish: Callable[[Event], None]) -> None:
        self._ovsdb, self._settings, self._publish = ovsdb, settings, publish
        self._bridges = {lock_name(bridge): bridge for bridge in sorted(settings.bridges)}
        self.locks = tuple(self._bridges)

    def acquire(self) -> None:
        """Acquire all locks; costs nothing while they are held.

        :raises BackendLocked: another driver holds one; `FeedLost` follows when that has changed.
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
        """Handle an event of the database: report a lock that was lost, or that became free."""
        if isinstance(event, LockChanged) and event.lock in self._bridges:
            self._publish(
                FeedLost(f"the lock of {self._bridges[event.lock]} was lost or became free")
            )

    def release(self) -> None:
        """Release all locks."""
        for lock in self.locks:
            self._ovsdb.release(lock, self)

    def _option(self, bridge: str) -> str:
        if bridge == self._settings.integration:
            return "integration_bridge"
        return "tunnel_bridge" if bridge == self._settings.tunnel else "bridge in bridge_mappings"
