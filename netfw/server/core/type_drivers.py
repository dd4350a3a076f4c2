"""TypeDrivers: the type drivers of a server, and allocation of segments through them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from netfw.drivers.server.type_driver import TypeDriver
from netfw.errors import ConfigError, InvalidInput
from netfw.errors.networks import NoNetworkAvailable
from netfw.model.segment import NetworkType, Provider
from netfw.server.core.settings import Settings
from netfw.server.db.database import Transaction

LOG = logging.getLogger(__name__)
PREFIX = "provider:"
"""Prefix of the segment attributes of a network."""


class TypeDrivers:
    """Segments of all configured types, allocated and released in the transaction of a request.

    :raises ConfigError: two drivers implement one type, or a configured network type has no driver.
    """

    def __init__(self, drivers: Sequence[TypeDriver], settings: Settings) -> None:
        self._drivers: dict[NetworkType, TypeDriver] = {}
        for driver in drivers:
            other = self._drivers.setdefault(driver.network_type(), driver)
            if other is not driver:
                names = f"{other.describe().name} and {driver.describe().name}"
                raise ConfigError(f"type_drivers: {names} are both for {driver.network_type()}")
        self._settings = settings
        self._own = self._tried("tenant_network_types", settings.tenant_network_types)
        if settings.l3_ha_network_type is not None:
            self._tried("l3_ha_network_type", (settings.l3_ha_network_type,))
        external = settings.external_network_type
        self._external = self._own
        if external is not None:
            self._external = self._tried("external_network_type", (external,))

    def define(self, tx: Transaction) -> None:
        """Store the ranges of all types; allocated segments stay allocated."""
        for type in sorted(self._drivers):
            tx.allocations.define(type, self._drivers[type].ranges())

    def reserve(self, tx: Transaction, requested: Provider, prefix: str = "") -> Provider:
        """Allocate the requested segment, whose attributes may be incomplete.

        :raises InvalidInput: no such segment can exist; paths begin with *prefix*.
        :raises Conflict: it is taken, or no free segment completes the request.
        """
        driver = self._drivers.get(requested.network_type)
        if driver is None:
            known = ", ".join(sorted(self._drivers)) or "none"
            text = f"{requested.network_type} is not among the types of this server: {known}"
            raise InvalidInput({f"{prefix}{PREFIX}network_type": text})
        try:
            driver.validate(requested)
        except InvalidInput as exc:
            problems = {f"{prefix}{PREFIX}{path}": text for path, text in exc.problems.items()}
            raise type(exc)(problems) from exc
        return driver.reserve(requested, tx.allocations)

    def allocate(self, tx: Transaction, *, external: bool = False) -> Provider:
        """Allocate a segment of the configured network types, tried in their order.

        :raises NoNetworkAvailable: all types are exhausted.
        """
        drivers = self._external if external else self._own
        for driver in drivers:
            found = driver.allocate(tx.allocations)
            if found is not None:
                return found
        if not drivers:
            raise NoNetworkAvailable(
                "no network can be made without provider attributes: tenant_network_types is empty"
            )
        types = ", ".join(driver.network_type() for driver in drivers)
        raise NoNetworkAvailable(
            f"no segment is left for a network of type {types}: delete a network, or have the "
            "operator configure more"
        )

    def release(self, tx: Transaction, segment: Provider) -> None:
        """Release a segment."""
        driver = self._drivers.get(segment.network_type)
        if driver is None:
            LOG.warning("segment %s stays allocated: its type has no driver any more", segment)
        else:
            driver.release(segment, tx.allocations)

    def mtu(self, segments: Iterable[Provider]) -> int:
        """Return the largest packet that passes all of *segments*; 0: they set no limit."""
        limits = (
            self._drivers[segment.network_type].mtu(segment.physical_network)
            for segment in segments
            if segment.network_type in self._drivers
        )
        return min((limit for limit in limits if limit), default=0)

    def _tried(self, option: str, types: Iterable[NetworkType]) -> tuple[TypeDriver, ...]:
        if missing := [type for type in types if type not in self._drivers]:
            raise ConfigError(f"{option}: {', '.join(missing)} is not among type_drivers")
        return tuple(self._drivers[type] for type in types)
