"""RemoteSource: the state source that agents have of a server, whatever carries the messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from attrs import evolve
from oslo_config.cfg import FloatOpt

from netfw import request_id
from netfw.drivers.agent_requests import Request
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.reports import Report, ReportResult
from netfw.drivers.state_source import Cursor, Delta, Hint, StateSource, Stop
from netfw.drivers.subscription import Subscription
from netfw.drivers.transport import Message, Transport
from netfw.errors import BackendBroken, InvalidInput
from netfw.state.dependencies import roots
from netfw.state.rpc.codecs import CURSOR, INTEREST, REPORT, dialogue_of, read
from netfw.state.rpc.compat import PeerCompatibility
from netfw.state.rpc.envelope import REVIVED, SERVER, VERSION, Content, check_version, pack, unpack
from netfw.state.rpc.notifications import NotificationFilter, hint_topic
from netfw.state.rpc.paging import DeltaPage, joined, read_part

R = TypeVar("R")

REPORTS_AT_ONCE = 500


class RemoteSource(StateSource):
    """A source that is asked over *transport*, which may be shared with others.

    Each call waits ``timeout`` seconds at most.  Who closes the transport closes it after this.
    """

    VERSION: ClassVar[int] = 1
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
        self._stops: dict[object, Stop] = {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(host.driver(Transport), timeout=options["timeout"])

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("server")

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        cursor: Cursor | None = None
        for part in self._parts("snapshot", {"interest": INTEREST.render(subscription)}):
            cursor = cursor or part.delta.cursor
            yield evolve(part.delta, cursor=cursor, more=part.after is not None)

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        asked = {"interest": INTEREST.render(subscription), "since": CURSOR.render(since)}
        return joined(part.delta for part in self._parts("changes", asked))

    def report(self, reports: Sequence[Report]) -> ReportResult:
        revived = False
        for at in range(0, len(reports), REPORTS_AT_ONCE):
            some = [REPORT.render(each) for each in reports[at : at + REPORTS_AT_ONCE]]
            revived |= self._call("report", {"reports": some}).get(REVIVED) is True
        return ReportResult(resync=revived)

    def request(self, request: Request[R]) -> R:
        how = dialogue_of(request)
        if how is None:
            self._call("ask", {"request": type(request).__name__})
            raise BackendBroken(f"the server answered {type(request).__name__}, which it cannot")
        answer = self._call("ask", {"request": how.name, "about": how.request.render(request)})
        try:
            return cast(R, read(how.answer, answer.get("answer"), how.name))
        except InvalidInput as exc:
            raise BackendBroken(f"the server's answer cannot be read: {exc}") from exc

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        token, listener = object(), NotificationFilter(hint)
        topics = sorted(map(hint_topic, roots(subscription)))
        each = [self._transport.subscribe(topic, listener) for topic in topics]

        def stop() -> None:
            self._stops.pop(token, None)
            for unsubscribe in each:
                unsubscribe()

        self._stops[token] = stop
        return stop

    def close(self) -> None:
        for stop in tuple(self._stops.values()):
            stop()

    def _parts(self, method: str, asked: Content) -> Iterator[DeltaPage]:
        after: object = None
        while True:
            part = self._part(method, {**asked, "after": after})
            yield part
            after = part.after
            if after is None:
                return

    def _part(self, method: str, asked: Content) -> DeltaPage:
        answer = self._call(method, asked)
        try:
            return read_part(answer, self._server)
        except InvalidInput as exc:
            raise BackendBroken(f"the server's answer cannot be read: {exc}") from exc

    def _call(self, method: str, content: Content) -> Content:
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
            return unpack(answer.body)
        except InvalidInput as exc:
            raise BackendBroken(f"the server's answer cannot be read: {exc}") from exc
