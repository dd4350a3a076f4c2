"""netfw-server as a process: workers, signals, probes, logs, and what a crash costs."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.state_source import StateSource
from netfw.drivers.transport import Transport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendBroken
from netfw.state.rpc import RemoteSource
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.server.environment import make_network

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    sandbox.require()


def names(server: PrivateNetfw) -> set[str]:
    _, answer = server.request("GET", "/v2.0/networks")
    return {network["name"] for network in answer["networks"]}


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.spec("ML2-11")
def test_workers_share_the_sockets_and_a_killed_one_is_begun_again(tmp_path: Path) -> None:
    with PrivateNetfw(tmp_path / "server", arguments=["--workers", "2"]) as server:
        wait_until(lambda: len(children(server.pid)) == 2)
        before = children(server.pid)
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: len(set(children(server.pid)) - {before[0]}) == 2)
        wait_until(server.ready)
        for number in range(20):
            assert make_network(server, f"n{number}") == 201
        assert names(server) == {f"n{number}" for number in range(20)}
        _, metrics = server.request("GET", "/metrics")
        line = 'netfw_api_requests_total{collection="networks",method="POST",status="201"}'
        assert f"{line} 20.0" in metrics
    assert all(not Path(f"/proc/{pid}").exists() for pid in before)


def test_what_was_answered_outlives_a_kill_and_what_was_not_is_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    server = PrivateNetfw(tmp_path / "server").start()
    answered: list[str] = []

    def work() -> None:
        number = 0
        while True:
            try:
                if make_network(server, f"n{number}") != 201:
                    return
            except (OSError, HTTPException):
                return
            answered.append(f"n{number}")
            number += 1

    client = threading.Thread(target=work)
    client.start()
    wait_until(lambda: len(answered) >= 10)
    server.kill()
    client.join()
    with server:
        found = names(server)
        assert set(answered) <= found
        assert len(found) <= len(answered) + 1
        _, answer = server.request("GET", "/v2.0/networks")
        numbers = [network["provider:segmentation_id"] for network in answer["networks"]]
        assert len(set(numbers)) == len(numbers)
        assert make_network(server, "after") == 201


def is_writing(server: PrivateNetfw) -> bool:
    """Return whether it holds the lock that a change of its database needs."""
    with closing(sqlite3.connect(server.directory / "netfw.db", timeout=0)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as exc:
            return "locked" in str(exc)
        database.rollback()
        return False


def test_stopping_server_finishes_its_requests(tmp_path: Path) -> None:
    server = PrivateNetfw(tmp_path / "server", {"quotas": {"quota_network": -1}}).start()
    asked, answers = 0, list[int]()
    stopping = threading.Event()

    def ask() -> None:
        """Send one request after another: a busy machine may miss that the first one writes."""
        nonlocal asked
        while not stopping.is_set():
            asked += 1
            many = {"networks": [{"description": str(asked)} for _ in range(200)]}
            with suppress(OSError):  # the server has ended before this one
                answers.append(server.request("POST", "/v2.0/networks", many)[0])

    def is_within_a_request() -> int:
        """Return the number of a request that is under way, or was answered meanwhile; or 0."""
        number = asked
        return number if is_writing(server) else 0

    client = threading.Thread(target=ask)
    client.start()
    begun = wait_until(is_within_a_request, pause=0.001)
    stopping.set()
    assert server.stop() == 0
    client.join()
    with server:
        assert (set(answers), len(answers) >= begun) == ({201}, True)
        pages = [
            server.request("GET", f"/v2.0/networks?description={number}")[1]["networks"]
            for number in range(1, asked + 1)
        ]
        assert [len(page) for page in pages if page] == [200] * len(answers)


def probe(server: PrivateNetfw) -> tuple[int, Any]:
    try:
        return server.request("GET", "/readyz")
    except OSError:
        return 0, None


def test_a_fresh_machine_needs_nothing_but_the_command(tmp_path: Path) -> None:
    state, run = tmp_path / "var" / "netfw", tmp_path / "run" / "netfw"
    state.parent.mkdir()
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"state_path": state},
        "api": {"socket": run / "api.sock"},
        "socket": {"listen": f"unix:{state}/messages.sock"},
    }
    server = PrivateNetfw(tmp_path / "server", options, arguments=["--workers", "2"])
    server.socket = run / "api.sock"
    with server:
        assert make_network(server, "blue") == 201
        modes = {path: path.stat().st_mode & 0o777 for path in (state, run, state / "netfw.db")}
        assert modes == {state: 0o751, run: 0o751, state / "netfw.db": 0o640}
    log = server.log.read_text()
    assert "POST /v2.0/networks: 201 for user" in log
    assert f"agents are served by the transport socket on unix:{state}/messages.sock" in log
    assert "netfw.cli.server.main netfw-server" in log
    assert "__main__" not in log
    assert "alembic" not in log, "migrations are no matter of operators"
    assert list(run.iterdir()) == []
    assert not (state / "messages.sock").exists()


def test_a_client_that_comes_while_a_worker_starts_waits_and_is_served(tmp_path: Path) -> None:
    # A worker that starts must not refuse the clients of those that share its sockets.
    file = tmp_path / "netfw.db"
    options = {"database": {"connection": f"sqlite:///{file}", "lock_timeout": 60}}
    server = PrivateNetfw(tmp_path / "server", options)
    statuses: list[int] = []

    def create_early() -> None:
        wait_until(server.socket.exists)
        statuses.append(make_network(server, "early"))

    with closing(sqlite3.connect(file, isolation_level=None)) as blocker:
        blocker.execute("BEGIN EXCLUSIVE")
        client, starting = (
            threading.Thread(target=create_early),
            threading.Thread(target=server.start),
        )
        client.start()
        starting.start()
        try:
            wait_until(server.socket.exists)
            client.join(3)  # long enough for a server that answers at once
        finally:
            blocker.execute("ROLLBACK")
            starting.join()
    client.join()
    assert server.stop() == 0
    assert statuses == [201]


def test_full_disk_is_named_until_there_is_space(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "none", str(small)], check=True
    )
    filling = small / "filling"
    options = {"database": {"connection": f"sqlite:///{small}/netfw.db"}}
    with PrivateNetfw(tmp_path / "server", options) as server:
        before = names(server)
        with suppress(OSError), filling.open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()

        def is_named() -> bool:
            assert make_network(server, "refused") in (201, 503)
            status, answer = server.request("GET", "/readyz")
            return status == 503 and "the disk of the database is full" in answer["reason"]

        wait_until(is_named)
        assert "the disk of the database is full" in server.log.read_text()
        assert server.request("GET", "/v2.0/networks")[0] == 200
        filling.unlink()
        wait_until(lambda: server.request("GET", "/readyz")[0] == 200)
        assert make_network(server, "made") == 201
        assert names(server) >= {*before, "made"}


def upgrade_database(conf: Path) -> None:
    words = ["netfw.cli.commands.db", "--config-file", str(conf), "upgrade"]
    subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)


def test_probes_say_how_it_is_and_why_not(tmp_path: Path) -> None:
    postgres = PrivatePostgres(tmp_path / "postgres").start()
    try:
        options = {"database": {"connection": postgres.create("netfw"), "lock_timeout": 1}}
        server = PrivateNetfw(tmp_path / "server", options)
        with pytest.raises(BackendBroken, match="netfw-db upgrade"):
            server.start()
        upgrade_database(tmp_path / "server" / "server.conf")
        with server:
            assert server.request("GET", "/healthz")[0] == 200
            postgres.kill()
            status, answer = server.request("GET", "/readyz")
            assert (status, answer["status"]) == (503, "waiting")
            assert answer["reason"]
            status, answer = server.request("GET", "/v2.0/networks")
            assert (status, "NeutronError" in answer) == (503, True)
            assert server.request("GET", "/healthz")[0] == 200
            postgres.start()
            wait_until(server.ready)
            assert make_network(server, "back") == 201
        postgres.kill()
        beginning = threading.Thread(target=server.start)
        beginning.start()
        wait_until(lambda: "does not answer" in str(probe(server)[1]))
        assert probe(server)[0] == 503
        status, answer = server.request("GET", "/v2.0/networks")
        assert (status, answer["NeutronError"]["type"]) == (503, "ServiceUnavailable")
        wait_until(lambda: "waiting for it" in server.log.read_text())
        postgres.start()
        beginning.join()
        assert names(server) == {"back"}
        server.stop()
    finally:
        postgres.stop()


@pytest.mark.parametrize("workers", [nightly("1"), "2"])
def test_health_endpoints_answer_while_the_database_hangs(tmp_path: Path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        url = f"postgresql://netfw:x@127.0.0.1:{silent.getsockname()[1]}/netfw"
        options = {"database": {"connection": url, "lock_timeout": 600, "connect_timeout": 600}}
        server = PrivateNetfw(tmp_path / "server", options, arguments=["--workers", workers])
        server.spawn()
        wait_until(lambda: "has not answered" in str(probe(server)[1]))
        assert probe(server)[0] == 503
        assert server.request("GET", "/healthz")[0] == 200
        assert server.request("GET", "/v2.0/networks")[0] == 503
    assert server.stop() == 0


@pytest.mark.spec("ML2-11", "RPC-01", "RPC-02")
def test_api_and_messages_run_apart_over_one_database(tmp_path: Path) -> None:
    database = {"connection": f"sqlite:///{tmp_path}/netfw.db"}
    api = PrivateNetfw(tmp_path / "api", {"database": database, "server": {"serve": "api"}})
    with api:
        apart = {"database": database, "server": {"serve": "messages"}}
        with PrivateNetfw(tmp_path / "messages", apart) as messages:
            status, answer = messages.request("GET", "/v2.0/networks")
            assert (status, "agents only" in answer["NeutronError"]["message"]) == (404, True)
            with source_on(messages.messages) as source:
                hints: list[bool] = []
                interest = Subscription("host1", {Service.L2})
                cursor = list(source.snapshot(interest))[-1].cursor
                stop = source.watch(interest, lambda: hints.append(True))
                wait_until(lambda: bool(hints))
                hints.clear()
                make_network(api, "blue")
                _, answer = api.request("GET", "/v2.0/networks?name=blue")
                network = answer["networks"][0]["id"]
                port = {"network_id": network, "binding:host_id": "host1"}
                assert api.request("POST", "/v2.0/ports", {"port": port})[0] == 201
                wait_until(lambda: bool(hints))
                changed = source.changes(interest, cursor)
                kinds = sorted(type(each).__name__ for each in changed.put)
                assert kinds[:2] == ["Network", "Port"]
                stop()
        assert "Traceback" not in messages.log.read_text()


@contextmanager
def source_on(path: Path) -> Iterator[StateSource]:
    transport = create(Transport, "socket", {"connect": f"unix:{path}"}, LocalHostResources())
    with closing(transport), closing(RemoteSource(transport)) as source:
        yield source


@pytest.mark.spec("API-09", "API-10")
def test_rules_tokens_and_logging_change_while_it_runs(tmp_path: Path) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text("{}\n")
    log = tmp_path / "log.json"
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"log_format": "json", "log_file": log},
        "policy": {"file": rules},
    }
    with PrivateNetfw(tmp_path / "server", options) as server:
        member = {"X-Roles": "member", "X-Project-Id": "p", "X-User-Id": "u"}
        body = {"network": {"name": "n"}}
        assert server.request("POST", "/v2.0/networks", body, member)[0] == 201
        rules.write_text('create_network: "role:admin"\n')
        server.reload()
        wait_until(lambda: server.request("POST", "/v2.0/networks", body, member)[0] == 403)
        rules.write_text('create_netwrk: "role:admin"\n')
        server.reload()
        wait_until(lambda: "create_netwrk" in log.read_text())
        assert server.request("POST", "/v2.0/networks", body, member)[0] == 403
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {"time", "level", "logger", "message"} <= lines[-1].keys()
