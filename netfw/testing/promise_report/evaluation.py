"""Decide which promises are kept, from the recorded results of tests."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from netfw.testing.promise_report.sentences import StatedPromise


class PromiseState(enum.StrEnum):
    """The state of a promise after the tests."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@frozen(kw_only=True)
class TestResult:
    """The result of one test."""

    __test__ = False

    bases: frozenset[str]
    contracts: frozenset[str]
    test: str
    proves: frozenset[tuple[str, str]]
    outcome: str
    """``passed``, ``failed``, ``skipped`` or ``error``: its environment or a hook is wrong."""
    reason: str
    untried: Mapping[str, str] = field(factory=dict)
    """Contracts whose promises the test does not prove if it passes, each with the reason."""

    @classmethod
    def parse(cls, record: dict[str, Any]) -> TestResult:
        """Read a line of the recorder."""
        return cls(
            bases=frozenset(record["bases"]),
            contracts=frozenset(record["contracts"]),
            test=record["test"],
            proves=frozenset((where, what) for where, what in record["proves"]),
            outcome=record["outcome"],
            reason=record["reason"],
            untried=record["untried"],
        )

    def is_about(self, contract: str) -> bool:
        """Return whether its class is a suite of *contract*, or a part of one."""
        return f"{contract}Conformance" in self.bases or contract in self.contracts


@frozen(kw_only=True)
class PromiseRow:
    """A promise, its state and the reason; a failed test without a promise is a row, too."""

    driver: str
    promise: str
    sentence: str
    state: PromiseState
    reason: str = ""
    is_incomplete: bool = field(default=False)
    """It was not tried because of a fault, not because of a missing capability."""


def evaluate(
    driver: str,
    promises: Sequence[StatedPromise],
    results: Sequence[TestResult],
    watched: Sequence[StatedPromise] = (),
) -> list[PromiseRow]:
    """Return a row for every promise, and for each test that failed and proves none of them.

    A promise of *watched* has a row if the reason of a failed test names it.
    """
    rows = [row for stated in watched for row in _watched_rows(driver, stated, results)]
    rows += [_row(driver, stated, results) for stated in promises]
    known = {(stated.promise.where, stated.promise.what) for stated in promises}
    for each in results:
        is_named = any(_is_named(stated, each) for stated in watched)
        is_new = each.outcome == "error" and each.reason not in {row.reason for row in rows}
        if (is_new or each.outcome == "failed") and not each.proves & known and not is_named:
            rows.append(_test_row(driver, each))
    return rows


def _test_row(driver: str, result: TestResult) -> PromiseRow:
    """Return the row of a test that proves no promise, and failed or could not be run."""
    is_error = result.outcome == "error"
    return PromiseRow(
        driver=driver,
        promise="-",
        sentence=result.test.removeprefix("test_").replace("_", " "),
        state=PromiseState.NOT_TRIED if is_error else PromiseState.BROKEN,
        reason=result.reason,
        is_incomplete=is_error,
    )


def _watched_rows(
    driver: str, stated: StatedPromise, results: Iterable[TestResult]
) -> Iterator[PromiseRow]:
    for each in results:
        if each.outcome == "failed" and _is_named(stated, each):
            yield PromiseRow(
                driver=driver,
                promise=str(stated.promise),
                sentence=stated.sentence,
                state=PromiseState.BROKEN,
                reason=f"{each.test}: {each.reason}",
            )
            return


def _is_named(stated: StatedPromise, result: TestResult) -> bool:
    """Return whether the reason of *result* is that promise: ``promise 4 of Driver: ...``."""
    name = f"promise {stated.promise.what} of {stated.promise.where}"
    return re.search(rf"\b{re.escape(name)}\b", result.reason) is not None


def _row(driver: str, stated: StatedPromise, results: Iterable[TestResult]) -> PromiseRow:
    name = (stated.promise.where, stated.promise.what)
    proofs = [_proof(each, stated) for each in results if name in each.proves]
    by_outcome = {each.outcome: each for each in reversed(proofs)}
    state, reason, incomplete = PromiseState.NOT_TRIED, "the suite has no test of it", False
    if failed := by_outcome.get("failed"):
        state, reason = PromiseState.BROKEN, f"{failed.test}: {failed.reason}"
    elif error := by_outcome.get("error"):
        reason, incomplete = error.reason, True
    elif "passed" in by_outcome:
        state, reason = PromiseState.KEPT, ""
    elif skipped := by_outcome.get("skipped"):
        reason = skipped.reason
    return PromiseRow(
        driver=driver,
        promise=str(stated.promise),
        sentence=stated.sentence,
        state=state,
        reason=reason,
        is_incomplete=incomplete,
    )


def _proof(result: TestResult, stated: StatedPromise) -> TestResult:
    """Return *result* as skipped if it passed without trying the promise."""
    reason = result.untried.get(stated.promise.where.partition(".")[0])
    if reason is None or result.outcome != "passed":
        return result
    return evolve(result, outcome="skipped", reason=reason)
