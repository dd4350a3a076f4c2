"""DatabaseSource: the state source of the server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.state_source import Cursor, Delta, Hint, StateSource, Stop
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Report, ReportResult
from netfw.drivers.values.subscription import Subscription
from netfw.errors import ConfigError, CursorLost
from netfw.model.resource import Ref
from netfw.server.db import Database, ReadSnapshot
from netfw.server.db.journal.topics import readers, source, topic
from netfw.server.db.resources.row import value
from netfw.server.state_source import deltas
from netfw.server.state_source.commit_watcher import CommitWatcher
from netfw.state.dependencies import AgentRoot, ResourceRole
from netfw.state.rpc.source_interfaces import EncodedDelta, Tell, position

LOG = logging.getLogger(__name__)
R = TypeVar("R")

ReportHandler = Callable[[Sequence[Report]], ReportResult]
RequestHandler = Callable[[Request[Any]], Any]


class DatabaseSource(StateSource):
    """State of the database, for any number of agents.

    It keeps no state about them: every page and every answer is computed from one snapshot of the
    database, so agents may use any of several servers, one after the other. Their reports and
    requests go to *handle_reports* and *handle_request*, which belong to the plugins.
    """

    VERSION: ClassVar[int] = 2

    def __init__(
        self,
        database: Database,
        commits: CommitWatcher,
        *,
        handle_reports: ReportHandler,
        handle_request: RequestHandler,
        page: int = 500,
    ) -> None:
        self._database, self._commits, self._page = database, commits, page
        self._handle_reports, self._handle_request = handle_reports, handle_request
        self._hint_lock = threading.RLock()
        self._listen_lock = threading.Lock()
        self._hints: dict[str, dict[object, Hint]] = {}
        self._unlisten: Stop | None = None
        self._warned: str | None = None
        """The epoch of which a cursor ahead of the journal was logged."""

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        raise ConfigError("this source is part of the server; agents use the source `server`")

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("database")

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        page = first = self.written_part(subscription)
        yield _read(first)
        while page.more:
            last = max(page.put, key=position)
            page = evolve(self.written_part(subscription, last), cursor=first.cursor)
            yield _read(page)

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        return _read(self.written_changes(subscription, since))

    def written_part(
        self, subscription: Subscription, after: Ref | None = None, limit: int | None = None
    ) -> EncodedDelta:
        """Return a page of a snapshot, behind *after*: :class:`~netfw.state.rpc.EncodedSource`.

        :raises BackendUnavailable: the database does not answer.
        """
        names = sorted(readers(subscription))
        size = self._page if limit is None else min(limit, self._page)
        return self._database.read(lambda view: deltas.snapshot_page(view, names, after, size))

    def written_changes(self, subscription: Subscription, since: Cursor) -> EncodedDelta:
        """Return the encoded ``changes``: :class:`~netfw.state.rpc.EncodedSource`.

        :raises CursorLost: the journal does not reach back to the cursor.
        :raises BackendUnavailable: the database does not answer.
        """
        names = sorted(readers(subscription))
        size, traces = self._page, self._database.traces
        try:
            return self._database.read(
                lambda view: deltas.changes(view, names, since, size, traces)
            )
        except CursorLost:
            self._warn_if_ahead(since)
            raise

    def _warn_if_ahead(self, cursor: Cursor) -> None:
        """Log once per epoch that *cursor* is ahead of the journal, and what to do."""
        newest = self._database.read(lambda view: view.journal.cursor())
        ahead = newest.epoch == cursor.epoch and newest.seq < cursor.seq
        if ahead and self._warned != cursor.epoch:
            self._warned = cursor.epoch
            LOG.warning(
                "state source: the database is older than what agents have read (change %d, the "
                "newest is %d): it was restored; run `netfw-db mark-restored`",
                cursor.seq, newest.seq,
            )  # fmt: skip

    def report(self, reports: Sequence[Report]) -> ReportResult:
        return self._handle_reports(reports)

    def request(self, request: Request[R]) -> R:
        return cast(R, self._handle_request(request))

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        token, names = object(), readers(subscription)
        with self._hint_lock:
            for name in names:
                self._hints.setdefault(name, {})[token] = hint
        with self._listen_lock:  # without the lock of hints: the commit thread waits for it
            if self._unlisten is None:
                self._unlisten = self._commits.listen(self._on_commits)

        def stop() -> None:
            with self._hint_lock:
                for name in names:
                    self._hints.get(name, {}).pop(token, None)
                    if not self._hints.get(name, True):
                        del self._hints[name]

        return stop

    def reaches_any(self, needs: Collection[tuple[AgentRoot, ResourceRole]]) -> bool:
        """Return whether an agent depends on a node:
        :class:`~netfw.state.rpc.ReachabilitySource`.

        :raises BackendUnavailable: the database does not answer.
        """

        def reaches(view: ReadSnapshot) -> bool:
            return any(
                followed.ended is None
                for root, node in needs
                for followed in view.topics.among([topic(node)], [topic(root)])
            )

        return self._database.read(reaches)

    def announce(self, tell: Tell) -> Stop:
        """Announce each commit with the readers it concerns:
        :class:`~netfw.state.rpc.CommitFeed`."""

        def on_commits(cursor: Cursor, concerned: frozenset[str] | None) -> None:
            roots = None if concerned is None else frozenset(map(source, concerned))
            tell(cursor, cast(frozenset[AgentRoot] | None, roots))

        return self._commits.listen(on_commits)

    def close(self) -> None:
        with self._hint_lock:
            self._hints.clear()
        with self._listen_lock:
            if self._unlisten is not None:
                self._unlisten()
                self._unlisten = None

    def _on_commits(self, _: Cursor, concerned: frozenset[str] | None) -> None:
        with self._hint_lock:
            names = self._hints.keys() if concerned is None else self._hints.keys() & concerned
            found = {token: hint for name in names for token, hint in self._hints[name].items()}
            for hint in found.values():
                try:
                    hint()
                except Exception:  # the others are told nonetheless
                    LOG.exception("state source: a hint failed")


def _read(written: EncodedDelta) -> Delta:
    return Delta(
        put=tuple(value(each.kind, body) for each, body in written.put.items()),
        drop=written.drop,
        cursor=written.cursor,
        more=written.more,
    )
