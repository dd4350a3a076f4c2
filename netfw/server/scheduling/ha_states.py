"""The words of the API for the roles of highly available routers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from netfw.model.router import HaRole

UNKNOWN: Final = "unknown"
HA_STATES: Final[Mapping[HaRole, str]] = MappingProxyType(
    {HaRole.ACTIVE: "active", HaRole.STANDBY: "standby", HaRole.FAULT: "standby"}
)
"""The ``ha_state`` of an agent by its role; clients know no word for a fault."""


def ha_state(role: HaRole | None, *, alive: bool) -> str:
    """Return the ``ha_state`` of an agent with *role*; that of a dead one is not known."""
    return UNKNOWN if role is None or not alive else HA_STATES[role]
