"""Trials of drivers in another process: one that ends, hangs or prints disturbs no other."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from attrs import asdict

from netfw.cli.runtime.driver_trial import DriverReport, DriverTrial, OutputReader
from netfw.drivers.base import Driver

DriverKey = tuple[type[Driver], str]
"""Contract and name."""


def try_drivers(keys: Sequence[DriverKey], timeout: float) -> Iterator[DriverReport]:
    """Yield the report of each driver, in order.

    One process tries them all; a driver that ends it, or does not return within *timeout*
    seconds, is reported so, and the rest are tried in a new process.
    """
    rest = list(keys)
    while rest:
        with _TrialProcess(rest) as process:
            for report in process.reports(timeout):
                rest.pop(0)
                yield report


class _TrialProcess:
    """A process, in a session of its own, that tries drivers and sends a report of each."""

    def __init__(self, keys: Sequence[DriverKey]) -> None:
        context = multiprocessing.get_context("spawn")
        self._count = len(keys)
        self._connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(theirs, keys))
        self._process.start()
        theirs.close()

    def reports(self, timeout: float) -> Iterator[DriverReport]:
        """Yield the reports until the process fails; the last one says how."""
        for _ in range(self._count):
            if not self._connection.poll(timeout):
                yield _failure(f"it did not return within {timeout:g} seconds")
                return
            try:
                fields = json.loads(self._connection.recv_bytes())
            except (EOFError, OSError):
                self._process.join(timeout)
                yield _failure(f"it ended the process ({_ending(self._process.exitcode)})")
                return
            yield DriverReport(**fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End the process and those that drivers started: threads of a driver may keep it."""
        pid = self._process.pid
        with suppress(ProcessLookupError, PermissionError):
            if pid is not None and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self._connection.close()


def _failure(why: str) -> DriverReport:
    return DriverReport(
        health=f"a defect of the driver: {why} when it was imported and made", is_usable=False
    )


def _ending(status: int | None) -> str:
    if status is None:
        return "its connection is closed"
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


def _run(connection: Connection, keys: Sequence[DriverKey]) -> None:
    """Send a report of each driver; the body of the process."""
    os.setsid()
    logging.lastResort = None
    warnings.simplefilter("ignore")
    with tempfile.NamedTemporaryFile() as output:
        written = OutputReader(output.file)
        for kind, name in keys:
            _write_to(output.name)
            report = DriverTrial(kind, name, written).run()
            connection.send_bytes(json.dumps(asdict(report), default=str).encode())
    sys.stdout = sys.stderr = None  # nothing is left to flush


def _write_to(path: str) -> None:
    """Let standard output and error append to *path*; a driver may have closed or moved them."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if file > 2:  # else one of them was closed, and this is its descriptor now
        os.close(file)
