"""StateSource: where an agent learns what its host should be, and reports what became of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeVar

from attrs import frozen

from netfw.drivers.agent_requests import Request
from netfw.drivers.base import Driver
from netfw.drivers.reports import Report, ReportResult
from netfw.drivers.subscription import Subscription
from netfw.model.resource import Ref, Resource

R = TypeVar("R")


@frozen
class Cursor:
    """A place in the history of a source; opaque to agents, who keep it and give it back.

    It belongs to the interest that it was given to: another interest takes a snapshot.
    """

    epoch: str
    """Changes when the store was restored or replaced: its history is another one."""
    seq: int


@frozen(kw_only=True)
class Delta:
    """A part of a snapshot, or what changed.  No ref is both put and dropped."""

    put: tuple[Resource, ...] = ()
    drop: frozenset[Ref] = frozenset()
    cursor: Cursor
    more: bool = False
    """Another page follows; only after the last one do the resources fit together."""


Hint = Callable[[], None]
"""Says "something changed".  Called from any thread, it only enqueues: no blocking, no raising."""
Stop = Callable[[], None]
"""Ends a watch; no hint comes after it returned.  Twice is once."""


class StateSource(Driver):
    """The desired state of a host: the server, a watched file, or the embedding program itself.

    All methods may be called from any thread, by several agents at once, never inside a database
    transaction.  Promises (``netfw.testing.conformance.StateSourceConformance`` has one test for
    each):

    1. A snapshot is everything that concerns the interest and nothing else, each resource once,
       in pages of which exactly the last says ``more=False``; one that is empty is one page.
    2. Its cursor was taken before page 1 and is on every page: whatever is committed while it is
       read, the pages and then ``changes`` since that cursor give exactly what concerns the
       interest now.
    3. ``changes`` follows commit order.  A commit that was slow is never skipped because a later
       one was read first.
    4. ``changes`` brings what *became* reachable, however old: with the first port of a network
       on a host come its network, segments, subnets, groups, and the members those refer to.
    5. What was reachable and no longer is, is dropped, also when it itself did not change.
    6. ``changes`` since the cursor of the last answer is empty while nothing happened.  Asking
       twice with one cursor is harmless, and gives at least as much as before.
    7. ``more`` in an answer of ``changes`` asks to go on with its cursor; that ends.
    8. A cursor of another epoch, from before what the source remembers, or from its future raises
       ``CursorLost``; never a delta that leaves something out.
    9. A hint follows every commit that concerns its interest, after which ``changes`` has it.
       Hints may be late, doubled, merged or lost, and carry nothing.
    10. A report counts only while its resource has the reported revision and its host is the one
        that serves it; any other is ignored without an error.  Repeating one changes nothing.
    11. ``ask`` is idempotent: the same request gives an equal answer and no second effect.
    12. Agents do not disturb each other: reading changes nothing for anybody else.
    """

    GROUP: ClassVar[str] = "netfw.state_sources"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def snapshot(self, interest: Subscription) -> Iterator[Delta]:
        """Everything that concerns *interest*, page by page; lazily, so take the pages soon.

        :raises BackendUnavailable: the source does not answer, at any page; begin again later.
        """

    @abstractmethod
    def changes(self, interest: Subscription, since: Cursor) -> Delta:
        """What to put and drop to come from *since* to now, or a first part of it.

        Costs what changed for this interest, not what the source holds.

        :raises CursorLost: the source cannot tell; take a snapshot, and compare.
        :raises BackendUnavailable: the source does not answer; what the agent has stays valid.
        """

    @abstractmethod
    def report(self, reports: Sequence[Report]) -> ReportResult:
        """Report the state of resources, in order, as one message.

        Return a result with ``resync`` to an agent that was silent for so long that the source
        considered it dead.

        :raises BackendUnavailable: the source may have missed the reports; send them again later.
        """

    @abstractmethod
    def request(self, request: Request[R]) -> R:
        """Ask for something to be made or found.

        :raises NotSupported: this source does not answer that kind of request.
        :raises RequestError: it cannot be: no such network, no address left.
        :raises BackendUnavailable: perhaps it was done; ask again.
        """

    @abstractmethod
    def watch(self, interest: Subscription, hint: Hint) -> Stop:
        """Call *hint* after commits that concern *interest*, until stopped or closed."""

    def errors(self) -> tuple[str, ...]:
        """Why what is in force is not what was said last, such as faults of a file; cheap.

        Agents show them.  A hint follows when they change.  What does not answer at all raises
        in ``changes`` instead.
        """
        return ()
