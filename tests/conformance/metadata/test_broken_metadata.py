"""The suite of metadata drivers refuses those that break a promise, each for the right reason."""

import pytest

from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import promises_of, proofs_in, unproven
from netfw.testing.conformance.metadata.suite import CONTRACTS, MetadataDriverConformance
from tests.conformance.common.suite_runner import Refusal, refusal_of
from tests.conformance.metadata import broken_metadata
from tests.conformance.metadata.fake_metadata import ImaginaryMetadataConformance

pytestmark = pytest.mark.fakes

BROKEN = sorted(set(broken_metadata.DRIVERS) - {"GoodMetadataDriver"})

REFUSED_BY: dict[str, set[str]] = {
    "BelievesGuests": {
        "test_a_guest_cannot_hide_a_request_in_another",
        "test_a_guest_cannot_say_who_it_is",
        "test_a_guest_cannot_say_who_it_is_by_odd_requests",
    },
    "KnowsOneSpelling": {
        "test_a_guest_cannot_say_who_it_is",
    },
    "LetsItselfBeDropped": {
        "test_a_guest_cannot_say_who_it_is_by_odd_requests",
    },
    "ReadsLengthsOnly": {
        "test_a_guest_cannot_hide_a_request_in_another",
    },
    "DoesNotSayWhose": {
        "test_a_guest_cannot_hide_a_request_in_another",
        "test_a_guest_cannot_say_who_it_is",
        "test_a_guest_cannot_say_who_it_is_by_odd_requests",
        "test_a_request_reaches_the_agent_with_who_asks",
    },
    "KnowsNetworksOnly": {
        "test_a_guest_cannot_hide_a_request_in_another",
        "test_a_guest_cannot_say_who_it_is",
        "test_a_guest_cannot_say_who_it_is_by_odd_requests",
        "test_a_request_reaches_the_agent_with_who_asks",
    },
    "NotAtLinkLocal": {
        "test_a_guest_cannot_hide_a_request_in_another",
        "test_a_guest_cannot_say_who_it_is",
        "test_a_guest_cannot_say_who_it_is_by_odd_requests",
        "test_a_request_reaches_the_agent_with_who_asks",
    },
    "DropsBodies": {
        "test_a_request_has_its_body",
    },
    "StartsAgainEachTime": {
        "test_a_proxy_that_is_right_is_not_started_again",
    },
    "StartsAgainWhenNew": {
        "test_a_proxy_that_is_right_is_not_started_again",
    },
    "LeavesTheDead": {
        "test_drift_is_repaired",
        "test_held_is_what_the_host_has",
        "test_one_that_dies_is_started_again_and_it_is_said",
    },
    "IsSilentAboutDeath": {
        "test_one_that_dies_is_started_again_and_it_is_said",
    },
    "WatchesOwnChildren": {
        "test_one_that_dies_is_started_again_and_it_is_said",
    },
    "LeavesFiles": {
        "test_a_complete_update_removes_the_rest",
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_a_dropped_proxy_leaves_nothing",
        "test_an_awkward_value_is_had_or_refused_and_never_half",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_dying_after_any_stage_of_making_is_safe",
        "test_dying_after_any_stage_of_removing_is_safe",
        "test_removal_leaves_what_the_driver_did_not_make",
        "test_repeating_changes_nothing",
        "test_states_can_be_visited_in_any_order",
        "test_what_is_put_is_so_and_what_is_dropped_is_gone",
    },
    "ForgetsThoseOfRouters": {
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_a_dropped_proxy_leaves_nothing",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_dying_after_any_stage_of_making_is_safe",
        "test_dying_after_any_stage_of_removing_is_safe",
        "test_gc_keeps_what_it_is_told_and_nothing_else",
        "test_states_can_be_visited_in_any_order",
    },
    "MakesDoWithoutNamespace": {
        "test_a_missing_namespace_concerns_its_proxy_alone",
    },
    "CallsAMissingNamespaceBroken": {
        "test_a_missing_namespace_concerns_its_proxy_alone",
    },
    "RunsAsRoot": {
        "test_it_has_no_rights_beyond_its_options",
    },
    "GivesOnePlaceTwice": {
        "test_of_two_that_want_one_place_one_has_it",
    },
    "CannotHandPlacesOver": {
        "test_a_place_changes_hands_in_one_update",
    },
    "KnowsOneThread": {
        "test_different_proxies_can_be_asked_for_at_once",
    },
}


def tried(name: str) -> Refusal:
    suite = ImaginaryMetadataConformance()
    suite.DRIVER = broken_metadata.DRIVERS[name]
    return refusal_of(suite, suite.drivers)


def test_a_driver_that_keeps_its_promises_is_not_refused():
    good = tried("GoodMetadataDriver")
    assert good.passed > 40
    assert not good.tests
    assert not good.left


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_driver_is_refused_by_exactly_the_right_tests(name: str):
    assert tried(name).tests == REFUSED_BY[name]


@pytest.mark.parametrize("name", BROKEN)
def test_one_of_the_tests_that_refuse_it_proves_the_promise_it_breaks(name: str):
    broken = getattr(broken_metadata.DRIVERS[name], "proves", frozenset())
    proofs = dict(proofs_in(MetadataDriverConformance))
    proven = {promise for test in REFUSED_BY[name] for promise in proofs[test]}
    assert broken <= proven


def test_every_test_of_its_own_refuses_somebody():
    own = {name for name in vars(MetadataDriverConformance) if name.startswith("test")}
    assert own - set().union(*REFUSED_BY.values()) == set()


def test_every_promise_and_every_error_of_the_contracts_has_a_test():
    assert unproven(MetadataDriverConformance, *CONTRACTS, Reconciler) == frozenset()


def test_every_promise_of_the_contract_is_broken_by_a_driver():
    drivers = broken_metadata.DRIVERS.values()
    broken = {promise for driver in drivers for promise in getattr(driver, "proves", ())}
    assert broken == promises_of(MetadataDriver)
