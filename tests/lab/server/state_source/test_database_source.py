"""The source of the server passes the suite that every source passes, on all databases."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

import pytest
from attrs import evolve
from hypothesis import settings

from netfw.model.resource import ref
from netfw.server.db import Database
from netfw.server.state_source import CommitWatcher, DatabaseSource
from netfw.state.dependencies import reachable
from netfw.state.rpc import CommitFeed, EncodedSource, RemoteSource, StateRpcServer
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.environment import Follower, SourceEnvironment
from netfw.testing.conformance.state_source.reader_steps import write
from netfw.testing.conformance.state_source.suite import StateSourceConformance
from netfw.testing.fakes.transport import FakeBroker
from tests.lab.databases import DatabaseServers
from tests.lab.server.state_source.environment import ABSENT, DatabaseBackend
from tests.nightly import nightly_tests

LONG = bool(os.environ.get("NETFW_LONG"))


class OnADatabase(StateSourceConformance):
    backend: ClassVar[str]
    absent = ABSENT

    @pytest.fixture(autouse=True)
    def _place(self, database_servers: DatabaseServers) -> None:
        self.database_servers = database_servers

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        database = Database(self.database_servers.filled(self.backend))
        backend = DatabaseBackend(database)
        commits = CommitWatcher(database)
        source = DatabaseSource(
            database,
            commits,
            handle_reports=backend.handle_reports,
            handle_request=backend.handle_request,
            page=page,
        )
        assert isinstance(source, EncodedSource)
        assert isinstance(source, CommitFeed)
        try:
            yield SourceEnvironment(source, backend)
        finally:
            source.close()
            commits.close()
            database.close()

    def test_forgetting_beside_writers_and_readers_loses_nothing(self) -> None:
        with self.make_environment(50) as at:
            at.backend.commit(samples.BACKGROUND)
            writers = [threading.Thread(target=write, args=(at, n)) for n in range(2)]
            follower = Follower(at.source, samples.L2_HERE)
            for writer in writers:
                writer.start()
            while any(writer.is_alive() for writer in writers):
                at.backend.forget_history()
                for _ in range(3):
                    follower.step()
            for writer in writers:
                writer.join()
            assert follower.catch_up() == reachable(at.backend.items(), samples.L2_HERE)


@pytest.mark.nightly
@pytest.mark.spec("L3-67", "RPC-02", "RPC-07", "RPC-08")
class TestOnSqlite(OnADatabase):
    backend = "sqlite"
    examples = settings(OnADatabase.examples, max_examples=40 if LONG else 12)


@pytest.mark.spec("L3-67", "RPC-02", "RPC-07", "RPC-08")
class TestOnPostgresql(OnADatabase):
    backend = "postgresql"
    examples = settings(OnADatabase.examples, max_examples=10 if LONG else 4)

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        with super().make_environment(page) as at, ExitStack() as stack:

            def cut() -> None:
                self.database_servers.postgres.kill()
                stack.callback(self.database_servers.postgres.start)

            yield evolve(at, cut=cut)


@pytest.mark.nightly
@pytest.mark.spec("L3-67", "RPC-02", "RPC-07", "RPC-08")
class TestOnMariadb(OnADatabase):
    backend = "mariadb"
    examples = settings(OnADatabase.examples, max_examples=10 if LONG else 4)


@nightly_tests(
    "test_any_history_read_in_any_way_ends_with_what_is_reachable",
    "test_forgetting_beside_writers_and_readers_loses_nothing",
    "test_writers_and_readers_at_the_same_time_agree_in_the_end",
)
@pytest.mark.spec("RPC-02", "RPC-04", "RPC-07")
class TestFromAnotherProcess(OnADatabase):
    """All of it: an agent's source, a transport, the RPC server, the database."""

    backend = "sqlite"
    examples = settings(OnADatabase.examples, max_examples=20 if LONG else 5)

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        with super().make_environment(page) as at:
            wire = FakeBroker()
            rpc_server = StateRpcServer(at.source, wire.transport(), budget=page * 700)
            rpc_server.open()
            source = RemoteSource(wire.transport(), timeout=10)
            try:
                yield SourceEnvironment(source, at.backend)
            finally:
                source.close()
                rpc_server.close()
                wire.close()

    @pytest.mark.spec("L3-04")
    def test_snapshot_has_pages_of_the_size_that_the_agent_requests(self) -> None:
        with self.make_environment(50) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE))
            assert isinstance(at.source, RemoteSource)
            at.source._page_size.limit = 2
            pages = [page.put for page in at.source.snapshot(samples.L2_HERE)]
            assert max(map(len, pages)) == 2
            found = {ref(each): each for page in pages for each in page}
            assert found == reachable(at.backend.items(), samples.L2_HERE)
