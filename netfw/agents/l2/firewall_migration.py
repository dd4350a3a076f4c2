"""Removal of the filters of former firewall drivers, after all ports are wired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.errors import NetfwError
from netfw.plan import Update


class RetiredFirewalls:
    """Firewall drivers that are no longer configured."""

    def __init__(self, drivers: Iterable[FirewallDriver]) -> None:
        self._remaining = {driver.describe().name: driver for driver in drivers}
        self._errors: dict[str, str] = {}

    @property
    def remaining(self) -> Mapping[str, FirewallDriver]:
        """The drivers that may still have filters on the host, by name."""
        return self._remaining

    def remove(self) -> None:
        """Remove the filters of all drivers; a driver that fails is retried with the next call."""
        for name, driver in tuple(self._remaining.items()):
            try:
                converge_isolated(driver, Update(complete=True)).raise_failed()
            except NetfwError as exc:
                self._errors[name] = str(exc)
            else:
                del self._remaining[name]

    def warnings(self) -> dict[str, str]:
        """Return a warning for each driver that may still have filters."""
        return {
            f"retired firewall driver {name}": "its filters are still there"
            + (f": {self._errors[name]}" if name in self._errors else " until all ports are wired")
            for name in self._remaining
        }
