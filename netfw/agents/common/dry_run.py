"""Part: what an agent wants of one of its drivers, for a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.host_driver import HostDriver
from netfw.errors import NetfwError
from netfw.plan import Update


@frozen
class DriverUpdate:
    """What is wanted of one driver."""

    name: str
    driver: HostDriver[Any, Any]
    update: Update[Any, Any]
    refused: Mapping[Any, NetfwError] = field(factory=dict)
    """What the driver is not even asked for, as it cannot have it."""
    follows: Mapping[Any, Any] = field(factory=dict)
    """Of keys that can be had after a key of an earlier part is done: which one."""
