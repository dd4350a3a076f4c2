"""The suite refuses firewall drivers that break a promise, each for the right reason."""

import os
from collections import defaultdict
from types import ModuleType

import broken_firewall_changes
import broken_firewall_rules
import broken_firewall_sources
import broken_firewalls_by_chance
import good_firewall
import pytest
from refused_firewalls import REFUSED_BY

from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.firewall import CONTRACTS, FirewallDriverConformance
from netfw.testing.conformance.promises import Promise, promises_of, proofs_in, unproven

FILES = broken_firewall_rules, broken_firewall_sources, broken_firewall_changes
BROKEN = {
    name.removeprefix("Test"): suite.kind for file in FILES for name, suite in file.SUITES.items()
}
LEFT_OUT = Promise("Reconciler.apply", "OperationRefused")
"""Many a firewall can be asked for the same twice, and nobody can take its names."""


class Failures:
    """A plug-in that keeps which tests of which suite failed."""

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = defaultdict(set)
        self.passed: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, suite, test = report.nodeid.split("::")
        name = suite.removeprefix("Test")
        if report.failed:
            self.of[name].add(test.partition("[")[0])
        elif report.when == "call" and report.passed:
            self.passed[name] += 1


def run(file: ModuleType, *options: str) -> Failures:
    found = Failures()
    pytest.main(
        [str(file.__file__), *options, "-c", os.devnull, "--rootdir", os.path.dirname(__file__),
         "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:timeout"],
        plugins=[found],
    )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def failures() -> dict[str, Failures]:
    """By file, each of which is run when it is asked about."""
    return {}


def refusals(failures: dict[str, Failures], name: str) -> set[str]:
    (file,) = (file for file in FILES if f"Test{name}" in file.SUITES)
    if file.__name__ not in failures:
        failures[file.__name__] = run(file)
    return failures[file.__name__].of[name]


def test_a_firewall_that_keeps_its_promises_is_not_refused():
    found = run(good_firewall)
    assert found.of["GoodFirewall"] == set()
    assert found.passed["GoodFirewall"] == len(list(proofs_in(FirewallDriverConformance)))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_firewall_is_refused_by_exactly_the_right_tests(
    failures: dict[str, Failures], name: str
):
    assert refusals(failures, name) == REFUSED_BY[name]


@pytest.mark.parametrize("name", BROKEN)
def test_one_of_the_tests_that_refuse_it_proves_the_promise_it_breaks(name: str):
    proofs = dict(proofs_in(FirewallDriverConformance))
    proven = {promise for test in REFUSED_BY[name] for promise in proofs[test]}
    assert BROKEN[name].proves <= proven


def test_what_is_drawn_by_chance_finds_broken_firewalls_and_no_good_one():
    fate = "test_every_packet_has_the_fate_that_the_law_says"
    found = run(broken_firewalls_by_chance, "-k", fate)
    names = {kind.__name__ for kind in broken_firewalls_by_chance.BROKEN}
    assert {name for name, tests in found.of.items() if fate in tests} == names


def test_every_test_of_the_suite_refuses_somebody():
    tests = {name for name, _ in proofs_in(FirewallDriverConformance)}
    assert tests - set().union(*REFUSED_BY.values()) == set()


def test_every_promise_and_every_error_of_the_contracts_has_a_test():
    assert unproven(FirewallDriverConformance, *CONTRACTS, Reconciler) == {LEFT_OUT}


def test_every_promise_and_every_error_of_the_contracts_is_broken_by_a_driver():
    promised = {
        promise for contract in (*CONTRACTS, Reconciler) for promise in promises_of(contract)
    }
    broken = {promise for kind in BROKEN.values() for promise in kind.proves}
    assert promised - broken == {LEFT_OUT}
