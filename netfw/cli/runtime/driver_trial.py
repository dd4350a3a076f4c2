"""The trial of a driver: it is made with its default options, described and closed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.registry.class_warnings import (
    capability_warnings,
    class_warnings,
    description_warnings,
)
from netfw.drivers.registry.error_location import location_in, top_package
from netfw.drivers.registry.loader import all_contracts, create, load
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.registry.process_state import GlobalState, ProcessResources
from netfw.errors import DriverError, NetfwError

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

STAND_INS: Final[Mapping[str, str]] = {"InterfaceDriver": "null", "Transport": "socket"}
"""Drivers without needs of their own, for drivers that need one of the contract."""
HIDDEN: Final = "***"
"""Instead of the default of a secret."""
SLOW: Final = 3.0
"""Seconds; the imports of netfw's own drivers take less than one."""
SCHEDULER_STATISTICS: Final = Path("/proc/thread-self/schedstat")
LONGEST_OUTPUT: Final = 60
"""Characters of a driver's output that a warning shows."""


@frozen(kw_only=True)
class DriverReport:
    """The result of a trial."""

    health: str
    is_usable: bool = True
    """False: the loader refuses the driver."""
    capabilities: Sequence[str] = ()
    warnings: Sequence[str] = ()
    """What is suspicious: probably a mistake of the author."""
    about: str = ""
    options: Sequence[Mapping[str, Any]] = ()


class OutputReader:
    """What was written to a file since it was read last."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self) -> str:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a driver may have closed or replaced it
                stream.flush()
        written = self._file.read()
        return written.decode(errors="replace").strip()


class DriverTrial:
    """The trial of one driver.  A defect of the driver, whatever it raises, is its health."""

    def __init__(self, kind: type[Driver], name: str, output: OutputReader) -> None:
        self._kind, self._name, self._output = kind, name, output
        self._package = ""
        self._health: list[str] = []
        self._is_usable = False
        self._warnings: list[str] = []
        self._capabilities: list[str] = []

    def run(self) -> DriverReport:
        """Import the driver, make it with its default options, and report what it says."""
        try:
            with self._watched("its import"):
                driver = load(self._kind, self._name)
        except DriverError as exc:
            return DriverReport(health=str(exc), is_usable=False, warnings=self._warnings)
        self._package = top_package(driver.__module__)
        self._warnings += class_warnings(self._kind, self._name, driver)
        before = ProcessResources.read()
        with self._defects(""), ExitStack() as stack:
            self._make(stack)
        left = before.acquired(ProcessResources.read())
        self._warnings += [f"after close: it {each} and leaves them" for each in left]
        return DriverReport(
            health="; ".join(self._health) or "ok",
            is_usable=self._is_usable,
            capabilities=self._capabilities,
            warnings=self._warnings,
            about=(driver.__doc__ or "").strip().partition("\n")[0],
            options=[_describe_option(option) for option in driver.OPTIONS],
        )

    def _make(self, stack: ExitStack) -> None:
        host = stack.enter_context(LocalHostResources())
        _lend(host, self._kind, stack)
        try:
            with self._watched("from_conf or describe"):
                driver = create(self._kind, self._name, {}, host)
        except DriverError as exc:
            self._health.append(str(exc))
            return
        except NetfwError as exc:
            self._health.append(f"needs configuration: {exc}")
            self._is_usable = True
            return
        self._is_usable = True
        stack.callback(self._close, driver)
        with self._defects("describe"):
            self._capabilities += sorted(str(each) for each in driver.describe().capabilities)
            self._warnings += description_warnings(self._name, driver)
            self._warnings += capability_warnings(driver)
        with self._defects("problems"), self._output_of("problems"):
            problems: object = driver.problems()
            if isinstance(problems, tuple):
                self._health += [str(problem) for problem in problems]
            else:
                wrong = f"problems returned {problems!r}, which is no tuple of texts"
                self._health.append(f"a defect of the driver: {wrong}")

    def _close(self, driver: Driver) -> None:
        with self._defects("close"), self._output_of("close"):
            driver.close()

    @contextmanager
    def _defects(self, method: str) -> Iterator[None]:
        """Turn what a driver raises, `SystemExit` included, into a sentence of its health."""
        try:
            yield
        except BaseException as exc:  # noqa: BLE001 - one bad driver does not hide the others
            raised = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
            where = f"{method} raises " if method else ""
            raised += location_in(self._package, exc)
            self._health.append(f"a defect of the driver: {where}{raised}")

    @contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        """Warn of what the process has got meanwhile, and of a long time."""
        state, resources, start = GlobalState.read(), ProcessResources.read(), own_time()
        with self._output_of(what):
            yield
        seconds = own_time() - start
        changes = [
            *state.changes(GlobalState.read()),
            *resources.changes(ProcessResources.read()),
        ]
        self._warnings += [f"{what} {change}" for change in changes]
        if seconds > SLOW:
            self._warnings.append(f"{what} takes {seconds:.1f} seconds")

    @contextmanager
    def _output_of(self, what: str) -> Iterator[None]:
        self._output.read()
        try:
            yield
        finally:
            if text := self._output.read():
                self._warnings.append(f"{what} prints {text[:LONGEST_OUTPUT]!r}")


def own_time() -> float:
    """Return a time in seconds that stops while this thread waits for a core of a busy machine."""
    try:
        waited = int(SCHEDULER_STATISTICS.read_text().split()[1])  # nanoseconds
    except (OSError, ValueError, IndexError):  # a kernel without these statistics
        waited = 0
    return time.monotonic() - waited / 1e9


def _lend(host: LocalHostResources, kind: type[Driver], stack: ExitStack) -> None:
    """Register drivers that work on any machine, for drivers that need one."""
    for contract in all_contracts():
        name = STAND_INS.get(contract.__name__)
        if name is None or contract is kind:
            continue
        with suppress(NetfwError):
            driver = create(contract, name, {}, host)
            stack.callback(driver.close)
            host.add(driver)


def _describe_option(option: Opt) -> dict[str, Any]:
    return {
        "name": option.dest,
        "type": str(option.type),
        "default": HIDDEN if option.secret and option.default else option.default,
        "help": option.help or "",
    }
