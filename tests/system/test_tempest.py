"""A part of Tempest's network API tests; `make tempest` runs all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT
from tests.tempest.expectations import (
    Expectations,
    compare,
    parse_outcomes,
    read_expectations,
    updated,
)

TESTS = ("a.One.test_x", "a.One.test_y", "b.Two.test_z")
LINES = (
    {"test": "a.One.test_x", "status": "success", "output": ""},
    {"test": "a.One.test_y", "status": "fail", "output": "Traceback\nAssertionError: no\n"},
    {"test": "setUpClass (b.Two)", "status": "skip", "output": "evpn extension not enabled."},
)


@pytest.mark.nightly
@pytest.mark.spec("API-16", "API-10")
@pytest.mark.timeout(600)  # the first time Tempest is installed
def test_tempest_still_passes_what_it_passed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tempest.run", "--short"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spec("API-16")
def test_every_test_passes_or_has_one_reason() -> None:
    expectations = read_expectations()
    assert not expectations.passing & expectations.not_passing.keys()
    assert all(expectations.not_passing.values())


def test_a_test_that_neither_passes_nor_has_a_reason_is_an_error() -> None:
    outcomes = parse_outcomes(TESTS, LINES)
    nothing = Expectations(frozenset(), {})
    found = compare(outcomes, nothing)
    assert (found.newly_passing, found.unlisted) == (["a.One.test_x"], list(TESTS[1:]))
    assert found.errors == 2
    now = updated(nothing, found, outcomes)
    assert now.passing == {"a.One.test_x"}
    assert now.not_passing == {
        "a.One.test_y": "AssertionError: no",
        "b.Two.test_z": "evpn extension not enabled.",
    }
    assert compare(outcomes, now).errors == 0


def test_a_test_that_passed_before_and_a_reason_without_a_test_are_errors() -> None:
    outcomes = parse_outcomes(TESTS, LINES)
    expected = Expectations(frozenset(TESTS[:2]), {"b.Two.test_z": "none", "b.Two.gone": "none"})
    found = compare(outcomes, expected)
    assert (found.failed, found.unknown, found.errors) == (["a.One.test_y"], ["b.Two.gone"], 2)
    assert updated(expected, found, outcomes).passing == expected.passing


def test_a_class_that_does_not_clean_up_is_an_error() -> None:
    line = {"test": "tearDownClass (a.One)", "status": "fail", "output": "in use"}
    outcomes = parse_outcomes(TESTS[:1], [LINES[0], line])
    expected = Expectations(frozenset(TESTS[:1]), {})
    found = compare(outcomes, expected)
    assert found.errors == 1
    assert updated(expected, found, outcomes) == expected
