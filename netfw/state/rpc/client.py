"""RemoteSource: the client side of a state source that another process offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from attrs import evolve
from oslo_config.cfg import FloatOpt

from netfw import request_id, tracing
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.state_source import Cursor, Delta, Hint, StateSource, Stop
from netfw.drivers.transport import Message, Transport
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Report, ReportResult
from netfw.drivers.values.subscription import Subscription
from netfw.errors import BackendBroken, BackendUnavailable, CursorLost, InvalidInput
from netfw.state.dependencies import roots
from netfw.state.rpc.codecs import CURSOR, REPORT, SUBSCRIPTION, codec_of, read
from netfw.state.rpc.compat import PeerCompatibility
from netfw.state.rpc.envelope import (
    REVIVED,
    SERVER,
    TRACE,
    TRACES,
    VERSION,
    Content,
    check_version,
    pack,
    unpack_answer,
)
from netfw.state.rpc.notifications import NotificationFilter, notification_topic
from netfw.state.rpc.paging import DeltaPage, PageSize, join_pages, read_page

R = TypeVar("R")

REPORTS_AT_ONCE = 500


class RemoteSource(StateSource):
    """A state source behind *transport*, which may be shared.

    Each call waits ``timeout`` seconds at most.  While the transport knows that the server is away,
    reads and reports fail at once, so that the loop of an agent does not wait; requests wait.
    After a snapshot of which a page did not come in time, the next one has smaller pages.  The
    caller closes the transport after it.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS = (
        FloatOpt(
            "timeout",
            default=30.0,
            min=0.1,
            help="Seconds that an agent waits for an answer of the server.",
        ),
    )

    def __init__(self, transport: Transport, *, timeout: float = 30.0) -> None:
        self._transport = transport
        self.timeout = timeout
        self._server = PeerCompatibility("the server")
        self._page_size = PageSize()
        self._stops: dict[object, Stop] = {}
        self._filters: dict[object, NotificationFilter] = {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(host.driver(Transport), timeout=options["timeout"])

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("server")

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        self._require_server()
        cursor: Cursor | None = None
        limit = self._page_size.limit
        content = {"subscription": SUBSCRIPTION.render(subscription), "limit": limit}
        try:
            for page in self._pages("snapshot", content):
                cursor = cursor or page.delta.cursor
                yield evolve(page.delta, cursor=cursor, more=page.after is not None)
        except BackendUnavailable:
            self._page_size.shrink()
            raise
        self._page_size.grow()

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        self._require_server()
        content = {"subscription": SUBSCRIPTION.render(subscription), "since": CURSOR.render(since)}
        try:
            return join_pages(page.delta for page in self._pages("changes", content))
        except CursorLost:
            for each in tuple(self._filters.values()):
                each.reset()
            raise

    def report(self, reports: Sequence[Report]) -> ReportResult:
        self._require_server()
        revived = False
        for at in range(0, len(reports), REPORTS_AT_ONCE):
            batch = [REPORT.render(report) for report in reports[at : at + REPORTS_AT_ONCE]]
            revived |= self._call("report", {"reports": batch}).get(REVIVED) is True
        return ReportResult(resync=revived)

    def request(self, request: Request[R]) -> R:
        codec = codec_of(request)
        if codec is None:
            self._call("ask", {"request": type(request).__name__})
            raise BackendBroken(f"the server answered {type(request).__name__}, which it cannot")
        answer = self._call("ask", {"request": codec.name, "about": codec.request.render(request)})
        try:
            return cast(R, read(codec.answer, answer.get("answer"), codec.name))
        except InvalidInput as exc:
            raise BackendBroken(f"the server's answer cannot be read: {exc}") from exc

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        token, listener = object(), NotificationFilter(hint)
        topics = sorted(map(notification_topic, roots(subscription)))
        unsubscribes = [self._transport.subscribe(topic, listener) for topic in topics]

        def stop() -> None:
            self._stops.pop(token, None)
            self._filters.pop(token, None)
            for unsubscribe in unsubscribes:
                unsubscribe()

        self._stops[token], self._filters[token] = stop, listener
        return stop

    def close(self) -> None:
        for stop in tuple(self._stops.values()):
            stop()

    def _require_server(self) -> None:
        reason = self._transport.unreachable_reason(SERVER)
        if reason is not None:
            raise BackendUnavailable(f"the server is away: {reason}")

    def _pages(self, method: str, content: Content) -> Iterator[DeltaPage]:
        after: object = None
        while True:
            page = self._page(method, {**content, "after": after})
            yield page
            after = page.after
            if after is None:
                return

    def _page(self, method: str, content: Content) -> DeltaPage:
        answer = self._call(method, content)
        tracing.follow(tracing.valid_contexts(answer.get(TRACES)))
        try:
            return read_page(answer, self._server)
        except InvalidInput as exc:
            raise BackendBroken(f"the server's answer cannot be read: {exc}") from exc

    def _call(self, method: str, content: Content) -> Content:
        with tracing.inner_span(f"call {method}"):
            if context := tracing.current():
                content = {**content, TRACE: context}
            return self._exchange(method, content)

    def _exchange(self, method: str, content: Content) -> Content:
        message = Message(
            topic=SERVER,
            method=method,
            version=VERSION,
            body=pack(content),
            request_id=request_id.current() or request_id.new(),
        )
        answer = self._transport.call(message, self.timeout)
        check_version(answer.version, "the server")
        try:
            return unpack_answer(answer.body)
        except InvalidInput as exc:
            raise BackendBroken(f"the server's answer cannot be read: {exc}") from exc
