"""HostDriver: a driver that shapes a host, and all that a simple vendor writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from netfw.drivers.base import Capability, Driver
from netfw.drivers.events import Sink
from netfw.plan import Outcome, Update

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class HostCapability(Capability):
    """Capabilities of host drivers of every contract."""

    PLAN = "plan"
    """The driver is a :class:`~netfw.drivers.reconciler.Reconciler`: dry run and drift repair."""
    WATCH = "watch"
    """The driver announces changes of the machine by itself."""


class HostDriver(Driver, Generic[K, V]):
    """Makes a part of this host equal to what is wanted.

    Promises (``netfw.testing.conformance`` checks each one for every kind):

    1. ``converge`` makes every key of ``put`` so and every key of ``drop`` gone; repeating it
       changes nothing.
    2. Dropping what is absent succeeds.
    3. With ``complete``, what the driver holds beyond ``put`` and ``keep`` is removed.
    4. One key's failure concerns that key alone: the outcome names it, the others are done.
    5. The driver touches only what it made; what it cannot have is a ``Conflict`` for that key.
    6. Killed at any moment and started again, the next ``converge`` ends in the same state.
    7. ``held`` reports what the host *has*, not what was asked for.

    ``converge``, ``held`` and ``gc`` are called by one thread at a time, outside any database
    transaction.  An unexpected exception is contained by the caller: see ``containment``.
    """

    @abstractmethod
    def converge(self, update: Update[K, V]) -> Outcome[K]:
        """Make *update* so.

        :raises BackendUnavailable: the backend does not answer at all; nothing can be said of any
            key, and the caller tries again later.  As ``BackendLocked``: another driver is at work
            on the same, and nothing was touched.
        """

    @abstractmethod
    def present(self) -> frozenset[K]:
        """The keys this driver has on this host now.

        :raises BackendUnavailable: the backend does not answer.
        """

    def gc(self, keep: Iterable[K]) -> Outcome[K]:
        """Remove everything this driver holds but *keep*, which stays exactly as it is."""
        return self.converge(Update(complete=True, keep=frozenset(keep)))

    def watch(self, sink: Sink) -> None:
        """Announce changes of the machine to *sink*, from any thread, until closed.

        The default announces nothing; override it with ``HostCapability.WATCH``.
        """
