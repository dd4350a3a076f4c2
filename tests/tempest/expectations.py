"""What is expected of a Tempest run: `passing.txt`, and `not_passing.txt` with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

HERE = Path(__file__).parent
PASSING = HERE / "passing.txt"
NOT_PASSING = HERE / "not_passing.txt"
SHORT = HERE / "short.txt"
PASSED = "success"
DID_NOT_RUN = "did not run"

_TEST = re.compile(r"[\w.]+")
_SET_UP = re.compile(r"setUpClass \((?P<class>[\w.]+)\)")
_HEADER = """\
# Tests that do not pass, each with its reason; the run checks that there are no others.
# `python -m tests.tempest.run --update` removes those that pass, and adds others with what Tempest
# says: replace that by the reason.
"""


@frozen
class Outcome:
    """The outcome of a test."""

    status: str
    reason: str = ""
    """The traceback, or why it was skipped."""


@frozen
class Expectations:
    """The tests that must pass, and the reasons of those that do not."""

    passing: frozenset[str]
    not_passing: Mapping[str, str]

    def matching(self, pattern: str) -> Expectations:
        """Return those of the tests that the regular expression *pattern* selects."""
        return Expectations(
            frozenset(name for name in self.passing if re.search(pattern, name)),
            {name: why for name, why in self.not_passing.items() if re.search(pattern, name)},
        )


@frozen
class Differences:
    """How a run differs from the expectations; all but *newly_passing* are errors."""

    failed: Sequence[str]
    """Must pass, and did not."""
    unlisted: Sequence[str]
    """Neither passed nor have a reason."""
    unknown: Sequence[str]
    """Have a reason, and do not exist."""
    newly_passing: Sequence[str]
    """Passed, and are not in the list."""

    @property
    def errors(self) -> int:
        return len(self.failed) + len(self.unlisted) + len(self.unknown)


def read_lines(path: Path) -> dict[str, str]:
    """Return the entries of a file with their comments; lines with a comment alone are skipped."""
    lines = (line.partition("#") for line in path.read_text().splitlines())
    return {entry.strip(): comment.strip() for entry, _, comment in lines if entry.strip()}


def read_expectations() -> Expectations:
    """Read both lists."""
    return Expectations(frozenset(read_lines(PASSING)), read_lines(NOT_PASSING))


def write_expectations(expectations: Expectations) -> None:
    """Write both lists, sorted."""
    PASSING.write_text("".join(f"{name}\n" for name in sorted(expectations.passing)))
    lines = (f"{name}  # {why}\n" for name, why in sorted(expectations.not_passing.items()))
    NOT_PASSING.write_text(_HEADER + "".join(lines))


def parse_outcomes(
    tests: Collection[str], lines: Sequence[Mapping[str, str]]
) -> dict[str, Outcome]:
    """Return the outcome of each of *tests*, and of what failed besides: the end of a class.

    Where the set-up of a class is skipped or fails, its tests do not run: they share its outcome.
    """
    outcomes, classes = dict[str, Outcome](), dict[str, Outcome]()
    for line in lines:
        outcome = Outcome(line["status"], line["output"].strip())
        found = _SET_UP.fullmatch(line["test"])
        if found:
            classes[found["class"]] = outcome
        else:
            outcomes[line["test"]] = outcome
    for test in tests:
        outcomes.setdefault(test, classes.get(test.rpartition(".")[0], Outcome(DID_NOT_RUN)))
    return outcomes


def compare(outcomes: Mapping[str, Outcome], expectations: Expectations) -> Differences:
    """Compare the outcomes of a run with the expectations of its tests."""
    passed = {name for name, outcome in outcomes.items() if outcome.status == PASSED}
    return Differences(
        failed=sorted(expectations.passing - passed),
        unlisted=sorted(
            outcomes.keys() - passed - expectations.passing - expectations.not_passing.keys()
        ),
        unknown=sorted(expectations.not_passing.keys() - outcomes.keys()),
        newly_passing=sorted(passed - expectations.passing),
    )


def updated(
    expectations: Expectations, differences: Differences, outcomes: Mapping[str, Outcome]
) -> Expectations:
    """Return the expectations with what a run showed; the list of passing ones only grows.

    A class that does not clean up remains an error.
    """
    reasons = dict(expectations.not_passing)
    for name in (*differences.newly_passing, *differences.unknown):
        reasons.pop(name, None)
    for name in differences.unlisted:
        if not _TEST.fullmatch(name):
            continue
        lines = outcomes[name].reason.splitlines() or [outcomes[name].status]
        reasons[name] = lines[-1].strip()
    return evolve(
        expectations,
        passing=expectations.passing.union(differences.newly_passing),
        not_passing=reasons,
    )
