"""StateSource: gives an agent the desired state of its host, and takes its reports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeVar

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Report, ReportResult
from netfw.drivers.values.subscription import Subscription
from netfw.model.resource import Ref, Resource

R = TypeVar("R")


@frozen
class Cursor:
    """A position in the history of a source; opaque to agents, which store it and return it.

    It belongs to one subscription: another subscription takes a snapshot.
    """

    epoch: str
    """Changes when the store was restored or replaced, and so has another history."""
    seq: int


@frozen(kw_only=True)
class Delta:
    """A part of a snapshot, or of the changes.  No ref is both put and dropped."""

    put: tuple[Resource, ...] = ()
    drop: frozenset[Ref] = frozenset()
    cursor: Cursor
    more: bool = False
    """Another page follows; the resources are consistent only after the last one."""


Hint = Callable[[], None]
"""Callback "something changed".  Called from any thread; it only enqueues and never raises."""
Stop = Callable[[], None]
"""Ends a watch; no hint comes after it returned.  Idempotent."""


class StateSource(Driver):
    """The desired state of a host: the server, a watched file, or the embedding program itself.

    All methods may be called from any thread, by several agents at once, never inside a database
    transaction.  Promises (``netfw.testing.conformance.StateSourceConformance`` has one test for
    each):

    1. A snapshot has exactly the resources that concern the subscription, each once, in pages of
       which only the last has ``more=False``; an empty snapshot is one page.
    2. The cursor of a snapshot is taken before page 1 and is on every page: after any commits
       during the reading, the pages and then ``changes`` since that cursor give exactly what
       concerns the subscription now.
    3. ``changes`` follows commit order: a slow commit is never skipped because a later one was
       read first.
    4. ``changes`` has every resource that *became* reachable, however old: with the first port of
       a network on a host come its network, segments, subnets, groups, and their members.
    5. A resource that is no longer reachable is dropped, even if it did not change itself.
    6. While nothing happens, ``changes`` since the last cursor is empty.  A second call with one
       cursor is harmless, and gives at least as much as the first.
    7. ``more`` in the result of ``changes`` requires another call with its cursor; the calls end.
    8. A cursor of another epoch, older than the history of the source, or from its future raises
       ``CursorLost``; no delta leaves a change out.
    9. A hint follows every commit that concerns its subscription, and then ``changes`` has it.
       Hints may be late, doubled, merged or lost, and carry nothing.
    10. A report counts only while its host serves the resource, a status only while the resource
        also has the reported revision; any other is ignored without an error.  Repeating a report
        changes nothing.
    11. ``request`` is idempotent: the same request gives an equal answer and no second effect.
    12. Agents do not affect each other: reading changes nothing for another agent.
    """

    GROUP: ClassVar[str] = "netfw.state_sources"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        """Yield everything that concerns *subscription*, page by page; lazily, so read them soon.

        :raises BackendUnavailable: the source does not answer, at any page; start again later.
        """

    @abstractmethod
    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        """Return what to put and drop to get from *since* to now, or a first part of it.

        The cost grows with the changes of this subscription, not with the source.

        :raises CursorLost: the source has lost that history; take a snapshot, and compare.
        :raises BackendUnavailable: the source does not answer; the agent's state stays valid.
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
        """Have something made or found, and return the answer.

        :raises NotSupported: this source does not answer requests of that type.
        :raises RequestError: it is impossible: no such network, no address left.
        :raises BackendUnavailable: the source may have done it; send the request again.
        """

    @abstractmethod
    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        """Call *hint* after commits that concern *subscription*, until stopped or closed."""

    def errors(self) -> tuple[str, ...]:
        """Return why an older state is in force, such as errors in a file.  Cheap.

        Agents show them.  A hint follows when they change.  A source that does not answer at all
        raises in ``changes`` instead.
        """
        return ()
