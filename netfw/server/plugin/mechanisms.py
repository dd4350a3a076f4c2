"""Mechanisms: the mechanism drivers of a server, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from netfw.drivers.change import Change
from netfw.drivers.mechanism import MechanismDriver
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.server.plugin.unit import Unit


class Mechanisms:
    """Who carries networks, subnets and ports to switches and devices."""

    def __init__(self, drivers: Sequence[MechanismDriver]) -> None:
        self.drivers = tuple(drivers)

    def check(self, unit: Unit, change: Change) -> None:
        """Ask each driver about a change, in the transaction and before the commit.

        :raises RequestError: a driver refuses it, and those after it are not asked.
        """
        if isinstance(change.resource, Network | Subnet | Port):
            for driver in self.drivers:
                driver.check(change)
