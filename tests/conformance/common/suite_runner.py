"""Which tests of a suite refuse a driver; without pytest around each of thousands."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from attrs import field, frozen

from netfw.errors import NetfwError

REFUSING = (AssertionError, NetfwError, pytest.fail.Exception, LookupError, ValueError, OSError)
"""What ends a test: a look at what is not there, and what a driver must not raise, too."""
Make = Callable[..., Any]
Drivers = Callable[[], AbstractContextManager[Make]]
"""For one test: what makes drivers, and looks in the end at what is left of them."""


@frozen
class Refusal:
    """``left``: the tests that found, in the end, that something was left behind."""

    tests: frozenset[str]
    left: frozenset[str]
    passed: int = field(eq=False, default=0)


def refusal_of(suite: object, drivers: Drivers) -> Refusal:
    """How *suite* refuses what *drivers* make."""
    refused, left, passed = set(), set(), 0
    for name, test, arguments in _calls(suite):
        try:
            with drivers() as make:
                try:
                    _call(test, arguments, make)
                    passed += 1
                except pytest.skip.Exception:
                    continue
                except REFUSING:
                    refused.add(name)
        except (AssertionError, NetfwError):
            left.add(name)
    return Refusal(frozenset(refused), frozenset(left), passed)


def _calls(suite: object) -> Iterator[tuple[str, Callable[..., None], dict[str, Any]]]:
    """Every test, as often as it has parameters."""
    for name, test in inspect.getmembers(suite, callable):
        if name.startswith("test_"):
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            choices = [[{mark.args[0]: value} for value in mark.args[1]] for mark in marks]
            for chosen in itertools.product(*choices):
                yield name, test, {k: v for each in chosen for k, v in each.items()}


def _call(test: Callable[..., None], arguments: dict[str, Any], make: Make) -> None:
    asked = inspect.signature(test).parameters
    made = {"driver": make, "far": lambda: make(1), "make_driver": lambda: make}
    given = {name: made[name]() for name in asked if name in made}
    test(**arguments, **given)
