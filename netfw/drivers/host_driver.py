"""HostDriver: base of the drivers that change a host; a simple driver implements no more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from netfw.drivers.base import Capability, Driver
from netfw.drivers.values.events import Sink
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
    """Makes a part of this host equal to its desired state.

    Promises (``netfw.testing.conformance`` has a test of each, for every contract):

    1. ``converge`` gives every key of ``put`` its value and removes every key of ``drop`` with all
       that was made for it; repeating it changes nothing: no object that is as desired is made
       anew or goes down for a moment.
    2. Dropping an absent key succeeds.
    3. With ``complete``, the driver removes everything of its own beyond ``put`` and ``keep``.
    4. The failure of one key concerns that key alone: the outcome names it, the others are done.
       The outcome names each key of ``put`` and ``drop`` once, and others only where they fail.
    5. The driver touches only what it made; what it cannot have is a ``Conflict`` for that key.
    6. If the driver is killed at any moment, the next ``converge`` ends in the same state.
    7. ``present`` returns what the host *has*, not what was requested.
    8. Calls that read change nothing.
    9. A driver that declares ``HostCapability.WATCH``, and only such a driver, overrides ``watch``
       and announces when something that it made vanishes.

    ``converge``, ``present`` and ``gc`` are called by one thread at a time, outside any database
    transaction.  The caller contains an unexpected exception: see
    :mod:`netfw.drivers.support.fault_isolation`.
    """

    @abstractmethod
    def converge(self, update: Update[K, V]) -> Outcome[K]:
        """Apply *update*.

        :raises BackendUnavailable: the backend does not answer, and the state of every key is
            unknown; the caller retries later.  As ``BackendLocked``: another driver holds the
            lock, and nothing was touched.
        """

    @abstractmethod
    def present(self) -> frozenset[K]:
        """Return the keys that this driver has on this host now.

        :raises BackendUnavailable: the backend does not answer.
        """

    def gc(self, keep: Iterable[K]) -> Outcome[K]:
        """Remove everything of this driver except *keep*, which stays exactly as it is."""
        return self.converge(Update(complete=True, keep=frozenset(keep)))

    def watch(self, sink: Sink) -> None:
        """Announce changes of the machine to *sink*, from any thread, until closed.

        The default announces nothing; see promise 9.
        """
