"""Work: what one kind of agent does.  The loop decides when; nothing here waits or retries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import asdict, field, frozen

from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.resource_index import ResourceIndex
from netfw.drivers.events import Event, Sink
from netfw.drivers.reports import Heartbeat, Report
from netfw.drivers.subscription import Subscription
from netfw.plan import Outcome

K = TypeVar("K", bound=Hashable)


@frozen(kw_only=True)
class Counts:
    """How many things a pass added, updated and removed, and how many failed or wait."""

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
        some = [f"{number} {name}" for name, number in asdict(self).items() if number]
        return ", ".join(some) or "none added, updated or removed"


@frozen(kw_only=True)
class ConvergeRequest(Generic[K]):
    """What a pass is to converge."""

    keys: frozenset[K] = frozenset()
    complete: bool = False
    """Everything, beside the keys; what nobody wants is garbage."""
    reread: bool = False
    """Have the drivers read the machine instead of trusting what they were told of it."""


@frozen(kw_only=True)
class ConvergeResult(Generic[K]):
    """What became of a task."""

    outcome: Outcome[K] = field(factory=Outcome)
    counts: Counts = field(factory=Counts)


class HostAgent(ABC, Generic[K]):
    """One kind of agent, as the loop sees it.  ``K`` is what is retried on its own.

    All methods are called by the one thread of the loop, in the order ``watch``, ``begin``, then
    ``learn`` and the others.  An exception that is no ``NetfwError`` is a defect; the loop logs it
    and tries again after a pause.
    """

    binary: str
    """The name of the program, as operators know it."""
    resources: ResourceIndex
    """The resources of the agent; the replica stores them before each `apply_delta`."""

    @property
    @abstractmethod
    def interest(self) -> Subscription:
        """What the source is asked for."""

    @abstractmethod
    def watch(self, sink: Sink) -> None:
        """Have drivers and extensions tell *sink* what happens, from any thread."""

    @abstractmethod
    def begin(self) -> None:
        """Learn what the host offers, before anything else; called again until it succeeds.

        :raises ConfigError: the configuration contradicts the host; the agent stops.
        :raises BackendUnavailable: a driver's backend does not answer; the loop tries again.
        """

    @abstractmethod
    def apply_delta(self, change: ReplicaDelta) -> frozenset[K]:
        """Take over what the source says; return the keys that are to be converged.

        A complete change is everything there is: what was learnt before is to be forgotten.
        """

    @abstractmethod
    def rescan(self) -> frozenset[K]:
        """Look at the whole host; return the keys that are to be converged.

        :raises BackendUnavailable: a driver's backend does not answer.
        """

    @abstractmethod
    def handle_events(self, events: Sequence[Event]) -> frozenset[K]:
        """Take over what drivers say; return the keys that are to be converged.

        ``FeedLost`` is not among the events: it makes the loop look at everything.

        :raises BackendUnavailable: a driver's backend does not answer; `look` follows.
        :raises AgentMustEnd: the agent ends.
        """

    @abstractmethod
    def converge(self, task: ConvergeRequest[K]) -> ConvergeResult[K]:
        """Make it so.

        :raises NetfwError: nothing could be done, and no key is to blame.
        """

    @abstractmethod
    def reports(self) -> Sequence[Report]:
        """What is to be told to the source since this was last asked."""

    @abstractmethod
    def resend_reports(self) -> None:
        """The source may have forgotten what it was told: `reports` tells all of it once more."""

    @abstractmethod
    def heartbeat(self, *, start: bool) -> Heartbeat:
        """What the agent says of itself."""

    def counts(self) -> Mapping[str, int]:
        """What it has, for a monitor."""
        return {}

    def warnings(self) -> Mapping[str, str]:
        """What an operator should know although nothing failed, each under a name; cheap."""
        return {}
