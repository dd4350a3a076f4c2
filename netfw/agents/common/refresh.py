"""Having drivers look at the machine, where an agent suspects that what they believe is not so."""

from __future__ import annotations

from typing import Any, cast

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler


def refresh(driver: HostDriver[Any, Any]) -> None:
    """Have a driver that can, read the machine again instead of trusting its mirror.

    :raises BackendUnavailable: the machine does not answer.
    """
    if HostCapability.PLAN in driver.describe().capabilities:
        cast(Reconciler[Any, Any, Any], driver).observe(None)
