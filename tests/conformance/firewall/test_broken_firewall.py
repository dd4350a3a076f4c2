"""The suite refuses firewall drivers that break a promise, each for the right reason."""

import pytest

from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import Promise, promises_of, proofs_in, unproven
from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import CONTRACTS, FirewallDriverConformance
from tests.conformance.firewall import broken_anti_spoofing, broken_changes, broken_rules
from tests.conformance.firewall.expected_refusals import REFUSED_BY
from tests.conformance.firewall.fake_firewall import GoodFirewall
from tests.conformance.firewall.fake_suites import tried

pytestmark = pytest.mark.fakes

FILES = broken_rules, broken_anti_spoofing, broken_changes
BROKEN = {name: kind for file in FILES for name, kind in file.BROKEN.items()}
FOUND_BY_CHANCE = (
    "ForgetsLastPorts", "IgnoresFamilies", "IgnoresPrefixes", "KeepsStateForAll", "KnowsNoState",
    "LetsAllMembersIn", "MergesGroups", "RoundsRanges", "ForgetsPairs", "GuardsNothing",
    "NeverRevokes",
)  # fmt: skip
LEFT_OUT = Promise("Reconciler.apply", "OperationRefused")
"""Many a firewall can be asked for the same twice, and nobody can take its names."""


class Fates(FirewallPropertyConformance):
    """What is drawn by chance, of packets alone."""

    test_whatever_is_nasty_is_refused_by_name = None


def test_a_firewall_that_keeps_its_promises_is_not_refused():
    good = tried(GoodFirewall, FirewallDriverConformance())
    assert not good.tests | good.left
    assert good.passed == len(list(proofs_in(FirewallDriverConformance)))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_firewall_is_refused_by_exactly_the_right_tests(name: str):
    refusal = tried(BROKEN[name], FirewallDriverConformance())
    assert refusal.tests | refusal.left == REFUSED_BY[name]


@pytest.mark.parametrize("name", BROKEN)
def test_one_of_the_tests_that_refuse_it_proves_the_promise_it_breaks(name: str):
    proofs = dict(proofs_in(FirewallDriverConformance))
    proven = {promise for test in REFUSED_BY[name] for promise in proofs[test]}
    assert BROKEN[name].proves <= proven


@pytest.mark.parametrize("name", FOUND_BY_CHANCE)
def test_what_is_drawn_by_chance_finds_broken_firewalls(name: str):
    assert tried(BROKEN[name], Fates()).tests


def test_what_is_drawn_by_chance_refuses_no_good_firewall():
    good = tried(GoodFirewall, Fates())
    assert not good.tests | good.left
    assert good.passed == 1


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
