"""Exits of drivers, as errors of the calls that they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from netfw.drivers.base import Driver
from netfw.errors import DriverCrashed


@contextmanager
def exits_as_errors(driver: Driver) -> Iterator[None]:
    """Translate the exit of *driver*, which would end a thread of the server.

    :raises DriverCrashed: the driver exits.
    """
    try:
        yield
    except SystemExit as exc:
        raise DriverCrashed(f"{driver.describe().name}: SystemExit: {exc}") from exc
