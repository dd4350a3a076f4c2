"""Transport: carries messages between a server and its agents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Driver
from netfw.drivers.values.subscription import Service


@frozen(kw_only=True)
class Message:
    """A request, its answer or a notification.  Only ``netfw.state.rpc`` reads the body."""

    topic: str
    """The address: ``server``, or a service and host such as ``l2.compute-7``.  Every transport
    accepts topics of up to 100 characters."""
    method: str
    version: str = "1.0"
    body: bytes = b""
    request_id: str = ""
    """Id of the API request, passed from process to process and into the log lines of each."""


@frozen
class Caller:
    """The sender of a message, as authenticated by the transport."""

    name: str
    """User id of the peer on a unix socket, subject of its certificate or token elsewhere."""
    host: str | None = None
    """The host for which the peer's credentials are valid; ``None``: any."""
    services: frozenset[Service] | None = None
    """The services for which they are valid; ``None``: all."""


@frozen(kw_only=True)
class SharedAddress:
    """What further processes need in order to serve beside the one that has the address."""

    options: Mapping[str, str] = field(factory=dict)
    """Options of their transports that differ from those of the first, as in a file."""
    descriptors: tuple[int, ...] = ()
    """Open files that they inherit under the same numbers."""


Handler = Callable[[Message, Caller], Message]
"""Answers a request, in a worker thread of the transport.  Its exception reaches the caller."""
Listener = Callable[[Message], None]
"""Takes a notification and only enqueues it: it neither blocks nor raises."""
Stop = Callable[[], None]
"""Ends a registration, and returns when nothing of it runs any more.  Idempotent.

A handler or listener that stops its own registration does not wait.
"""


class Transport(Driver):
    """Carries messages between processes, or within one.

    All methods may be called from any thread, several at once, never inside a database
    transaction.  Servers answer and publish, agents call and subscribe.  A notification reaches
    the agents that are connected to the publishing process, so each of several servers publishes
    all of them.
    Promises (``netfw.testing.conformance.TransportConformance`` has a test for each):

    1. ``call`` returns the answer to its own request or raises, within its timeout.  The transport
       itself sends nothing twice.
    2. An error of :mod:`netfw.errors` that a handler raises arrives at the caller as the same
       class with the same text; any other exception arrives as ``BackendBroken`` without details.
    3. A notification reaches every connected subscriber of its topic, perhaps late or twice, or
       is lost; ``publish`` neither waits for subscribers nor fails because of them.  Several of one
       topic may be merged into the last: a listener may rely on the topic alone.
    4. After an interruption the transport reconnects with growing back-off, and registrations
       survive.  ``serve`` and ``subscribe`` work without a peer; ``call`` waits for a server until
       its timeout, or until the servers refuse this peer.
    5. An unknown peer is refused before its message is read, and a message above the limit before
       it is stored; the transport or its broker logs both with the peer and the reason.
    6. Requests of one caller may be answered in any order, and a slow handler delays no other while
       a worker is free.  Without a free worker, requests wait in a bounded queue; when it is full,
       they are answered with ``BackendUnavailable``.
    7. ``close`` ends all registrations and lets handlers finish; pending calls end with
       ``BackendUnavailable`` at once.  After it ``call`` raises that, and notifications are
       lost.
    """

    GROUP: ClassVar[str] = "netfw.transports"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def call(self, message: Message, timeout: float) -> Message:
        """Send a request and return its answer.

        :raises BackendUnavailable: no server answers on that topic within *timeout* seconds; the
            request may have been executed, so requests are idempotent.
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
        """Send a notification to all subscribers of its topic; raises nothing, does not wait."""

    @abstractmethod
    def subscribe(self, topic: str, listener: Listener) -> Stop:
        """Pass every notification for *topic* to *listener* until stopped.

        The listener gets one more as soon as it is connected, and after each reconnection, since
        some may have been lost before: an agent that subscribes and then reads misses nothing.
        A transport with `unreachable_reason` also gives one when a reason arises.
        """

    def unreachable_reason(self, topic: str) -> str | None:
        """Return why the servers of *topic* are out of reach; does not wait.

        ``None``: nothing is known of a loss or a refusal.  Before the first server has answered
        there is no reason: agents and servers may be starting at the same time.
        """
        return None

    def share_address(self) -> SharedAddress:
        """Take the address of ``serve`` for several processes of one server.

        Each process makes a transport of its own from the same options, overridden by those of the
        result, and serves beside the others.  This object stays open while they run, and may serve
        at the address itself.

        :raises Conflict: the address is taken by a process that does not share it.
        """
        return SharedAddress()
