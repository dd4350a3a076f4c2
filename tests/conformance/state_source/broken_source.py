"""State sources that are wrong, each in one way that has happened to somebody.

Each names the tests of the suite that refuse it; the suite must refuse it by exactly those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar
from uuid import uuid4

from attrs import evolve

from netfw.drivers.agent_requests import EnsureDhcpPort
from netfw.drivers.reports import Report, ReportResult, StatusReport
from netfw.drivers.state_source import Cursor, Delta, Hint, Stop
from netfw.drivers.subscription import Service, Subscription
from netfw.errors import CursorLost, NotFound, NotSupported
from netfw.model.common_fields import Status
from netfw.model.ids import PortId
from netfw.model.resource import Ref, ref
from netfw.state.dependencies import Assignment, Item
from netfw.state.memory_source import MemorySource
from netfw.state.store import Key
from tests.conformance.state_source.memory_environment import MemoryWorld

ANY_HISTORY = "test_any_history_read_in_any_way_ends_with_what_is_reachable"


class BrokenSource(MemorySource):
    """A source in memory with one thing wrong."""

    refused_by: ClassVar[frozenset[str]]

    def world(self) -> MemoryWorld:
        return MemoryWorld(self)

    cut: Callable[[], None] | None = None

    def now(self) -> Cursor:
        return next(MemorySource.snapshot(self, Subscription("anywhere", ()))).cursor


class DeliversEverything(BrokenSource):
    """Ignores whom it talks to."""

    refused_by = frozenset(
        {
            "test_a_snapshot_is_everything_that_concerns_the_interest_and_nothing_else",
            "test_a_router_brings_its_legs_networks_and_floating_ips",
            "test_what_is_committed_while_a_snapshot_is_read_is_not_lost",
            "test_the_cursor_of_a_snapshot_is_older_than_its_first_page",
            ANY_HISTORY,
        }
    )

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        *_, last = super().snapshot(subscription)
        yield evolve(last, put=tuple(self.resources().values()))


class TakesItsCursorLate(BrokenSource):
    """Says on each page how far it is then, so that what came while paging is never told."""

    refused_by = frozenset(
        {
            "test_what_is_committed_while_a_snapshot_is_read_is_not_lost",
            "test_the_cursor_of_a_snapshot_is_older_than_its_first_page",
            ANY_HISTORY,
        }
    )

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        for page in super().snapshot(subscription):
            yield evolve(page, cursor=self.now())


class SkipsLateCommits(BrokenSource):
    """Numbers a change when it is begun, and reads by number."""

    refused_by = frozenset({"test_a_commit_that_was_slow_is_not_skipped"})

    def __init__(self, *items: Item, page: int = 500) -> None:
        super().__init__(*items, page=page)
        self.late: dict[Ref, int] = {}

    def world(self) -> MemoryWorld:
        return NumbersEarly(self)

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        delta = super().changes(subscription, since)
        told = (r for r in delta.put if self.late.get(ref(r), since.seq + 1) > since.seq)
        return evolve(delta, put=tuple(told))


class NumbersEarly(MemoryWorld):
    def begin(self, put: Sequence[Item] = ()) -> Callable[[], None]:
        assert isinstance(self.source, SkipsLateCommits)
        late, number = self.source.late, self.source.now().seq

        def finish() -> None:
            late.update({ref(item): number + 1 for item in put})  # type: ignore[arg-type]
            self.source.commit(put)

        return finish


class ForgetsTheClosure(BrokenSource):
    """Tells what changed, and not what became reachable by it."""

    refused_by = frozenset(
        {
            "test_what_is_committed_while_a_snapshot_is_read_is_not_lost",
            "test_the_first_port_of_a_network_brings_all_that_it_refers_to",
            "test_a_new_reference_brings_what_it_leads_to",
            ANY_HISTORY,
        }
    )

    def __init__(self, *items: Item, page: int = 500) -> None:
        self.changed: dict[Ref, int] = {}
        super().__init__(*items, page=page)

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Key] = ()) -> None:
        next_seq = self.now().seq + 1
        self.changed |= {ref(item): next_seq for item in put if not isinstance(item, Assignment)}
        super().commit(put, remove)

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        delta = super().changes(subscription, since)
        direct = (r for r in delta.put if self.changed.get(ref(r), 0) > since.seq)
        return evolve(delta, put=tuple(direct))


class NeverLetsGo(BrokenSource):
    """Drops what was deleted, and keeps what is no longer this host's business."""

    refused_by = frozenset(
        {
            "test_what_is_committed_while_a_snapshot_is_read_is_not_lost",
            "test_what_is_no_longer_reachable_is_dropped",
            "test_members_go_with_the_rule_that_referred_to_them",
            ANY_HISTORY,
        }
    )

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        delta = super().changes(subscription, since)
        return evolve(delta, drop=delta.drop - self.resources().keys())


class RepeatsItself(BrokenSource):
    """Answers from the last commit on, again and again."""

    refused_by = frozenset({"test_nothing_changes_while_nothing_happens"})

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        delta = super().changes(subscription, since)
        if delta.put or delta.drop or not since.seq:
            return delta
        try:
            return super().changes(subscription, evolve(since, seq=since.seq - 1))
        except CursorLost:
            return delta


class NeverEnds(BrokenSource):
    """Always says that there is more."""

    refused_by = frozenset(
        {
            "test_a_router_brings_its_legs_networks_and_floating_ips",
            "test_what_is_committed_while_a_snapshot_is_read_is_not_lost",
            "test_a_commit_that_was_slow_is_not_skipped",
            "test_nothing_changes_while_nothing_happens",
            "test_going_on_with_the_cursor_of_an_answer_comes_to_an_end",
            ANY_HISTORY,
        }
    )

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        return evolve(super().changes(subscription, since), more=True)


