"""A real process: its files, its signals, its log."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.testing.lab.wait import TIMEOUT, wait_until

PROGRAM = """
import logging, sys
from oslo_config import cfg
from netfw.cli.runtime.daemon import run

def serve(conf, control):
    control.on_reload = lambda: logging.getLogger("acme").info("told of mode %s", conf.acme.mode)
    print("serving", conf.acme.mode, flush=True)
    while not control.stop.wait(0.01):
        logging.getLogger("acme").debug("mode %s", conf.acme.mode)
    print("stopped", flush=True)

options = {"acme": [cfg.StrOpt("mode", default="a", mutable=True), cfg.IntOpt("size", default=1)]}
sys.exit(run("acme", sys.argv[1:], serve, options))
"""


class Running:
    def __init__(self, directory: Path, text: str) -> None:
        self.conf, self.log = directory / "acme.conf", directory / "acme.log"
        self.write(text)
        argv = [sys.executable, "-c", PROGRAM, "--config-file", str(self.conf)]
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def write(self, text: str) -> None:
        self.conf.write_text(f"[DEFAULT]\nlog_file = {self.log}\n{text}")

    def logged(self, text: str) -> bool:
        return self.log.exists() and text in self.log.read_text()

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    running: list[Running] = []

    def start(text: str) -> Running:
        running.append(Running(tmp_path, text))
        assert running[-1].process.stdout is not None
        assert "serving" in running[-1].process.stdout.readline()
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


@pytest.mark.spec("DRV-14")
def test_hangup_reloads_options_and_log_levels(start: Callable[[str], Running]) -> None:
    acme = start("[acme]\nmode = a\n")
    acme.write("log_levels = acme:debug\n[acme]\nmode = b\nsize = 2\n")
    acme.process.send_signal(signal.SIGHUP)
    wait_until(lambda: acme.logged("acme.size needs a restart to become 2, and stays 1"))
    assert acme.log.read_text().count("acme.size") == 1
    wait_until(lambda: acme.logged("acme.mode is now 'b', was 'a'"))
    wait_until(lambda: acme.logged("DEBUG acme mode b"))
    assert acme.end() == (0, "stopped\n")


@pytest.mark.spec("DRV-14")
def test_a_file_that_cannot_be_read_changes_nothing(start: Callable[[str], Running]) -> None:
    acme = start("[acme]\nmode = a\n")
    acme.write("log_level = loud\n")
    acme.process.send_signal(signal.SIGHUP)
    wait_until(lambda: acme.logged("not reloaded"))
    acme.write("log_levels = acme:loud\n")
    acme.process.send_signal(signal.SIGHUP)
    wait_until(lambda: acme.logged("acme cannot have the level 'loud'"))
    assert acme.end()[0] == 0


@pytest.mark.spec("DRV-14")
def test_changed_options_are_passed_to_the_work(start: Callable[[str], Running]) -> None:
    acme = start("[acme]\nmode = a\n")
    acme.write("[acme]\nmode = b\n")
    acme.process.send_signal(signal.SIGHUP)
    wait_until(lambda: acme.logged("told of mode b"))


def test_a_rotated_log_is_opened_anew(start: Callable[[str], Running]) -> None:
    acme = start("")
    os.rename(acme.log, acme.log.with_suffix(".old"))
    acme.process.send_signal(signal.SIGHUP)
    wait_until(lambda: acme.logged("reloaded"))


def test_unknown_option_is_warned_about(start: Callable[[str], Running]) -> None:
    acme = start("[acme]\ncolour = a\n")
    wait_until(lambda: acme.logged("colour is not an option"))


def test_a_misspelt_option_ends_with_a_sentence_and_status_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.conf"
    bad.write_text("[acme]\nmod = a\n")
    argv = [sys.executable, "-c", PROGRAM, "--config-file", str(bad)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    message = f"acme: {bad}: [acme] mod is not an option, did you mean 'mode'?\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_a_wrong_configuration_ends_with_a_sentence_and_status_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.conf"
    bad.write_text("[DEFAULT]\nlog_level = loud\n")
    argv = [sys.executable, "-c", PROGRAM, "--config-file", str(bad)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("acme: ")
    assert done.stderr.count("acme: ") == 1
    assert "Traceback" not in done.stderr


def test_a_storm_of_signals_neither_hangs_nor_ends_a_process(
    start: Callable[[str], Running],
) -> None:
    acme = start("[acme]\nmode = a\n")
    for _ in range(300):
        for _ in range(3):
            acme.process.send_signal(signal.SIGHUP)
        time.sleep(0.002)
    acme.write("[acme]\nmode = b\n")
    acme.process.send_signal(signal.SIGHUP)
    wait_until(lambda: acme.logged("acme.mode is now 'b', was 'a'"))
    assert acme.end() == (0, "stopped\n")


FAILING = """
import sys
from netfw.cli.runtime.daemon import run

def serve(conf, control):
    def fail():
        raise RuntimeError("no new settings")

    control.on_reload = fail
    control.manager.set_ready()
    print("serving", flush=True)
    control.stop.wait()

sys.exit(run("acme", sys.argv[1:], serve))
"""


@pytest.mark.spec("DRV-48")
def test_a_reload_that_fails_ends_for_the_service_manager_and_the_next_signal_works(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "acme.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT)
        acme = subprocess.Popen(
            [sys.executable, "-c", FAILING, "--config-file", str(conf)],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            received = [manager.recv(4096).decode()]
            acme.send_signal(signal.SIGHUP)
            received += [manager.recv(4096).decode().split()[0], manager.recv(4096).decode()]
            acme.send_signal(signal.SIGTERM)
            received.append(manager.recv(4096).decode())
            _, errors = acme.communicate(timeout=TIMEOUT)
        finally:
            acme.kill()
            acme.wait()
    assert received == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]
    assert acme.returncode == 0
    assert "reload failed: internal error" in errors
    assert "no new settings" in errors
