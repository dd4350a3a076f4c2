"""RPC server that offers a state source to agents in other processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from netfw import request_id, tracing
from netfw.drivers.state_source import Cursor, Delta, StateSource, Stop
from netfw.drivers.transport import Caller, Message, Transport
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import InvalidInput, NotSupported
from netfw.model.resource import Ref
from netfw.model.wire.codec import Absent
from netfw.state.dependencies import EVERYWHERE, AgentRoot
from netfw.state.rpc.authorization import (
    authorize_need,
    authorize_reports,
    authorize_request,
    authorize_subscription,
    restrict_answer,
)
from netfw.state.rpc.codecs import CURSOR, REF, codec_named, read, read_report, read_subscription
from netfw.state.rpc.compat import PeerCompatibility
from netfw.state.rpc.envelope import (
    REVIVED,
    SERVER,
    TRACE,
    VERSION,
    Content,
    check_version,
    pack,
    unpack_request,
)
from netfw.state.rpc.notifications import make_notification
from netfw.state.rpc.paging import BUDGET, encode_delta, encode_page
from netfw.state.rpc.source_interfaces import CommitFeed, EncodedSource

LOG = logging.getLogger(__name__)

WATCHED = 10_000
"""Maximum number of watched subscriptions of a source that does not announce commits."""

MAX_REPORTS = 5_000
"""Maximum number of reports in one message: ten times what an agent sends at once."""

Answer = Callable[[Content, Caller], bytes]
CallObserver = Callable[[str, float, str], None]
"""Notes a call of an agent: its method, the seconds that it took, and the class of the error with
which it ended, or nothing.  Cheap; any thread."""


class StateRpcServer:
    """Offers *source* to the clients of *transport*.

    It keeps no state about agents: each request is self-contained, so that another process can
    answer the next one.  Notifications are published for each agent root that a commit concerns,
    whether or not an agent is subscribed.
    """

    def __init__(
        self,
        source: StateSource,
        transport: Transport,
        *,
        budget: int = BUDGET,
        observe: CallObserver = lambda method, seconds, error: None,
    ) -> None:
        self._source, self._transport, self._budget = source, transport, budget
        self._observe = observe
        self._agents = PeerCompatibility("an agent")
        self._methods: Final[Mapping[str, Answer]] = {
            "snapshot": self._snapshot,
            "changes": self._changes,
            "report": self._report,
            "ask": self._ask,
        }
        self._stops: list[Stop] = []
        self._watching = threading.Lock()
        self._watched: dict[Subscription, Stop] = {}

    def open(self) -> None:
        """Start to answer and to publish notifications.

        :raises Conflict: the transport's address is taken.
        """
        if isinstance(self._source, CommitFeed):
            self._stops.append(self._source.announce(self._publish))
        self._stops.append(self._transport.serve(SERVER, self.handle))

    def close(self) -> None:
        """Stop; finish the requests in progress first."""
        while self._stops:
            self._stops.pop()()
        with self._watching:
            watched, self._watched = self._watched, {}
        for stop in watched.values():
            stop()

    def handle(self, message: Message, caller: Caller) -> Message:
        """Answer *message*.

        :raises NetfwError: the error to send to the caller.
        """
        own_id = request_id.sanitize(message.request_id)
        began, error = time.perf_counter(), ""
        with request_id.bind(own_id):
            try:
                body = self._answer(message, caller)
            except Exception as exc:
                error = type(exc).__name__
                raise
            finally:
                method = message.method if message.method in self._methods else "unknown"
                self._observe(method, time.perf_counter() - began, error)
        return Message(
            topic=message.topic,
            method=message.method,
            version=VERSION,
            body=body,
            request_id=own_id,
        )

    def _answer(self, message: Message, caller: Caller) -> bytes:
        check_version(message.version, f"the agent of {caller.name}")
        method = self._methods.get(message.method)
        if method is None:
            raise NotSupported(f"this server does not know the method {message.method[:64]!r}")
        LOG.debug("%s: %s", caller.name, message.method)
        content = unpack_request(message.body)
        contexts = tracing.valid_contexts([content.get(TRACE)])
        if not contexts:
            return method(content, caller)
        with tracing.span(f"answer {message.method}", contexts):
            return method(content, caller)

    def _snapshot(self, content: Content, caller: Caller) -> bytes:
        subscription, after = self._subscription(content, caller), _after(content)
        limit = _limit(content)
        if isinstance(self._source, EncodedSource):
            page = self._source.written_part(subscription, after, limit)
            return encode_page(page, after, self._budget, goes_on=page.more)
        pages = list(self._source.snapshot(subscription))
        put = tuple(resource for page in pages for resource in page.put)
        delta = encode_delta(Delta(put=put, cursor=pages[0].cursor))
        return encode_page(delta, after, self._budget, limit=limit)

    def _changes(self, content: Content, caller: Caller) -> bytes:
        subscription = self._subscription(content, caller)
        since: Cursor = read(CURSOR, content.get("since"), "since")
        if isinstance(self._source, EncodedSource):
            delta = self._source.written_changes(subscription, since)
        else:
            delta = encode_delta(self._source.changes(subscription, since))
        return encode_page(delta, _after(content), self._budget)

    def _report(self, content: Content, caller: Caller) -> bytes:
        raws = content.get("reports")
        if not isinstance(raws, list):
            raise InvalidInput({"reports": "is not a list"})
        if len(raws) > MAX_REPORTS:
            raise InvalidInput({"reports": f"{len(raws)} are more than {MAX_REPORTS} at once"})
        parsed = (read_report(raw, self._agents) for raw in raws)
        reports = tuple(report for report in parsed if report is not None)
        authorize_reports(caller, reports)
        revived = bool(reports) and self._source.report(reports).resync
        return pack({REVIVED: True} if revived else {})

    def _ask(self, content: Content, caller: Caller) -> bytes:
        codec = codec_named(content.get("request"))
        request: Request[Any] = read(codec.request, content.get("about", {}), codec.name)
        authorize_request(caller, request)
        authorize_need(caller, request, self._source)
        answer = self._source.request(request)
        if caller.host is not None:
            answer = restrict_answer(request, answer, caller.host)
        rendered = codec.answer.render(answer)
        return pack({} if isinstance(rendered, Absent) else {"answer": rendered})

    def _subscription(self, content: Content, caller: Caller) -> Subscription:
        subscription = read_subscription(content.get("subscription"), self._agents)
        authorize_subscription(caller, subscription)
        if not isinstance(self._source, CommitFeed):
            self._watch(subscription)
        return subscription

    def _watch(self, subscription: Subscription) -> None:
        """Publish notifications for *subscription* from its first request on."""
        with self._watching:
            full = len(self._watched) >= WATCHED
            if full or subscription in self._watched or not subscription.services:
                return
            root = AgentRoot(min(subscription.services), subscription.host)
            publish = partial(self._publish, None, frozenset({root}))
            self._watched[subscription] = self._source.watch(subscription, publish)

    def _publish(self, cursor: Cursor | None, concerned: frozenset[AgentRoot] | None) -> None:
        every_agent = (AgentRoot(service, EVERYWHERE) for service in Service)
        for root in every_agent if concerned is None else concerned:
            self._transport.publish(make_notification(root, cursor))


def _after(content: Content) -> Ref | None:
    raw = content.get("after")
    return None if raw is None else read(REF, raw, "after")


def _limit(content: Content) -> int | None:
    """Return the number of resources that the agent takes at most; ``None``: no limit is given."""
    limit = content.get("limit")
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInput({"limit": f"{str(limit)[:20]!r} is no number of resources"})
    return limit
