"""Mutations of any driver: each misuses the process in a call that does its work as well.

Only the watch around the calls sees the fault.
"""

from __future__ import annotations

import io
import locale
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import frozen
from oslo_config import cfg

from netfw.drivers.base import Driver
from tests.conformance.common.mutations import Mutations, breaks

Work = Callable[[Any], None]
_kept: list[object] = []
"""What leaking drivers never release."""


@frozen
class Fault:
    """What a driver does beside its work."""

    work: Work
    promise: int
    method: str | None
    """The method that does it; ``None``: the one that does most of the driver's work."""


FAULTS: list[Fault] = []


def fault(promise: int, method: str | None = None) -> Callable[[Work], Work]:
    """Register a fault that breaks *promise* of `Driver`."""

    def register(work: Work) -> Work:
        FAULTS.append(Fault(work, promise, method))
        return work

    return register


def conduct_mutations(method: str) -> Mutations:
    """Return mutations of a driver that misuse the process when *method* is called."""
    made = Mutations()
    for each in FAULTS:
        _register(made, each, method)
    made.replace("show_password", breaks(Driver, 7), OPTIONS=(cfg.StrOpt("api_password"),))
    return made


def _register(made: Mutations, each: Fault, method: str) -> None:
    def faulty(driver, original, *arguments, **named):
        each.work(driver)
        return original(*arguments, **named)

    faulty.__name__ = each.work.__name__
    made.override(each.method or method, breaks(Driver, each.promise))(faulty)


@fault(1, method="describe")
def read_file_in_describe(driver: Any) -> None:
    Path("/proc/self/comm").read_text()


@fault(2, method="problems")
def raise_from_problems(driver: Any) -> None:
    raise RuntimeError("there is no switch")


@fault(3)
def leak_descriptor(driver: Any) -> None:
    _kept.append(Path("/dev/null").open())  # noqa: SIM115


@fault(3)
def leak_thread(driver: Any) -> None:
    threading.Thread(target=threading.Event().wait, args=(5,), daemon=True).start()


@fault(3)
def leave_child_process(driver: Any) -> None:
    """Leave one with an output of its own: what others write is not attributed beside it."""
    nowhere = subprocess.DEVNULL
    _kept.append(subprocess.Popen(["/bin/true"], stdout=nowhere, stderr=nowhere))


@fault(3)
def keep_connection_when_closed(driver: Any) -> None:
    if not hasattr(driver, "socket_pair"):
        driver.socket_pair = socket.socketpair()
        _kept.append(driver.socket_pair)


@fault(4)
def handle_signal(driver: Any) -> None:
    signal.signal(signal.SIGUSR2, lambda *_: None)


@fault(4)
def change_umask(driver: Any) -> None:
    os.umask(0o77)


@fault(4)
def change_environment(driver: Any) -> None:
    os.environ["NETFW_BROKEN_DRIVER"] = str(uuid4())


@fault(4)
def change_directory(driver: Any) -> None:
    os.chdir("/proc")


@fault(4)
def print_progress(driver: Any) -> None:
    print("at work")  # noqa: T201


@fault(4)
def write_to_standard_error(driver: Any) -> None:
    """Write as a child process does that inherits it."""
    os.write(2, b"RTNETLINK answers: File exists\n")


@fault(4)
def configure_root_logger(driver: Any) -> None:
    logging.getLogger().setLevel(logging.getLogger().level + 1)


@fault(4)
def replace_standard_output(driver: Any) -> None:
    sys.stdout = io.StringIO()


@fault(4)
def set_locale(driver: Any) -> None:
    now = locale.setlocale(locale.LC_NUMERIC)
    locale.setlocale(locale.LC_NUMERIC, "C" if now != "C" else "C.UTF-8")


@fault(5)
def sleep_for_half_a_minute(driver: Any) -> None:
    time.sleep(30)


@fault(6)
def keep_state_in_class(driver: Any) -> None:
    type(driver).latest = driver
