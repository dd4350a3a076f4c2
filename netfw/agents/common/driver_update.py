"""The desired state of one driver, for a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.host_driver import HostDriver
from netfw.errors import NetfwError
from netfw.plan import Update


@frozen
class DriverUpdate:
    """The complete update of one driver."""

    name: str
    driver: HostDriver[Any, Any]
    update: Update[Any, Any]
    refused: Mapping[Any, NetfwError] = field(factory=dict)
    """Keys left out of the update since the driver does not support them."""
    follows: Mapping[Any, Any] = field(factory=dict)
    """Keys that depend on a key of an earlier driver, and which one."""
    waiting: Mapping[Any, str] = field(factory=dict)
    """Keys left out of the update since they wait, and for what."""
    notes: Mapping[Any, str] = field(factory=dict)
    """Facts about keys that an operator should see with the plan."""
