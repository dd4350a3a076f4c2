"""HostAgent: the work of one kind of agent.  Waiting and retrying are left to the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from attrs import asdict, field, frozen

from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.resource_index import ResourceIndex
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.support.fault_isolation import crashes_as_errors
from netfw.drivers.values.events import Event, Sink
from netfw.drivers.values.reports import Heartbeat, Report
from netfw.drivers.values.subscription import Subscription
from netfw.errors import BackendUnavailable, NetfwError
from netfw.plan import Outcome

K = TypeVar("K", bound=Hashable)


@frozen(kw_only=True)
class Counts:
    """Numbers of keys that a pass added, updated and removed, and that failed or wait."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    failed: int = 0
    waiting: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            added=self.added + other.added,
            updated=self.updated + other.updated,
            removed=self.removed + other.removed,
            failed=self.failed + other.failed,
            waiting=self.waiting + other.waiting,
        )

    def __str__(self) -> str:
        counted = [f"{number} {name}" for name, number in asdict(self).items() if number]
        return ", ".join(counted) or "none added, updated or removed"


UNDER_WAY: Final = "its job"
"""What a key waits for whose work is under way: it is not worth a line in the log."""


@frozen(kw_only=True)
class ConvergeRequest(Generic[K]):
    """The scope of a convergence pass."""

    keys: frozenset[K] = frozenset()
    complete: bool = False
    """Everything, beside the keys; what is not desired is garbage."""
    reread: bool = False
    """The drivers read the machine instead of trusting their mirrors."""


@frozen(kw_only=True)
class ConvergeResult(Generic[K]):
    """The result of a convergence pass."""

    outcome: Outcome[K] = field(factory=Outcome)
    counts: Counts = field(factory=Counts)
    unread: NetfwError | None = None
    """Why a driver could not read the machine again: the pass used its mirror, and is repeated."""


class HostAgent(ABC, Generic[K]):
    """One kind of agent, as the loop sees it.  ``K`` is the type of key that is retried alone.

    All methods are called by the one thread of the loop, in the order ``watch``,
    ``acquire_locks``, ``start``, then ``apply_delta`` and the others.  An exception other than a
    ``NetfwError`` is a defect; the loop logs it and retries after a pause.
    """

    binary: str
    """The name of the program, as operators know it."""
    resources: ResourceIndex
    """The resources of the agent; the replica stores them before each `apply_delta`."""

    @property
    @abstractmethod
    def subscription(self) -> Subscription:
        """The host and services whose resources the agent reads from the source."""

    @abstractmethod
    def watch(self, sink: Sink) -> None:
        """Have drivers and extensions send their events to *sink*, from any thread."""

    def acquire_locks(self) -> None:
        """Acquire the locks that exclude a second agent; called again until it succeeds.

        Until then the loop reports nothing: the agent that holds them does.

        :raises BackendLocked: another agent holds one; ``FeedLost`` follows when it is free.
        :raises BackendUnavailable: the backend that has them does not answer.
        :raises ConfigError: the configuration contradicts the host; the agent stops.
        """

    @abstractmethod
    def start(self) -> None:
        """Read what the host offers, before anything else; called again until it succeeds.

        :raises ConfigError: the configuration contradicts the host; the agent stops.
        :raises BackendUnavailable: a driver's backend does not answer; the loop retries.
        """

    @abstractmethod
    def apply_delta(self, delta: ReplicaDelta) -> frozenset[K]:
        """Apply changes of the source; return the keys to converge.

        A complete delta holds every resource: state computed from earlier ones is discarded.
        """

    @abstractmethod
    def rescan(self) -> frozenset[K]:
        """Scan the whole host; return the keys to converge.

        :raises BackendUnavailable: a driver's backend does not answer.
        """

    @abstractmethod
    def handle_events(self, events: Sequence[Event]) -> frozenset[K]:
        """Apply events of drivers; return the keys to converge.

        ``FeedLost`` is not among the events: it makes the loop run a complete pass.

        :raises BackendUnavailable: a driver's backend does not answer; `rescan` follows.
        :raises AgentMustEnd: the agent ends.
        """

    @abstractmethod
    def converge(self, task: ConvergeRequest[K]) -> ConvergeResult[K]:
        """Make the host match the desired state, as far as *task* says.

        :raises NetfwError: nothing could be done, for a reason that concerns no single key.
        """

    @abstractmethod
    def reports(self) -> Sequence[Report]:
        """Return the reports that are new since the last call."""

    def early_reports(self, keys: frozenset[K]) -> Sequence[Report]:
        """Return new reports that do not depend on the pass over *keys*, which is about to begin.

        The loop sends them first: the pass may wait long for its backend.
        """
        return ()

    def report_delay(self) -> float | None:
        """Return the seconds until `reports` returns what it keeps back; ``None``: nothing."""
        return None

    @abstractmethod
    def resend_reports(self) -> None:
        """Have `reports` return everything once more: the source may have lost it."""

    @abstractmethod
    def heartbeat(self, *, start: bool) -> Heartbeat:
        """Return the state report of the agent."""

    def counts(self) -> Mapping[str, int]:
        """Return numbers of things that the agent has, for monitoring."""
        return {}

    def warnings(self) -> Mapping[str, str]:
        """Return what an operator should know although nothing failed, by name; cheap."""
        return {}


def reread(drivers: Iterable[HostDriver[Any, Any]]) -> NetfwError | None:
    """Have drivers that can plan read the machine again, instead of trusting their mirrors.

    Return why one of them cannot; the others have.

    :raises BackendUnavailable: the machine does not answer.
    """
    failed: NetfwError | None = None
    for driver in drivers:
        if HostCapability.PLAN not in driver.describe().capabilities:
            continue
        try:
            with crashes_as_errors(driver):
                cast(Reconciler[Any, Any, Any], driver).observe(None)
        except BackendUnavailable:
            raise
        except NetfwError as error:
            failed = failed or error
    return failed
