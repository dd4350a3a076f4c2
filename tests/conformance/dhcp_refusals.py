"""Which tests of the DHCP suite refuse a driver; without pytest around each of thousands."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import field, frozen
from imaginary_dhcp import GoodDhcp
from imaginary_dhcp_ground import ImaginaryGround

from netfw.errors import NetfwError
from netfw.testing.conformance.dhcp import DhcpDriverConformance
from netfw.testing.conformance.dhcp_suite import emptied


@frozen
class Refusal:
    """``left``: some test found, in the end, that something was left behind."""

    tests: frozenset[str]
    left: bool
    passed: int = field(eq=False, default=0)


def refusal_of(kind: type[GoodDhcp]) -> Refusal:
    """How the suite refuses *kind*.

    A test refuses by a failed assertion or an error that the contract knows; anything else is a
    defect of the driver or the suite, and is raised.
    """
    suite = DhcpDriverConformance()
    refused, left, passed = set(), False, 0
    for name, test, arguments in _calls(suite):
        ground = ImaginaryGround(kind)
        try:
            with suite.drivers(ground, emptied(ground)) as make:
                try:
                    _call(test, arguments, make)
                    passed += 1
                except pytest.skip.Exception:
                    continue
                except (AssertionError, NetfwError, pytest.fail.Exception):
                    refused.add(name)
        except (AssertionError, NetfwError):
            left = True
    return Refusal(frozenset(refused), left, passed)


def _calls(suite: object) -> Iterator[tuple[str, Callable[..., None], dict[str, Any]]]:
    """Every test, as often as it has parameters."""
    for name, test in inspect.getmembers(suite, callable):
        if name.startswith("test_"):
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            choices = [[{mark.args[0]: value} for value in mark.args[1]] for mark in marks]
            for chosen in itertools.product(*choices):
                yield name, test, {k: v for each in chosen for k, v in each.items()}


def _call(test: Callable[..., None], arguments: dict[str, Any], make: Callable[..., Any]) -> None:
    asked = inspect.signature(test).parameters
    if "driver" in asked:
        arguments = {**arguments, "driver": make()}
    if "make_driver" in asked:
        arguments = {**arguments, "make_driver": make}
    test(**arguments)
