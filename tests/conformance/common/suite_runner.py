"""Runs the tests of a suite on a driver without pytest around each of thousands."""

from __future__ import annotations

import inspect
import itertools
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

from netfw.errors import NetfwError
from netfw.testing.conformance.watch.calls import watched_calls

REFUSING = (AssertionError, NetfwError, pytest.fail.Exception)
"""How a test refuses: by a failed assertion, or by an error of the contract."""
ANY_FAULT = (*REFUSING, LookupError, ValueError, OSError, StopIteration)
"""Also by what a driver must not raise, or by reading what a broken driver did not make."""
Make = Callable[..., Any]
Drivers = Callable[[], AbstractContextManager[Make | None]]
"""For one test: makes drivers, and examines at the end what they left behind."""


@frozen
class Refusal:
    """The tests that refuse a driver.

    ``left``: those after which something was left behind; ``skipped``: those that need a capability
    which the driver does not declare.
    """

    tests: frozenset[str]
    left: frozenset[str]
    skipped: frozenset[str] = field(eq=False, default=frozenset())
    passed: int = field(eq=False, default=0)
    reasons: Mapping[str, str] = field(eq=False, factory=dict)
    """What each refusing test says."""

    @property
    def refusing(self) -> frozenset[str]:
        """The tests that refuse it in either way."""
        return self.tests | self.left


def run_tests(
    suite: object,
    tests: Collection[str],
    drivers: Drivers = nullcontext,
    refusing: tuple[type[BaseException], ...] = REFUSING,
) -> Refusal:
    """Run *tests* of *suite*; an error that is not in *refusing* is raised."""
    refused, left, skipped, passed, reasons = set(), set(), set(), 0, {}
    for name, test, arguments in _calls(suite, tests):
        try:
            with restored_process(), watched_calls(), drivers() as make:
                try:
                    _call(test, arguments, make)
                    passed += 1
                except pytest.skip.Exception:
                    skipped.add(name)
                except refusing as error:
                    refused.add(name)
                    reasons[name] = str(error)
        except (AssertionError, NetfwError) as error:
            left.add(name)
            reasons.setdefault(name, str(error))
    return Refusal(frozenset(refused), frozenset(left), frozenset(skipped), passed, reasons)


@contextmanager
def restored_process() -> Iterator[None]:
    """Give the process back what a broken driver may have changed."""
    umask = os.umask(0o22)
    os.umask(umask)
    directory, level, output = Path.cwd(), logging.getLogger().level, sys.stdout
    handler = signal.getsignal(signal.SIGUSR2)
    try:
        yield
    finally:
        os.umask(umask)
        os.chdir(directory)
        logging.getLogger().setLevel(level)
        sys.stdout = output
        signal.signal(signal.SIGUSR2, handler)


def _calls(
    suite: object, tests: Collection[str]
) -> Iterator[tuple[str, Callable[..., None], dict[str, Any]]]:
    """Yield every test, as often as it has parameters."""
    for name, test in inspect.getmembers(suite, callable):
        if name in tests:
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            choices = [[{mark.args[0]: value} for value in mark.args[1]] for mark in marks]
            for choice in itertools.product(*choices):
                yield name, test, {k: v for arguments in choice for k, v in arguments.items()}


def _call(test: Callable[..., None], arguments: dict[str, Any], make: Make | None) -> None:
    fixtures: dict[str, Any] = {}
    if make is not None:
        fixtures = {"driver": make, "far": lambda: make(1), "make_driver": lambda: make}
    requested = inspect.signature(test).parameters
    given = {name: fixtures[name]() for name in requested if name in fixtures}
    test(**arguments, **given)
