"""Run the conformance suites of an installed distribution in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distribution,
    entry_points,
)
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.registry.entry_names import SUITES_GROUP, group_problem
from netfw.drivers.registry.loader import all_contracts, load
from netfw.errors import ConfigError, DriverError, NetfwError
from netfw.testing import conformance
from netfw.testing.conformance.common.host_driver import MissingHooks, missing_hooks
from netfw.testing.promise_report import recorder
from netfw.testing.promise_report.evaluation import PromiseRow, PromiseState, TestResult, evaluate
from netfw.testing.promise_report.sentences import stated_promises, watched_promises

_RAN: Final = {0, 1, 5}
"""Exit statuses of pytest: all passed, some failed, none collected."""
_COUNT_INTERVAL: Final = 0.5
OnCount = Callable[[int], None]


@frozen
class RegisteredDriver:
    """An entry point of a contract's group in the examined distribution."""

    contract: type[Driver]
    point: EntryPoint

    def __str__(self) -> str:
        return f"{self.contract.__name__} {self.point.name}"


def examine(
    package: str,
    tests: Sequence[Path],
    *,
    is_sandboxed: bool,
    quiet: bool,
    on_count: OnCount | None = None,
) -> list[PromiseRow]:
    """Run the suites of all drivers of *package*; return a row for every promise.

    *on_count* is called with the number of tests that have ended, about twice a second.

    :raises ConfigError: *package* is not installed or has no drivers.
    :raises NetfwError: the suites could not be run.
    """
    found = _distribution(package)
    drivers = registered_drivers(found)
    if not drivers:
        raise ConfigError(f"{package} registers no driver: {_why_none(found)}")
    modules = [point.module for point in found.entry_points if point.group == SUITES_GROUP]
    if missing := [str(path) for path in tests if not path.exists()]:
        raise ConfigError(f"there is no {', '.join(missing)}")
    chosen = [str(path) for path in tests] or _existing(modules)
    results: list[TestResult] = []
    refusal = ""
    if chosen:
        try:
            results = run_suites(chosen, is_sandboxed=is_sandboxed, quiet=quiet, on_count=on_count)
        except MissingHooks as exc:
            refusal = str(exc)
    return [row for driver in drivers for row in _rows(driver, results, refusal)]


def _existing(modules: Sequence[str]) -> Sequence[str]:
    """Return *modules*; pytest reports those that cannot be imported.

    :raises NetfwError: there is no such module.
    """
    for module in modules:
        if _is_missing(module):
            raise NetfwError(
                f"the suites cannot be collected: there is no module {module}, which the package "
                f"registers in the entry-point group {SUITES_GROUP}"
            )
    return modules


def _is_missing(module: str) -> bool:
    try:
        return find_spec(module) is None
    except ModuleNotFoundError as exc:  # its package is missing, or something that this imports
        return f"{module}.".startswith(f"{exc.name}.")
    except (Exception, SystemExit):  # noqa: BLE001 - pytest reports it
        return False


def registered_drivers(found: Distribution) -> list[RegisteredDriver]:
    """Return the drivers that *found* registers."""
    contracts = {contract.GROUP: contract for contract in all_contracts()}
    return [
        RegisteredDriver(contracts[point.group], point)
        for point in sorted(found.entry_points)
        if point.group in contracts
    ]


def _why_none(found: Distribution) -> str:
    """Return why *found* registers no driver; names groups that are misspelt."""
    groups = [contract.GROUP for contract in all_contracts()]
    problems = [group_problem(point.group, groups) for point in found.entry_points]
    named = "; ".join(dict.fromkeys(problem for problem in problems if problem))
    return named or "none of its entry points is in a group of netfw"


