"""Rows of promises from the results of tests."""

from __future__ import annotations

from attrs import evolve

from netfw.drivers.host_driver import HostDriver
from netfw.testing.promise_report.evaluation import PromiseState, TestResult, evaluate
from netfw.testing.promise_report.sentences import stated_promises, watched_promises


def failed(test: str, reason: str, *proves: str) -> TestResult:
    return TestResult(
        bases=frozenset(),
        contracts=frozenset({"HostDriver"}),
        test=test,
        proves=frozenset(("HostDriver", number) for number in proves),
        outcome="failed",
        reason=reason,
    )


def broken(*results: TestResult) -> dict[str, str]:
    promises = stated_promises(HostDriver, HostDriver)
    rows = evaluate("HostDriver acme", promises, results, watched_promises())
    return {row.promise: row.reason for row in rows if row.state is PromiseState.BROKEN}


def test_promise_that_every_test_watches_has_a_row_if_a_reason_names_it() -> None:
    reason = "Acme.converge: promise 4 of Driver: it wrote to standard output"
    found = broken(failed("test_put", reason, "1"), failed("test_drop", reason, "2"))
    assert found["Driver 4"] == f"test_put: {reason}"
    assert found.keys() == {"Driver 4", "HostDriver 1", "HostDriver 2"}


def test_failed_test_without_a_promise_is_a_row_of_the_promise_that_it_names() -> None:
    leak = "promise 3 of Driver, after close(): 6 descriptors are left"
    assert broken(failed("test_close", leak)).keys() == {"Driver 3"}
    assert broken(failed("test_close", "promise 3 of DriverLike")).keys() == {"-"}
    assert broken(failed("test_close", "assert 0")) == {"-": "assert 0"}


def test_promise_that_passed_tests_did_not_try_is_not_tried() -> None:
    promises = stated_promises(HostDriver, HostDriver)
    passed = evolve(
        failed("test_put", "", "1"), outcome="passed", untried={"HostDriver": "no disk"}
    )
    first, *_ = evaluate("HostDriver acme", promises, [passed])
    assert (first.state, first.reason, first.is_incomplete) == (
        PromiseState.NOT_TRIED,
        "no disk",
        False,
    )
    assert broken(evolve(passed, outcome="failed", reason="assert 0")).keys() == {"HostDriver 1"}
