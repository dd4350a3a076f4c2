"""Commits are noticed by one thread for all watchers, whichever process made them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count

import pytest
from attrs import evolve
from sqlalchemy import event, text

from netfw.drivers.state_source import Cursor
from netfw.drivers.values.reports import ReportResult
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import CursorLost
from netfw.model import Binding, Direction, SecurityGroupRule, SecurityGroupRuleId
from netfw.model.resource import ref
from netfw.server.db import Database
from netfw.server.db.journal.journal import Journal, JournalHead, Retention
from netfw.server.db.journal.topics import readers
from netfw.server.state_source import CommitWatcher, DatabaseSource
from netfw.state.dependencies import AgentRoot, reachable
from tests.lab.databases import DatabaseServers
from tests.lab.server.db.samples import group, network, port, uid
from tests.lab.server.db.test_db_subscriptions import INTERESTS, Site

DEADLINE = 60.0


@pytest.fixture
def watch(database: Database) -> Iterator[CommitWatcher]:
    made = CommitWatcher(database)
    yield made
    made.close()


@pytest.fixture
def source(database: Database, watch: CommitWatcher) -> Iterator[DatabaseSource]:
    made = DatabaseSource(
        database, watch, handle_reports=lambda _: ReportResult(), handle_request=lambda _: None
    )
    yield made
    made.close()


@pytest.fixture
def elsewhere(url: str) -> Iterator[Database]:
    """Yield the same database, as another process opens it."""
    made = Database(url)
    yield made
    made.close()


def on(host: str) -> Subscription:
    return Subscription(host, {Service.L2})


def put(database: Database, number: int, host: str) -> None:
    """Commit one port, which concerns *host* alone."""
    new = port(number, binding=Binding(host=host))
    database.transaction(lambda tx: tx.resources.insert(new))


@pytest.mark.spec("RPC-02")
def test_a_commit_of_another_process_is_hinted_within_a_tenth_of_a_second(
    database: Database, elsewhere: Database, source: DatabaseSource
) -> None:
    database.transaction(lambda tx: tx.resources.insert(network()))
    hinted, strangers = threading.Event(), list[None]()
    source.watch(on("h1"), hinted.set)
    source.watch(on("h2"), lambda: strangers.append(None))
    took = []
    for number in range(5, 12):
        put(elsewhere, number, "h1")
        began = time.monotonic()
        assert hinted.wait(DEADLINE)
        took.append(time.monotonic() - began)
        hinted.clear()
    # Each commit but the first follows a look at once, so it waits for a whole period: the quickest
    # says how long that is, the others how busy the machine was.
    assert min(took[1:]) < 0.1
    assert not strangers


@pytest.mark.spec("RPC-02")
def test_a_commit_costs_two_statements_however_many_watch(
    database: Database, watch: CommitWatcher, source: DatabaseSource
) -> None:
    hinted, noticed = threading.Event(), list[Cursor]()
    watch.listen(lambda cursor, _: noticed.append(cursor))
    for number in range(1000):
        source.watch(on(f"h{number}"), lambda: None)
    source.watch(on("h7"), hinted.set)
    database.transaction(lambda tx: tx.resources.insert(network()))
    _wait(lambda: _head(database).cursor in noticed)
    statements: list[str] = []
    event.listen(
        database.reading, "before_cursor_execute", lambda *args: statements.append(args[2])
    )
    put(database, 5, "h7")
    assert hinted.wait(DEADLINE)
    assert len([each for each in statements if each.startswith("SELECT")]) == 2


def test_a_thousand_watchers_cost_next_to_nothing_while_nothing_happens(
    database_servers: DatabaseServers,
) -> None:
    database = Database(database_servers.filled("sqlite"))
    watch = CommitWatcher(database)
    source = DatabaseSource(
        database, watch, handle_reports=lambda _: ReportResult(), handle_request=lambda _: None
    )
    for number in range(1000):
        source.watch(on(f"h{number}"), lambda: None)
    time.sleep(0.2)
    began, used_before = time.monotonic(), time.process_time()
    time.sleep(2.0)
    used = (time.process_time() - used_before) / (time.monotonic() - began)
    source.close()
    watch.close()
    database.close()
    assert used < 0.01


def test_the_longer_nothing_is_committed_the_less_often_it_is_polled(
    database_servers: DatabaseServers,
) -> None:
    database = Database(database_servers.filled("sqlite"))
    statements: list[str] = []
    event.listen(
        database.reading,
        "connect",
        lambda connection, _: connection.set_trace_callback(statements.append),
    )
    watch = CommitWatcher(database, poll=0.005)
    watch.listen(lambda *_: None)
    time.sleep(1.0)
    began = time.monotonic()
    statements.clear()
    time.sleep(1.0)
    polls = [each for each in statements if "journal_head" in each]
    took = time.monotonic() - began
    watch.close()
    database.close()
    assert len(polls) <= took / 0.05 + 1  # after a second, 50 ms lie between two polls


@pytest.mark.spec("RPC-02", "RPC-07")
def test_readers_whose_state_changes_are_hinted(database: Database) -> None:
    site = Site(database, seed=3)
    head = _head(database)
    for _ in range(30):
        before = {each: reachable(tuple(site.items.values()), each) for each in INTERESTS}
        site.step()
        newest = _head(database)
        names = database.read(lambda view, a=head, b=newest: view.journal.concerned(a.seq, b.seq))
        head = newest
        for interest in INTERESTS:
            if reachable(site.items.values(), interest) != before[interest]:
                assert names & readers(interest), interest


def _head(database: Database) -> JournalHead:
    return database.read(lambda view: view.journal.head())


@pytest.mark.spec("RPC-02")
def test_a_restored_database_concerns_all_readers(database: Database, watch: CommitWatcher) -> None:
    published: list[frozenset[str] | None] = []
    noticed = threading.Event()

    def hear(cursor: Cursor, concerned: frozenset[str] | None) -> None:
        published.append(concerned)
        noticed.set()

    watch.listen(hear)
    database.transaction(lambda tx: tx.journal.start_epoch())
    assert noticed.wait(DEADLINE)
    assert published == [None]


def test_a_listener_with_a_defect_does_not_end_the_watch(
    database: Database, watch: CommitWatcher, caplog: pytest.LogCaptureFixture
) -> None:
    def defective(*_: object) -> None:
        raise RuntimeError("a defect")

    other = threading.Event()
    stop = watch.listen(defective)
    database.transaction(lambda tx: tx.resources.insert(network()))
    _wait(lambda: "commit watch: a listener failed" in caplog.text)
    stop()
    watch.listen(lambda *_: other.set())
    put(database, 5, "h1")
    assert other.wait(DEADLINE)


def test_a_stopped_listener_is_not_called(database: Database, watch: CommitWatcher) -> None:
    heard, other = list[Cursor](), threading.Event()
    stop = watch.listen(lambda cursor, _: heard.append(cursor))
    watch.listen(lambda *_: other.set())
    stop()
    database.transaction(lambda tx: tx.resources.insert(network()))
    assert other.wait(DEADLINE)
    assert not heard
    stop()


@pytest.mark.spec("RPC-02")
def test_roots_are_announced(database: Database, source: DatabaseSource) -> None:
    database.transaction(lambda tx: tx.resources.insert(network()))
    found: list[frozenset[AgentRoot] | None] = []
    noticed = threading.Event()
    source.announce(lambda _, concerned: (found.append(concerned), noticed.set()))  # type: ignore
    put(database, 5, "h1")
    assert noticed.wait(DEADLINE)
    assert found == [frozenset({AgentRoot(Service.L2, "h1"), AgentRoot(Service.POPULATION, "h1")})]


def test_commits_during_an_outage_are_hinted_when_it_is_over(
    database_servers: DatabaseServers,
) -> None:
    url = database_servers.filled("postgresql")
    database, elsewhere = Database(url), Database(url)
    watch = CommitWatcher(database)
    hinted = threading.Event()
    watch.listen(lambda *_: hinted.set())
    database_servers.postgres.kill()
    time.sleep(0.3)
    database_servers.postgres.start()
    elsewhere.transaction(lambda tx: tx.resources.insert(network()))
    assert hinted.wait(DEADLINE)
    for each in (watch, database, elsewhere):
        each.close()


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.spec("RPC-02")
def test_what_left_a_group_before_its_rule_went_is_dropped_too(
    database: Database, source: DatabaseSource
) -> None:
    # Nothing that is followed any more says so; the journal does.
    rule = SecurityGroupRule(
        id=SecurityGroupRuleId(uid(60)),
        security_group_id=uid(21),
        direction=Direction.INGRESS,
        remote_group_id=uid(22),
        revision=1,
    )
    here = port(5, binding=Binding(host="h1"), security_groups=frozenset({uid(21)}))
    member = port(6, security_groups=frozenset({uid(22)}), revision=1)
    for each in (network(), group(21), group(22), rule, here, member):
        database.transaction(lambda tx, new=each: tx.resources.insert(new))
    (page,) = source.snapshot(on("h1"))
    assert ref(member) in map(ref, page.put)
    gone = evolve(member, security_groups=frozenset())
    database.transaction(lambda tx: tx.resources.update(member, gone))
    database.transaction(lambda tx: tx.resources.delete(rule))
    assert source.changes(on("h1"), page.cursor).drop == {ref(member), ref(rule)}


@pytest.mark.spec("RPC-02")
def test_old_journal_entries_are_deleted_and_their_cursors_are_lost(
    database: Database, elsewhere: Database
) -> None:
    retention = Retention(commits=3, age=-10.0)
    both = [CommitWatcher(each, retention, tidy=0.05) for each in (database, elsewhere)]
    database.transaction(lambda tx: tx.resources.insert(network()))
    first = _head(database).cursor
    for number in range(5, 13):
        put(database, number, "h1")
    for each in both:
        each.start()
    _wait(lambda: _head(database).oldest == _head(database).seq - 3)
    source = DatabaseSource(
        database, both[0], handle_reports=lambda _: ReportResult(), handle_request=lambda _: None
    )
    with pytest.raises(CursorLost):
        source.changes(on("h1"), first)
    oldest = Cursor(first.epoch, _head(database).oldest)
    assert len(source.changes(on("h1"), oldest).put) >= 3
    for each in both:
        each.close()


def test_a_process_that_forgets_less_takes_nothing_back(database: Database) -> None:
    class Late(Journal):
        """It looked before others forgot."""

        def head(self) -> JournalHead:
            return evolve(super().head(), seq=6, oldest=0)

    database.transaction(lambda tx: tx.resources.insert(network()))
    for number in range(5, 14):
        put(database, number, "h1")
    every = Retention(commits=1, age=-10.0)
    database.transaction(lambda tx: tx.journal.prune(every))
    assert database.transaction(lambda tx: Late(tx.connection).prune(every)) == 0
    assert _head(database).oldest == 9


@pytest.mark.spec("RPC-02")
def test_commit_of_another_process_is_noticed_without_a_poll(
    database_servers: DatabaseServers,
) -> None:
    url = database_servers.filled("postgresql")
    with closing(Database(url)) as database, closing(Database(url)) as elsewhere:
        database.transaction(lambda tx: tx.resources.insert(network()))
        watch = CommitWatcher(database, poll=DEADLINE)
        noticed: list[Cursor] = []
        try:
            watch.listen(lambda cursor, _: noticed.append(cursor))
            for number in range(5, 8):
                put(elsewhere, number, "h1")
                _wait(lambda: _head(elsewhere).cursor in noticed)
        finally:
            watch.close()


def test_notices_of_a_lost_connection_arrive_again(database_servers: DatabaseServers) -> None:
    url = database_servers.filled("postgresql")
    with closing(Database(url)) as database, closing(Database(url)) as elsewhere:
        database.transaction(lambda tx: tx.resources.insert(network()))
        numbers, calls = count(5), list[bool]()
        notices = database.commit_notices(lambda: calls.append(notices.arrive))
        notices.start()

        def notices_arrive() -> bool:
            """Commit, since a commit before it listens sends no notice."""
            put(elsewhere, next(numbers), "h1")
            return notices.arrive

        try:
            _wait(notices_arrive)
            end = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE :q")
            with elsewhere.writing.connect() as connection:
                connection.execute(end, {"q": "LISTEN%"})
            _wait(lambda: not notices.arrive)
            _wait(lambda: not calls[-1])  # it listens again, and announces what it missed
            _wait(notices_arrive)
        finally:
            notices.close()
