"""TypeDrivers: the type drivers of a server, and allocation of segments through them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from netfw.drivers.server.type_driver import AllocationStore, Range, TypeDriver
from netfw.errors import ConfigError, Conflict, InvalidInput, nearest
from netfw.errors.networks import NoNetworkAvailable
from netfw.model.segment import NetworkType, Provider
from netfw.server.core.settings import Settings
from netfw.server.db.allocation.allocation_stores import ProjectSegmentIdStore
from netfw.server.db.database import Transaction

LOG = logging.getLogger(__name__)
PREFIX = "provider:"
"""Prefix of the segment attributes of a network."""


class RangeSource(Protocol):
    """Ranges that administrators manage, beside those of the configuration."""

    def offer(self, tx: Transaction, type: NetworkType, configured: Sequence[Range]) -> list[Range]:
        """Return the ranges that networks of all projects take segments from."""

    def find_own(self, tx: Transaction, type: NetworkType, project: str) -> tuple[Range, ...]:
        """Return the ranges of one project; they do not change until the transaction ends."""


class TypeDrivers:
    """Segments of all configured types, allocated and released in the transaction of a request.

    :raises ConfigError: two drivers implement one type, or a configured network type has no driver.
    """

    def __init__(self, drivers: Sequence[TypeDriver], settings: Settings) -> None:
        self._drivers: dict[NetworkType, TypeDriver] = {}
        for driver in drivers:
            type = _type_of(driver)
            other = self._drivers.setdefault(type, driver)
            if other is not driver:
                names = f"{other.describe().name} and {driver.describe().name}"
                raise ConfigError(f"type_drivers: {names} are both for {type}")
        self._settings = settings
        self.range_source: RangeSource | None = None
        """Set by the plugin of network segment ranges, before the server starts."""
        self._own = self._tried("tenant_network_types", settings.tenant_network_types)
        if settings.l3_ha_network_type is not None:
            self._tried("l3_ha_network_type", (settings.l3_ha_network_type,))
        external = settings.external_network_type
        self._external = self._own
        if external is not None:
            self._external = self._tried("external_network_type", (external,))

    def has(self, type: NetworkType) -> bool:
        """Return whether a driver implements *type*."""
        return type in self._drivers

    def define(self, tx: Transaction) -> None:
        """Store the ranges of all types; allocated segments stay allocated."""
        for type in sorted(self._drivers):
            self.define_type(tx, type)

    def define_type(self, tx: Transaction, type: NetworkType) -> None:
        """Store the ranges of one type."""
        ranges: Sequence[Range] = self._drivers[type].ranges()
        if self.range_source is not None:
            tx.allocations.lock(type)
            ranges = self.range_source.offer(tx, type, ranges)
        tx.allocations.define(type, ranges)

    def validate(self, requested: Provider, prefix: str = "") -> TypeDriver:
        """Return the driver of a segment that can exist; its attributes may be incomplete.

        :raises InvalidInput: no such segment can exist; paths begin with *prefix*.
        """
        driver = self._drivers.get(requested.network_type)
        if driver is None:
            known = ", ".join(sorted(self._drivers)) or "none"
            near = nearest(requested.network_type, self._drivers)
            text = f"{requested.network_type} is not among the types of this server: {known}{near}"
            raise InvalidInput({f"{prefix}network_type": text})
        try:
            driver.validate(requested)
        except InvalidInput as exc:
            problems = {f"{prefix}{path}": text for path, text in exc.problems.items()}
            raise type(exc)(problems) from exc
        return driver

    def reserve(
        self, tx: Transaction, requested: Provider, prefix: str = "", project: str = ""
    ) -> Provider:
        """Allocate the requested segment, whose attributes may be incomplete.

        Missing numbers come from the ranges of *project* first, then from those of all projects.

        :raises InvalidInput: no such segment can exist; paths begin with *prefix*.
        :raises Conflict: it is taken, or no free segment completes the request.
        """
        driver = self.validate(requested, f"{prefix}{PREFIX}")
        if requested.segmentation_id is None:
            for own in self._own_ids(tx, driver, project):
                try:
                    return driver.reserve(requested, own)
                except Conflict:
                    break  # nothing is left of its own
        return driver.reserve(requested, tx.allocations)

    def allocate(self, tx: Transaction, *, external: bool = False, project: str = "") -> Provider:
        """Allocate a segment of the configured network types, tried in their order.

        Of each type, the ranges of *project* are tried first, then those of all projects.

        :raises NoNetworkAvailable: all types are exhausted.
        """
        drivers = self._external if external else self._own
        for driver in drivers:
            for store in (*self._own_ids(tx, driver, project), tx.allocations):
                found = driver.allocate(store)
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

    def _own_ids(
        self, tx: Transaction, driver: TypeDriver, project: str
    ) -> Iterator[AllocationStore]:
        """Yield the store with the ranges of *project*, if it has any."""
        if self.range_source is None or not project:
            return
        if ranges := self.range_source.find_own(tx, driver.network_type(), project):
            yield ProjectSegmentIdStore(tx.allocations, ranges)

    def _tried(self, option: str, types: Iterable[NetworkType]) -> tuple[TypeDriver, ...]:
        if missing := [type for type in types if type not in self._drivers]:
            known = ", ".join(sorted(self._drivers)) or "none"
            near = nearest(missing[0], self._drivers)
            raise ConfigError(
                f"{option}: {', '.join(missing)} is not among type_drivers ({known}){near}"
            )
        return tuple(self._drivers[type] for type in types)


def _type_of(driver: TypeDriver) -> NetworkType:
    """Return the type of *driver*.

    :raises ConfigError: it is plain text, or no name of a type: a defect of the driver.
    """
    try:
        type: object = driver.network_type()
    except ValueError as exc:
        raise ConfigError(f"type_drivers: {driver.describe().name}: {exc}") from exc
    if not isinstance(type, NetworkType):
        raise ConfigError(
            f"type_drivers: {driver.describe().name}: its network_type is {type!r}, not a "
            "NetworkType"
        )
    return type
