"""TypeDriver: validates and allocates segments of one network type."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

from attrs import field, frozen

from netfw.drivers.base import Driver
from netfw.model.segment import NetworkType, Provider


@frozen
class Pool:
    """Numbers of the segments of one type, on one physical network or in the whole fabric."""

    type: NetworkType
    physical_network: str | None = None


@frozen
class Range:
    """Numbers *first* to *last* of a pool, for automatic allocation."""

    pool: Pool
    first: int
    last: int = field()

    @last.validator
    def _check(self, _: object, last: int) -> None:
        if last < self.first:
            raise ValueError(f"the range {self.first}:{last} is empty; write first:last")


class AllocationStore(Protocol):
    """Allocated numbers, in the transaction of the caller.

    The store alone handles concurrency: of two transactions one gets a number, the other another
    number or a ``Conflict``.  None of its methods scans a range.
    """

    def acquire(self, pool: Pool, number: int) -> bool:
        """Allocate *number*, inside or outside any range; return false if it is taken."""

    def acquire_any(self, pool: Pool) -> int | None:
        """Allocate any free number of the pool's ranges; ``None`` if there is none."""

    def release(self, pool: Pool, number: int) -> None:
        """Free *number*.  Idempotent."""


class TypeDriver(Driver):
    """Validates, numbers and sizes segments of one type.

    ``reserve``, ``allocate`` and ``release`` are called in the transaction of an API request, by
    its thread, several at once.  They are called again when the transaction is retried, and only
    the last call has an effect.  An exception rolls the request back.  Promises:

    1. ``validate`` names every error of a request, by attribute.
    2. ``reserve`` allocates exactly the requested segment, and completes missing parts.
    3. ``allocate`` returns a free segment, or ``None`` if none is left; the next type is tried.
    4. ``release`` frees a segment; a second call is harmless.
    5. Two segments that are allocated at the same time differ, except local ones, which stay on
       their hosts.
    6. ``mtu`` is the size that remains for an instance's packet on that segment.
    7. ``validate``, ``ranges`` and ``mtu`` are pure; ``reserve``, ``allocate`` and ``release`` do
       no I/O but the store, and do not wait.
    """

    GROUP: ClassVar[str] = "netfw.type_drivers"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def network_type(self) -> NetworkType:
        """Return the type of this driver; each type has one driver."""

    @abstractmethod
    def ranges(self) -> tuple[Range, ...]:
        """Return the numbers that the configuration offers for automatic allocation."""

    @abstractmethod
    def validate(self, request: Provider) -> None:
        """Accept *request*, complete or not.

        :raises InvalidInput: it is no segment of this type.
        """

    @abstractmethod
    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        """Allocate the requested segment.

        :raises Conflict: it is taken, or nothing is left to complete it.
        """

    @abstractmethod
    def allocate(self, store: AllocationStore) -> Provider | None:
        """Allocate any free segment of the ranges.

        The store knows more ranges than the configuration: administrators add some.
        """

    @abstractmethod
    def release(self, segment: Provider, store: AllocationStore) -> None:
        """Free a segment.  Raises no own errors."""

    @abstractmethod
    def mtu(self, physical_network: str | None) -> int:
        """Return the largest packet of an instance; 0: this type sets no limit."""