class NeverLosesACursor(BrokenSource):
    """Answers that nothing changed when it does not know."""

    refused_by = frozenset(
        {
            "test_a_forgotten_cursor_is_lost",
            "test_a_cursor_from_before_a_restore_is_lost",
            "test_a_cursor_from_the_future_is_lost",
            ANY_HISTORY,
        }
    )

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        try:
            return super().changes(subscription, since)
        except CursorLost:
            return Delta(cursor=self.now())


class KeepsItsEpoch(BrokenSource):
    """After a restore, takes the numbers of the old history for those of the new one."""

    refused_by = frozenset({"test_a_cursor_from_before_a_restore_is_lost", ANY_HISTORY})

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        return super().changes(subscription, evolve(self.now(), seq=since.seq))


class HintsTooEarly(BrokenSource):
    """Hints while the change cannot be read yet, and not again."""

    refused_by = frozenset(
        {
            "test_a_hint_follows_a_commit_and_then_changes_has_it",
            "test_no_hint_comes_after_a_watch_was_stopped",
        }
    )

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Key] = ()) -> None:
        watches, self._watches = self._watches, {}
        for _, hint in watches.values():
            hint()
        super().commit(put, remove)
        self._watches = watches


class GoesOnHinting(BrokenSource):
    """Cannot be told to stop."""

    refused_by = frozenset({"test_no_hint_comes_after_a_watch_was_stopped"})

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        super().watch(subscription, hint)
        return lambda: None


class BelievesReports(BrokenSource):
    """Takes every report as it comes."""

    refused_by = frozenset(
        {
            "test_a_report_of_an_older_revision_is_ignored",
            "test_a_report_of_another_host_is_ignored",
            "test_a_report_on_what_is_gone_is_ignored",
        }
    )

    def __init__(self, *items: Item, page: int = 500) -> None:
        super().__init__(*items, page=page)
        self.believed: dict[tuple[Ref, Service], StatusReport] = {}

    def report(self, reports: Sequence[Report]) -> ReportResult:
        for report in reports:
            if isinstance(report, StatusReport) and self.believes(report):
                self.believed[report.ref, report.service] = report
        return ReportResult()

    def believes(self, report: StatusReport) -> bool:
        return True

    def status(self, target: Ref, service: Service = Service.L2) -> StatusReport | None:
        return self.believed.get((target, service))


class BelievesLateReports(BelievesReports):
    """Looks at who reports, not at what of."""

    refused_by = frozenset({"test_a_report_of_an_older_revision_is_ignored"})

    def believes(self, report: StatusReport) -> bool:
        port = self.resources().get(report.ref)
        return port is not None and port.binding.host == report.host  # type: ignore[union-attr]


class BelievesAnyHost(BelievesReports):
    """Looks at the revision, not at who reports."""

    refused_by = frozenset({"test_a_report_of_another_host_is_ignored"})

    def believes(self, report: StatusReport) -> bool:
        port = self.resources().get(report.ref)
        return port is not None and port.revision == report.revision


class BelievesNobody(BelievesReports):
    """Ignores all reports."""

    refused_by = frozenset({"test_a_report_counts"})

    def believes(self, report: StatusReport) -> bool:
        return report.status is not Status.ACTIVE


class MakesThingsTwice(BrokenSource):
    """Makes a new port for each request."""

    refused_by = frozenset({"test_asking_twice_makes_one_thing"})

    def request(self, request):  # type: ignore[no-untyped-def]
        answer = super().request(request)
        if isinstance(request, EnsureDhcpPort):
            answer = evolve(answer, id=PortId(uuid4()))
            self.put(answer)
        return answer


class TellsEachChangeOnce(BrokenSource):
    """Forgets what somebody has read."""

    refused_by = frozenset(
        {
            "test_nothing_changes_while_nothing_happens",
            "test_agents_do_not_disturb_each_other",
            "test_going_on_with_the_cursor_of_an_answer_comes_to_an_end",
        }
    )

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        delta = super().changes(subscription, since)
        self.forget_history()
        return delta


class MakesPortsOfNowhere(BrokenSource):
    """Does not look whether the network is there."""

    refused_by = frozenset({"test_a_request_that_cannot_be_is_refused"})

    def request(self, request):  # type: ignore[no-untyped-def]
        try:
            return super().request(request)
        except NotFound:
            return None


class AnswersAnything(BrokenSource):
    """Says yes to what it does not understand."""

    refused_by = frozenset({"test_a_request_of_a_kind_it_does_not_know_is_refused"})

    def request(self, request):  # type: ignore[no-untyped-def]
        try:
            return super().request(request)
        except NotSupported:
            return None


class MakesUpAnswers(BrokenSource):
    """Takes a server that does not answer for one that has nothing to say."""

    refused_by = frozenset({"test_a_source_out_of_reach_says_so"})

    def cut(self) -> None:
        self.restore()


BROKEN: tuple[type[BrokenSource], ...] = (
    DeliversEverything,
    TakesItsCursorLate,
    SkipsLateCommits,
    ForgetsTheClosure,
    NeverLetsGo,
    RepeatsItself,
    NeverEnds,
    NeverLosesACursor,
    KeepsItsEpoch,
    HintsTooEarly,
    GoesOnHinting,
    BelievesReports,
    BelievesLateReports,
    BelievesAnyHost,
    BelievesNobody,
    MakesThingsTwice,
    TellsEachChangeOnce,
    MakesPortsOfNowhere,
    AnswersAnything,
    MakesUpAnswers,
)