def run_suites(
    chosen: Sequence[str], *, is_sandboxed: bool, quiet: bool, on_count: OnCount | None = None
) -> list[TestResult]:
    """Run *chosen* modules or paths by pytest and return the results of all tests.

    :raises MissingHooks: a suite does not override all hooks, and no test was run.
    :raises NetfwError: a module cannot be imported, or pytest failed.
    """
    with tempfile.TemporaryDirectory(prefix="netfw-conformance-") as directory:
        record = Path(directory, "results")
        argv = [
            *(sys.executable, "-m", "pytest", "-p", recorder.__name__, recorder.OPTION, record),
            *("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", directory, "-q"),
            *(["--sandbox"] if is_sandboxed else []),
            *("--pyargs", *chosen),
        ]
        with subprocess.Popen(
            [str(word) for word in argv],
            stdout=subprocess.PIPE if quiet else sys.stderr.fileno(),
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            output = _wait(process, record, on_count if quiet else None)
        lines = record.read_text().splitlines() if record.exists() else []
    records = [json.loads(line) for line in lines]
    if errors := [each["error"] for each in records if "error" in each]:
        raise NetfwError(f"the suites cannot be collected: {'; '.join(errors)}")
    if missing := [each["missing"] for each in records if "missing" in each]:
        raise MissingHooks("; ".join(missing))
    if process.returncode not in _RAN:
        tail = "\n".join(output.splitlines()[-10:])
        raise NetfwError(f"pytest ended with status {process.returncode}:\n{tail}")
    return [TestResult.parse(each) for each in records]


def _wait(process: subprocess.Popen[str], record: Path, on_count: OnCount | None) -> str:
    """Wait for the end of *process* and return its output; kill it if that is interrupted."""
    try:
        while True:
            try:
                return process.communicate(timeout=_COUNT_INTERVAL if on_count else None)[0] or ""
            except subprocess.TimeoutExpired:
                if on_count and record.exists():
                    on_count(record.read_bytes().count(b"\n"))
    except BaseException:
        process.kill()
        raise


def _distribution(package: str) -> Distribution:
    try:
        return distribution(package)
    except (PackageNotFoundError, ValueError) as exc:
        if names := _packages_with_driver(package):
            text = f"{package!r} is a driver of the package {' and of '.join(names)}"
            raise ConfigError(f"{text}: name the package") from exc
        raise ConfigError(
            f"no distribution {package!r} is installed here; pip install it first"
        ) from exc


def _packages_with_driver(name: str) -> list[str]:
    """Return the names of the distributions that register a driver called *name*."""
    groups = {contract.GROUP for contract in all_contracts()}
    found = {p.dist.name for p in entry_points(name=name) if p.group in groups and p.dist}
    return sorted(found)


def _rows(
    driver: RegisteredDriver, results: Sequence[TestResult], refusal: str
) -> list[PromiseRow]:
    """Return the rows of *driver*; *refusal* is why there are no results."""
    try:
        loaded = load(driver.contract, driver.point.name)
    except DriverError as exc:
        return [_loader_row(driver, PromiseState.BROKEN, str(exc))]
    name = driver.contract.__name__
    own = [each for each in results if each.is_about(name)]
    promises = stated_promises(loaded, driver.contract)
    rows = evaluate(str(driver), promises, own, watched_promises())
    if not own:
        reason = refusal or _missing_suite(driver.contract)
        return [_loader_row(driver, PromiseState.NOT_TRIED, reason)]
    return [_loader_row(driver, PromiseState.KEPT, ""), *rows]


def _loader_row(driver: RegisteredDriver, state: PromiseState, reason: str) -> PromiseRow:
    return PromiseRow(
        driver=str(driver),
        promise="Driver",
        sentence="The loader accepts the class, and the suite of its contract is run.",
        state=state,
        reason=reason,
        is_incomplete=state is PromiseState.NOT_TRIED,
    )


def _missing_suite(contract: type[Driver]) -> str:
    """Return what the vendor has to write."""
    name = f"{contract.__name__}Conformance"
    suite = getattr(conformance, name)
    made = [each for each in ("make_environment", "shared_environment") if hasattr(suite, each)]
    hooks = ", ".join(missing_hooks(suite) or made)
    return (
        f"the package has no subclass of {name} with the hooks {hooks}: write one, and register "
        f"its module in the entry-point group {SUITES_GROUP}, or name its file with --tests"
    )
