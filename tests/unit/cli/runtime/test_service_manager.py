"""What a service manager gets to know of a daemon, on a real socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.cli.runtime.service_manager import (
    SOCKET,
    WATCHDOG,
    WATCHDOG_PROCESS,
    SdNotifier,
)
from netfw.cli.runtime.watchdog import Watchdog
from netfw.testing.lab.wait import TIMEOUT


class Manager:
    """A socket that a service manager listens on."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.setblocking(False)

    def received(self) -> list[list[str]]:
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode().splitlines())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    path = str(tmp_path / "notify")
    found = Manager(path if request.param == "path" else f"@{path}")
    yield found
    found.close()


@pytest.mark.spec("DRV-48")
def test_life_of_a_daemon_is_reported(manager: Manager) -> None:
    service = SdNotifier(manager.address)
    service.set_ready()
    service.set_status("ready")
    service.set_status("ready")
    service.begin_reload()
    service.end_reload()
    service.stop()
    ready, status, reload, reloaded, stopped = manager.received()
    assert ready == reloaded == ["READY=1"]
    assert status == ["STATUS=ready"]
    assert reload[0] == "RELOADING=1"
    assert reload[1].startswith("MONOTONIC_USEC=")
    assert stopped == ["STOPPING=1"]


def test_a_reload_before_the_start_is_no_start(manager: Manager) -> None:
    service = SdNotifier(manager.address)
    service.begin_reload()
    service.end_reload()
    assert [each[0] for each in manager.received()] == ["RELOADING=1"]


def test_a_status_is_one_line_of_limited_length(manager: Manager) -> None:
    SdNotifier(manager.address).set_status("one\nREADY=1 " + "x" * 9999)
    (lines,) = manager.received()
    assert lines[0].startswith("STATUS=one READY=1 xxx")
    assert (len(lines), len(lines[0])) == (1, 207)


def test_children_do_not_inherit_the_manager(manager: Manager) -> None:
    environ = {SOCKET: manager.address}
    SdNotifier.from_environment(environ).set_ready()
    assert environ == {}
    assert manager.received() == [["READY=1"]]


@pytest.mark.spec("DRV-48")
def test_watchdog_is_of_the_process_that_the_manager_names() -> None:
    own, other = str(os.getpid()), "1"
    environ = {WATCHDOG: "300000000", WATCHDOG_PROCESS: own}
    assert SdNotifier.from_environment(environ).watchdog == 300
    assert environ == {}
    assert SdNotifier.from_environment({WATCHDOG: "500000"}).watchdog == 0.5
    for unwatched in ({}, {WATCHDOG: "0"}, {WATCHDOG: "x"}, {**environ, WATCHDOG_PROCESS: other}):
        assert SdNotifier.from_environment(dict(unwatched)).watchdog is None
    foreign = {WATCHDOG: "300000000", WATCHDOG_PROCESS: other}
    assert SdNotifier.from_environment(foreign).watchdog is None


@pytest.mark.spec("DRV-48")
def test_signs_of_life_end_when_the_work_is_stuck(manager: Manager) -> None:
    reasons: Iterator[str] = iter(["", "", *["a turn of the loop takes 301 s"] * 3, ""])
    ended = threading.Event()

    def stuck_reason() -> str:
        reason = next(reasons, None)
        if reason is None:
            ended.set()
        return "it is over" if reason is None else reason

    with Watchdog(SdNotifier(manager.address, 0.2), stuck_reason):
        assert ended.wait(TIMEOUT)
    assert manager.received() == [["WATCHDOG=1"]] * 3


def test_a_daemon_that_is_not_watched_has_no_thread_for_it(manager: Manager) -> None:
    with Watchdog(SdNotifier(manager.address), lambda: ""):
        assert "watchdog" not in {each.name for each in threading.enumerate()}


@pytest.mark.parametrize("address", [None, "", "/no/such/socket"])
def test_a_daemon_runs_without_a_manager(address: str | None) -> None:
    service = SdNotifier(address)
    service.set_ready()
    service.set_status("x")
    service.stop()


def test_a_manager_that_does_not_read_stops_no_daemon(manager: Manager) -> None:
    service = SdNotifier(manager.address)
    for number in range(5000):
        service.set_status(f"{number} " + "x" * 190)
    assert manager.received()


def test_status_of_any_text_is_one_line(manager: Manager) -> None:
    service = SdNotifier(manager.address)
    service.set_status("no device\nMAINPID=1\x0bREADY=1")
    service.set_status("no file \udcff")  # a name on disk that is not UTF-8
    assert manager.received() == [
        ["STATUS=no device MAINPID=1 READY=1"],
        ["STATUS=no file ?"],
    ]
