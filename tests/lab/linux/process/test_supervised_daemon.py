"""Programs that go into the background by themselves and write their own pid file."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from netfw.errors import OperationRefused
from netfw.linux.process import ProcessExited, ProcessKey, ProcessRespawned, Program, Timeouts
from tests.lab.linux.process.process_observer import running

pytestmark = pytest.mark.spec("DRV-45")

KEY = ProcessKey("dnsmasq", "net-1")


def dnsmasq(pid_file: Path, *more: str, namespace: str | None = None) -> Program:
    return Program(
        argv=("dnsmasq", "--conf-file=/dev/null", "--port=0", "--user=", "--group=",
              "--bind-interfaces", "--interface=lo", f"--pid-file={pid_file}", *more),
        namespace=namespace,
        pid_file=pid_file,
    )  # fmt: skip


@pytest.fixture
def program(supervisor, served) -> Program:
    return dnsmasq(supervisor.pid_path(KEY), namespace=served)


def test_a_daemon_is_known_by_its_own_pid_file(supervisor, program):
    process = supervisor.start(KEY, program)
    assert running(*program.argv) == [process.pid]
    assert int(supervisor.pid_path(KEY).read_text()) == process.pid
    supervisor.stop(KEY)
    assert running(*program.argv) == []


def test_a_daemon_that_dies_is_started_again(supervisor, program, events):
    process = supervisor.start(KEY, program)
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    assert isinstance(again := events.get(timeout=60), ProcessRespawned)
    assert running(*program.argv) == [again.pid]


def test_a_daemon_is_adopted(make_supervisor, program):
    first = make_supervisor()
    process = first.start(KEY, program)
    first.close()
    assert make_supervisor().start(KEY, program).pid == process.pid


def test_a_daemon_that_was_not_recorded_is_found_by_its_pid_file_and_mark(
    make_supervisor, program, tmp_path
):
    first = make_supervisor()
    process = first.start(KEY, program)
    first.close()
    (tmp_path / "pids/dnsmasq/net-1.json").unlink()
    second = make_supervisor()
    assert second.start(KEY, program).pid == process.pid
    assert running(*program.argv) == [process.pid]


def test_a_daemon_that_refuses_its_options_says_why(supervisor, served):
    bad = dnsmasq(supervisor.pid_path(KEY), "--frobnicate", namespace=served)
    with pytest.raises(OperationRefused, match=r"status 1: .*bad command line options"):
        supervisor.start(KEY, bad)
    assert supervisor.present() == frozenset()


def test_a_daemon_that_writes_no_pid_file_is_refused(make_supervisor, tmp_path):
    supervisor = make_supervisor(timeouts=Timeouts(launch=3))
    with pytest.raises(OperationRefused, match="no running process of ours"):
        supervisor.start(KEY, Program(argv=("true",), pid_file=tmp_path / "none"))


def test_a_daemon_that_stays_in_the_foreground_is_refused_and_ended(make_supervisor, tmp_path):
    supervisor = make_supervisor(timeouts=Timeouts(launch=0.3))
    with pytest.raises(OperationRefused, match="did not go into the background"):
        supervisor.start(KEY, Program(argv=("sleep", "1000"), pid_file=tmp_path / "none"))
    assert running("sleep", "1000") == []


@pytest.mark.parametrize("text", ["", "1", "not a pid", "-1", "0"])
def test_a_stale_or_half_written_pid_file_is_not_believed(supervisor, program, text):
    supervisor.pid_path(KEY).parent.mkdir(parents=True)
    supervisor.pid_path(KEY).write_text(text)
    process = supervisor.start(KEY, program)
    assert running(*program.argv) == [process.pid]
