"""L2PopulationMechanismDriver: a name that configurations of Neutron have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    MechanismCapability,
    MechanismDriver,
    Refused,
)


class L2PopulationMechanismDriver(MechanismDriver):
    """A driver without effect, so that configurations that name it stay valid.

    An agent with ``l2_population = true`` derives forwarding entries from the state it reads.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("l2population")

    def supported_qos_rules(self) -> None:
        return None

    def bind(self, request: BindingRequest) -> Binding:
        return Refused("l2population binds no ports, it leaves that to others")
