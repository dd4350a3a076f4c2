"""Firewall drivers that a host had before: what they left behind is removed, last of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.errors import NetfwError
from netfw.plan import Update


class RetiredFirewalls:
    """Drivers that are to hold nothing any more."""

    def __init__(self, drivers: Iterable[FirewallDriver]) -> None:
        self._left = {driver.describe().name: driver for driver in drivers}
        self._why: dict[str, str] = {}

    @property
    def left(self) -> Mapping[str, FirewallDriver]:
        """Those that may still hold something, by name."""
        return self._left

    def remove(self) -> None:
        """Have them remove all they hold; one that cannot is asked again another time."""
        for name, driver in tuple(self._left.items()):
            try:
                converge_isolated(driver, Update(complete=True)).raise_failed()
            except NetfwError as exc:
                self._why[name] = str(exc)
            else:
                del self._left[name]

    def warnings(self) -> dict[str, str]:
        """What an operator should know of them."""
        return {
            f"retired firewall driver {name}": "what it left behind is still there"
            + (f": {self._why[name]}" if name in self._why else " until all ports are wired")
            for name in self._left
        }
