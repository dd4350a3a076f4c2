"""Workers: real processes that share a socket, are begun again, and end with their parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from netfw.cli.runtime import prefork
from netfw.cli.runtime.prefork import PreforkSupervisor, inherited
from netfw.testing.lab.wait import wait_until

WORKER = """
import os, threading
from netfw.cli.runtime.prefork import inherited
mine = inherited()
mine.watch()
while True:
    connection, _ = mine.sockets["api"].accept()
    connection.sendall(f"{mine.number} {os.getpid()}".encode())
    connection.close()
"""
PARENT = f"""
import socket, sys, threading
from netfw.cli.runtime.prefork import PreforkSupervisor
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
workers = PreforkSupervisor([sys.executable, "-c", {WORKER!r}], 1, {{"api": listening}})
workers.run(threading.Event(), grace=5)
"""


def ask(port: int) -> tuple[int, int]:
    """Return the number and the pid of the worker that answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        number, pid = connection.recv(100).decode().split()
    return int(number), int(pid)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def port():
    listening = socket.create_server(("127.0.0.1", 0))
    workers = PreforkSupervisor([sys.executable, "-c", WORKER], 2, {"api": listening})
    stop = threading.Event()
    thread = threading.Thread(target=workers.run, args=(stop,), kwargs={"grace": 5.0})
    thread.start()
    yield listening.getsockname()[1], workers
    stop.set()
    thread.join()
    assert workers.pids() == []
    listening.close()


def test_workers_share_the_socket_and_one_that_is_killed_is_begun_again(port):
    number, workers = port
    wait_until(lambda: len(workers.pids()) == 2)
    before = set(workers.pids())
    _, victim = ask(number)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(workers.pids()) == 2 and victim not in workers.pids())
    assert len(before & set(workers.pids())) == 1
    assert ask(number)[1] in workers.pids()


def test_workers_end_with_a_parent_that_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        _, pid = ask(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        wait_until(lambda: not is_there(pid))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_process_with_an_empty_environment_inherits_nothing():
    assert inherited({}) is None


LIVELY = """
import threading
from netfw.cli.runtime.prefork import inherited
from netfw.cli.runtime.watchdog import Watchdog
mine = inherited()
mine.watch()
with Watchdog(mine, lambda: ""):
    threading.Event().wait()
"""


@pytest.mark.spec("DRV-48")
def test_a_worker_that_hangs_is_killed_and_begun_again() -> None:
    workers = PreforkSupervisor([sys.executable, "-c", LIVELY], 2, {}, silence=10.0)
    stop = threading.Event()
    thread = threading.Thread(target=workers.run, args=(stop,), kwargs={"grace": 5.0})
    thread.start()
    try:
        wait_until(lambda: len(workers.pids()) == 2)
        hanging, healthy = workers.pids()
        wait_until(lambda: all(each.alive_at for each in workers._workers))
        os.kill(hanging, signal.SIGSTOP)
        wait_until(lambda: not is_there(hanging))
        wait_until(lambda: len(workers.pids()) == 2)
        assert healthy in workers.pids()
        wait_until(lambda: all(each.alive_at for each in workers._workers))
        assert healthy in workers.pids()
    finally:
        stop.set()
        thread.join()


def write_script(path, command):
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o700)


def test_worker_that_cannot_start_is_tried_again_and_the_others_stay(tmp_path):
    program = tmp_path / "worker"
    write_script(program, f'exec "{sys.executable}" "$@"')
    listening = socket.create_server(("127.0.0.1", 0))
    workers = PreforkSupervisor([str(program), "-c", WORKER], 2, {"api": listening})
    stop = threading.Event()
    thread = threading.Thread(target=workers.run, args=(stop,), kwargs={"grace": 5.0})
    thread.start()
    try:
        wait_until(lambda: len(workers.pids()) == 2)
        before, port = set(workers.pids()), listening.getsockname()[1]
        serving = {ask(port)[1]}  # a shell reads the file until it is Python
        wait_until(lambda: serving.add(ask(port)[1]) or serving == before)
        victim = serving.pop()
        program.rename(tmp_path / "away")
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: workers._workers[0].failures + workers._workers[1].failures > 2)
        assert set(workers.pids()) == before - {victim}
        (tmp_path / "away").rename(program)
        wait_until(lambda: len(workers.pids()) == 2)
        assert before - {victim} < set(workers.pids())
    finally:
        stop.set()
        thread.join()
        listening.close()


@pytest.mark.parametrize("script", [None, "exit 1"], ids=["refused", "ends"])
def test_supervisor_is_stuck_while_no_worker_can_serve(tmp_path, monkeypatch, script):
    monkeypatch.setattr(prefork, "STUCK_AFTER", 0.5)
    program, working = tmp_path / "worker", tmp_path / "working"
    if script is not None:
        write_script(program, script)
    write_script(working, f'exec "{sys.executable}" "$@"')
    workers = PreforkSupervisor([str(program), "-c", LIVELY], 2, {})
    stop = threading.Event()
    thread = threading.Thread(target=workers.run, args=(stop,), kwargs={"grace": 5.0})
    thread.start()
    try:
        wait_until(lambda: workers.stuck_reason().startswith("no worker has served for"))
        working.rename(program)
        wait_until(lambda: not workers.stuck_reason())
    finally:
        stop.set()
        thread.join()
