"""PortSecurityDriver: whether ports are filtered, which they inherit from their network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource

NAME = "port_security_enabled"


class PortSecurityDriver(ExtensionDriver):
    """Adds ``port_security_enabled``: of a network the default for new ports, of a port the value.

    A project may not disable it on ports in another project's network.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("port_security")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        return {
            Kind.NETWORK: (Attribute(name=NAME, type=AttributeType.BOOLEAN, default=True),),
            Kind.PORT: (Attribute(name=NAME, type=AttributeType.BOOLEAN, network_owner_only=True),),
        }

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        after = change.resource
        if not isinstance(after, Network | Port):
            return after
        inherited = after.port_security
        if isinstance(after, Port) and change.before is None and change.network is not None:
            inherited = change.network.port_security
        wanted = cast(bool, requested.get(NAME, inherited))
        return after if wanted == after.port_security else evolve(after, port_security=wanted)
