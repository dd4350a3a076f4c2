"""Transport: carries messages between a server and its agents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Driver


@frozen(kw_only=True)
class Message:
    """A request, its answer or a hint.  The body is text that ``messaging`` alone understands."""

    topic: str
    """Who is addressed: ``server``, or a service and host such as ``l2.compute-7``; what has at
    most 100 characters can be a topic everywhere."""
    method: str
    version: str = "1.0"
    body: bytes = b""
    request_id: str = ""
    """Follows one API call from process to process, and into the log lines of each."""


@frozen
class Caller:
    """Who sent a message, as the transport itself has proved it."""

    name: str
    """The peer's user id on a local socket, the subject of its certificate or token elsewhere."""
    host: str | None = None
    """The host that the peer's credentials speak for; ``None``: any."""


@frozen(kw_only=True)
class SharedAddress:
    """What further processes need in order to serve beside the one that has the address."""

    options: Mapping[str, str] = field(factory=dict)
    """Options of their transports that differ from those of the first, as in a file."""
    descriptors: tuple[int, ...] = ()
    """Open files that they inherit under the same numbers."""


Handler = Callable[[Message, Caller], Message]
"""Answers a request, in a worker thread of the transport.  What it raises reaches the caller."""
Listener = Callable[[Message], None]
"""Takes a hint and only enqueues it: it neither blocks nor raises."""
Stop = Callable[[], None]
"""Ends a registration; returns when nothing of it runs any more.  Twice is once.

A handler or listener that stops its own registration does not wait.
"""


class Transport(Driver):
    """Carries messages between processes, or within one.

    All methods may be called from any thread, several at once, never inside a database
    transaction.  Servers answer and publish, agents call and subscribe: a hint reaches those that
    are connected with the process that publishes it, so each of several servers publishes all
    hints.  Promises (``netfw.testing.conformance.TransportConformance`` has a test for each):

    1. ``call`` returns the answer to its own request, or raises; it never waits longer than its
       time-out.  Nothing is sent twice by the transport itself.
    2. An error of :mod:`netfw.errors` that a handler raises arrives at the caller as the same
       class with the same text; anything else arrives as ``BackendBroken`` without its details.
    3. A hint reaches every present subscriber of its topic, perhaps late or twice, or is lost;
       ``publish`` neither waits for them nor fails because of them.  Several hints of one topic
       may become one, the last of them: a listener may rely on the topic and on nothing else.
    4. Connections are made again after an interruption, with pauses that grow; registrations
       survive it.  Neither ``serve`` nor ``subscribe`` needs anybody to be there, and ``call``
       waits for a server as long as its time-out lasts.
    5. A stranger is refused before his message is read, a message larger than the limit before
       it is stored; both are logged with the peer and the reason, by the transport or its broker.
    6. Requests of one caller may be answered in any order; a slow handler holds up no other while
       there are workers left.  When none is, requests wait in a queue that has an end, after
       which they are answered by ``BackendUnavailable``.
    7. ``close`` ends all registrations and lets handlers finish; calls under way end with
       ``BackendUnavailable`` at once.  After it ``call`` raises that, and hints are lost.
    """

    GROUP: ClassVar[str] = "netfw.transports"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def call(self, message: Message, timeout: float) -> Message:
        """Send a request and return its answer.

        :raises BackendUnavailable: nobody answers on that topic within *timeout* seconds; whether
            the request was carried out is not known, so requests are idempotent.
        :raises InvalidInput: the message is larger than the limit; nothing was sent.
        :raises BackendBroken: the answer is larger than the limit, or the handler failed.
        :raises NetfwError: what the handler raised.
        """

    @abstractmethod
    def serve(self, topic: str, handler: Handler) -> Stop:
        """Answer requests to *topic* with *handler* until stopped.

        Several servers of one topic share its requests.

        :raises Conflict: the address is taken by a process that does not share it, or this object
            serves the topic already.
        """

    @abstractmethod
    def publish(self, message: Message) -> None:
        """Send a hint to everybody who listens to its topic.  Raises nothing, waits for nobody."""

    @abstractmethod
    def subscribe(self, topic: str, listener: Listener) -> Stop:
        """Hand every hint for *topic* to *listener* until stopped.

        The listener gets one hint more as soon as it can be reached, and after each reconnection,
        since some may have been lost before: who subscribes and then reads, misses nothing.
        """

    def share_address(self) -> SharedAddress:
        """Take the address of ``serve`` for several processes of one server.

        Each of them makes a transport of its own from the same options, with those of the answer
        over them, and serves beside the others; this object is kept open as long as they run, and
        may serve at the address itself.

        :raises Conflict: the address is taken by a process that does not share it.
        """
        return SharedAddress()
