"""Desk: where the agents of other processes ask a state source."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from netfw import request_id
from netfw.drivers.agent_requests import Request
from netfw.drivers.reports import Heartbeat, Report
from netfw.drivers.state_source import Cursor, Delta, StateSource, Stop
from netfw.drivers.subscription import Service, Subscription
from netfw.drivers.transport import Caller, Message, Transport
from netfw.errors import InvalidInput, NotSupported, RequestError
from netfw.model.resource import Ref
from netfw.model.wire.codec import Absent
from netfw.state.dependencies import EVERYWHERE, AgentRoot
from netfw.state.rpc.codecs import CURSOR, REF, dialogue, read, read_interest, read_report
from netfw.state.rpc.compat import PeerCompatibility
from netfw.state.rpc.envelope import REVIVED, SERVER, VERSION, Content, check_version, pack, unpack
from netfw.state.rpc.notifications import hint_for
from netfw.state.rpc.paging import BUDGET, write_part, written
from netfw.state.rpc.protocols import CommitFeed, EncodedSource

LOG = logging.getLogger(__name__)

WATCHED = 10_000
"""So many interests are watched at once in a source that does not announce."""

MOST_REPORTS = 5_000
"""Of one message: ten times what an agent sends at once."""

Answer = Callable[[Content, Caller], bytes]


class StateRpcServer:
    """Offers *source* to whoever reaches *transport*.

    It keeps nothing about agents: what they ask for next they say themselves, so it may be another
    process that answers.  Hints go to whom a commit concerns, whether or not somebody listens.
    """

    def __init__(self, source: StateSource, transport: Transport, *, budget: int = BUDGET) -> None:
        self._source, self._transport, self._budget = source, transport, budget
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
        """Answer and hint from now on.

        :raises Conflict: the transport's address is taken.
        """
        if isinstance(self._source, CommitFeed):
            self._stops.append(self._source.announce(self._tell))
        self._stops.append(self._transport.serve(SERVER, self.handle))

    def close(self) -> None:
        """Answer and hint no more; what is being answered is finished first."""
        while self._stops:
            self._stops.pop()()
        with self._watching:
            watched, self._watched = self._watched, {}
        for stop in watched.values():
            stop()

    def handle(self, message: Message, caller: Caller) -> Message:
        """Answer *message*.

        :raises NetfwError: what the caller is to be told instead.
        """
        own_id = request_id.sanitize(message.request_id)
        with request_id.bind(own_id):
            check_version(message.version, f"the agent of {caller.name}")
            method = self._methods.get(message.method)
            if method is None:
                raise NotSupported(f"this server does not know the method {message.method[:64]!r}")
            LOG.debug("%s asks for %s", caller.name, message.method)
            body = method(unpack(message.body), caller)
        return Message(
            topic=message.topic,
            method=message.method,
            version=VERSION,
            body=body,
            request_id=own_id,
        )

    def _snapshot(self, content: Content, caller: Caller) -> bytes:
        interest, after = self._interest(content, caller), _after(content)
        if isinstance(self._source, EncodedSource):
            page = self._source.written_part(interest, after)
            return write_part(page, after, self._budget, goes_on=page.more)
        whole = list(self._source.snapshot(interest))
        put = tuple(each for page in whole for each in page.put)
        return write_part(written(Delta(put=put, cursor=whole[0].cursor)), after, self._budget)

    def _changes(self, content: Content, caller: Caller) -> bytes:
        interest = self._interest(content, caller)
        since: Cursor = read(CURSOR, content.get("since"), "since")
        if isinstance(self._source, EncodedSource):
            delta = self._source.written_changes(interest, since)
        else:
            delta = written(self._source.changes(interest, since))
        return write_part(delta, _after(content), self._budget)

    def _report(self, content: Content, caller: Caller) -> bytes:
        raws = content.get("reports")
        if not isinstance(raws, list):
            raise InvalidInput({"reports": "is not a list"})
        if len(raws) > MOST_REPORTS:
            raise InvalidInput({"reports": f"{len(raws)} are more than {MOST_REPORTS} at once"})
        found = (read_report(raw, self._agents) for raw in raws)
        reports = tuple(each for each in found if each is not None)
        _allow(caller, (_host(each) for each in reports))
        revived = bool(reports) and self._source.report(reports).resync
        return pack({REVIVED: True} if revived else {})

    def _ask(self, content: Content, caller: Caller) -> bytes:
        how = dialogue(content.get("request"))
        request: Request[Any] = read(how.request, content.get("about", {}), how.name)
        _allow(caller, [host for host in [getattr(request, "host", None)] if host is not None])
        answer = how.answer.render(self._source.request(request))
        return pack({} if isinstance(answer, Absent) else {"answer": answer})

    def _interest(self, content: Content, caller: Caller) -> Subscription:
        interest = read_interest(content.get("interest"), self._agents)
        _allow(caller, [interest.host])
        if not isinstance(self._source, CommitFeed):
            self._watch(interest)
        return interest

    def _watch(self, interest: Subscription) -> None:
        """Have whoever asked once be hinted from now on."""
        with self._watching:
            if interest in self._watched or len(self._watched) >= WATCHED or not interest.services:
                return
            root = AgentRoot(min(interest.services), interest.host)
            publish = partial(self._tell, None, frozenset({root}))
            self._watched[interest] = self._source.watch(interest, publish)

    def _tell(self, cursor: Cursor | None, concerned: frozenset[AgentRoot] | None) -> None:
        everybody = (AgentRoot(service, EVERYWHERE) for service in Service)
        for root in everybody if concerned is None else concerned:
            self._transport.publish(hint_for(root, cursor))


def _after(content: Content) -> Ref | None:
    raw = content.get("after")
    return None if raw is None else read(REF, raw, "after")


def _host(report: Report) -> str:
    return report.agent.host if isinstance(report, Heartbeat) else report.host


def _allow(caller: Caller, hosts: Iterable[str] | Sequence[str]) -> None:
    """Have callers whose credentials are those of one host speak for that host alone.

    :raises RequestError: this one speaks for another.
    """
    for host in hosts:
        if caller.host is not None and host != caller.host:
            LOG.warning("%s of host %s speaks for host %s: refused", caller.name, caller.host, host)
            raise RequestError(
                f"{caller.name} may speak for host {caller.host} and not for host {host}"
            )
