"""LampExtension: declares the resource ``lamp``; the server stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.api_extension import (
    ApiExtension,
    ExtensionInfo,
    PolicyRule,
    ResourceDeclaration,
    Verb,
)
from netfw.drivers.server.attribute import Attribute, AttributeType, Value

OWNER = "rule:admin or project_id:%(project_id)s"


def _percent(value: Value) -> None:
    if not isinstance(value, int) or value not in range(101):
        raise ValueError(f"{value} is not between 0 and 100")


LAMP = ResourceDeclaration(
    name="lamp",
    collection="lamps",
    attributes=(
        Attribute(name="name", type=AttributeType.TEXT, default=""),
        Attribute(name="brightness", type=AttributeType.INTEGER, default=100, check=_percent),
        Attribute(name="port_id", type=AttributeType.UUID, nullable=True, mutable=False),
        Attribute(name="rack", type=AttributeType.TEXT, default="", admin_only=True),
    ),
    quota=5,
)


class LampExtension(ApiExtension):
    """Adds lamps to the API."""

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("lamps")

    def info(self) -> ExtensionInfo:
        return ExtensionInfo(
            alias="acme-lamps",
            name="Lamps",
            description="Lamps that hang on ports",
            updated="2026-11-15T00:00:00Z",
        )

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return (LAMP,)

    def policies(self) -> tuple[PolicyRule, ...]:
        return tuple(
            PolicyRule(
                name=f"{verb.value}_lamp",
                check=OWNER,
                description=f"Permission to {verb.value} lamps",
            )
            for verb in Verb
        )
