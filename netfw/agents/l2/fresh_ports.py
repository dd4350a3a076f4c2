"""Ports that may go live before their filters, behind a firewall in the switch.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue
from netfw.drivers.keys import PortKey
from netfw.drivers.switch_values import Admission, SwitchDevice, SwitchKey, SwitchValue, Wiring
from netfw.plan import Outcome, Update


class FreshPorts:
    """The ports that the switch certainly keeps dead, and whose number has no filters yet.

    A ``filtered`` port exchanges traffic only through the firewall in the switch.  If it was dead
    before, it may go live first: without filters it stays closed, and no traffic is cut.  Two
    cases need the order hold, filter, go live:

    - The port may be live already, without the firewall: making it ``filtered`` would cut it off
      until its filters are there.  So no port is fresh before a complete pass has succeeded, nor
      after it was wired.
    - The switch may have given it the number of a port that is gone, whose filters are still
      there.  So no port is fresh while such filters may exist, nor before it has a number.
    """

    def __init__(self) -> None:
        self._swept = False
        self._wired: set[PortKey] = set()
        self._filtered_devices: dict[PortKey, str] = {}
        self._stale_filters: set[PortKey] = set()

    def is_fresh(self, key: PortKey, device: SwitchDevice | None) -> bool:
        """Return whether a port may go live before its filters, if it is ``filtered``."""
        if device is None or device.ofport is None:
            return False
        return self._swept and not self._stale_filters and key not in self._wired

    def start_pass(
        self,
        keys: Iterable[object],
        filters: Mapping[FirewallKey, FirewallValue],
        *,
        complete: bool,
    ) -> None:
        """Note the ports among *keys* whose filters have to be removed or to change the device."""
        if complete:
            self._swept = False
            self._wired.clear()
            self._filtered_devices.clear()
            self._stale_filters.clear()
        for key in keys:
            if isinstance(key, PortKey) and key in self._filtered_devices:
                value = filters.get(key)
                device = value.device if isinstance(value, FilteredPort) else None
                if device != self._filtered_devices[key]:
                    self._stale_filters.add(key)

    def start_wiring(self, update: Update[SwitchKey, SwitchValue]) -> None:
        """Note the ports that *update* may make live, before the switch converges it."""
        self._wired.update(key for key in update.put if isinstance(key, PortKey))

    def record_wiring(
        self, update: Update[SwitchKey, SwitchValue], outcome: Outcome[SwitchKey]
    ) -> None:
        """Note the ports that are dead after the switch converged *update*."""
        for key in outcome.done:
            if isinstance(key, PortKey):
                value = update.put.get(key)
                if not isinstance(value, Wiring) or value.admission is Admission.DEAD:
                    self._wired.discard(key)

    def record_filters(
        self, put: Mapping[FirewallKey, FirewallValue], outcome: Outcome[FirewallKey]
    ) -> None:
        """Note the ports whose filters the firewall has put or dropped."""
        for key in outcome.done:
            if isinstance(key, PortKey):
                self._stale_filters.discard(key)
                self._filtered_devices.pop(key, None)
                value = put.get(key)
                if isinstance(value, FilteredPort):
                    self._filtered_devices[key] = value.device

    def finish_complete_pass(self, *, failed: bool) -> None:
        """Note that nothing of an earlier run is left, unless a key failed."""
        self._swept = not failed
