"""TypeDriver: knows one type of network segment and numbers its segments."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from attrs import field, frozen

from netfw.drivers.base import Driver
from netfw.model.segment import NetworkType, Provider


@frozen
class Pool:
    """Where segments of one type get their numbers: a physical network, or the whole fabric."""

    type: NetworkType
    physical_network: str | None = None


@frozen
class Range:
    """Numbers *first* to *last* of a pool, for networks whose segment nobody chose."""

    pool: Pool
    first: int
    last: int = field()

    @last.validator
    def _check(self, _: object, last: int) -> None:
        if last < self.first:
            raise ValueError(f"the range {self.first}:{last} is empty; write first:last")


class AllocationStore(Protocol):
    """Which numbers are taken, in the transaction of the caller.

    It alone answers for concurrency: of two transactions one gets a number, the other another one
    or a ``Conflict``.  None of its methods scans a range.
    """

    def acquire(self, pool: Pool, number: int) -> bool:
        """Take *number*, inside or outside any range; false when it is taken."""

    def acquire_any(self, pool: Pool) -> int | None:
        """Take any free number of the pool's ranges; ``None`` when there is none."""

    def release(self, pool: Pool, number: int) -> None:
        """Free *number*.  What is free already stays so."""


class TypeDriver(Driver):
    """Knows one type of segment: what a valid one is, its numbers, its MTU.

    ``check``, ``ranges``, ``mtu`` are pure.  ``reserve``, ``allocate`` and ``release`` are called
    in the transaction of an API request, by its thread, several at once: no I/O but the store, no
    waiting, and they may be called again after a retry, of which nothing remains but the last.
    What they raise rolls the request back.  Promises:

    1. ``check`` names everything that is wrong with a request, by attribute.
    2. ``reserve`` takes exactly what was asked for, and completes it where parts are missing.
    3. ``allocate`` gives a free segment, or ``None`` when none is left; the next type is tried.
    4. ``release`` makes a segment free again; a second time is harmless.
    5. Two segments that are taken at the same time differ, but for local ones, which stay on their
       hosts.
    6. ``mtu`` is what is left for an instance's packet on that segment.
    """

    GROUP: ClassVar[str] = "netfw.type_drivers"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def network_type(self) -> NetworkType:
        """The type this driver is for; one driver for each."""

    @abstractmethod
    def ranges(self) -> tuple[Range, ...]:
        """The numbers that the configuration gives to networks whose segment nobody chose."""

    @abstractmethod
    def validate(self, request: Provider) -> None:
        """Accept *request*, complete or not.

        :raises InvalidInput: it cannot be a segment of this type.
        """

    @abstractmethod
    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        """Take the segment that was asked for.

        :raises Conflict: it is taken, or nothing is left that would complete it.
        """

    @abstractmethod
    def allocate(self, store: AllocationStore) -> Provider | None:
        """Take any free segment of the ranges."""

    @abstractmethod
    def release(self, segment: Provider, store: AllocationStore) -> None:
        """Make a segment free again.  Raises nothing of its own."""

    @abstractmethod
    def mtu(self, physical_network: str | None) -> int:
        """The largest packet of an instance; 0: this type sets no limit."""
