"""The suite refuses drivers that break a promise, each for the right reason."""

import pytest

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import promises_of, proofs_in, unproven
from netfw.testing.conformance.interface import InterfaceDriverConformance
from tests.conformance.common.suite_runner import Refusal, refusal_of
from tests.conformance.interface import broken_interface
from tests.conformance.interface.fake_interface import ImaginaryConformance

pytestmark = pytest.mark.fakes

CONTRACTS = HostDriver, Reconciler, InterfaceDriver

REFUSED_BY: dict[str, set[str]] = {
    "ChangesSomethingEachTime": {
        "test_a_complete_update_removes_the_rest",
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_drift_is_repaired",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_dying_after_any_stage_of_making_is_safe",
        "test_held_is_what_the_host_has",
        "test_repeating_changes_nothing",
        "test_states_can_be_visited_in_any_order",
    },
    "StumblesOverAbsence": {
        "test_dropping_what_is_absent_succeeds",
        "test_removal_leaves_what_the_driver_did_not_make",
        "test_repeating_changes_nothing",
    },
    "RemovesWhatIsToBeKept": {
        "test_a_complete_update_removes_the_rest",
        "test_gc_keeps_what_it_is_told_and_nothing_else",
    },
    "FailsTogether": {
        "test_a_missing_namespace_concerns_its_port_alone",
        "test_a_plan_that_came_too_late_is_refused_and_nothing_of_the_stage_is_done",
        "test_of_two_that_want_one_name_one_has_it",
        "test_one_failure_concerns_one_key",
    },
    "TakesWhatItWants": {
        "test_a_plan_that_came_too_late_is_refused_and_nothing_of_the_stage_is_done",
        "test_a_refused_key_is_not_held",
        "test_one_failure_concerns_one_key",
        "test_what_the_driver_did_not_make_is_a_conflict_and_stays",
    },
    "CleansUpTooMuch": {
        "test_removal_leaves_what_the_driver_did_not_make",
    },
    "KeepsItsBooksInMemory": {
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_dying_after_any_stage_of_making_is_safe",
        "test_dying_after_any_stage_of_removing_is_safe",
    },
    "ReportsWhatWasAsked": {
        "test_held_is_what_the_host_has",
    },
    "BlamesTheKeys": {
        "test_converge_says_that_nobody_answers",
    },
    "HoldsNothingWhenAsleep": {
        "test_held_says_that_nobody_answers",
    },
    "ActsWhilePlanning": {
        "test_planning_is_pure_and_touches_nothing",
        "test_the_mirror_and_the_machine_lead_to_the_same_plan",
    },
    "FindsAlwaysSomethingToDo": {
        "test_after_applying_there_is_nothing_left_to_do",
        "test_drift_is_repaired",
        "test_nothing_is_left_to_do_for_an_awkward_value_either",
    },
    "LeaksWhenItDies": {
        "test_dying_after_any_stage_of_removing_is_safe",
    },
    "LooksTooShort": {
        "test_a_name_moves_from_port_to_port_in_one_update",
        "test_the_mirror_and_the_machine_lead_to_the_same_plan",
    },
    "SkipsTheLastCheckpoint": {
        "test_each_stage_passes_the_checkpoint",
    },
    "SwallowsRefusals": {
        "test_a_plan_that_came_too_late_is_refused_and_nothing_of_the_stage_is_done",
    },
    "DiesOfAnOutage": {
        "test_apply_says_that_nobody_answers",
    },
    "SeesWhatItSawLast": {
        "test_observe_says_that_nobody_answers",
    },
    "IgnoresTheMtu": {
        "test_a_device_appears_in_its_namespace_and_moves",
        "test_an_awkward_value_is_had_or_refused_and_never_half",
        "test_the_mtu_changes",
    },
    "LetsTrafficPass": {
        "test_a_new_port_carries_no_traffic",
    },
    "ClosesOpenPorts": {
        "test_a_port_that_was_admitted_stays_so",
    },
    "GivesOneNameTwice": {
        "test_a_name_that_another_port_has_is_a_conflict",
        "test_of_two_that_want_one_name_one_has_it",
    },
    "CannotHandNamesOver": {
        "test_a_name_moves_from_port_to_port_in_one_update",
        "test_two_ports_swap_their_names",
    },
    "MakesDoWithoutNamespace": {
        "test_a_missing_namespace_concerns_its_port_alone",
    },
    "NamesDevicesItsOwnWay": {
        "test_a_device_appears_in_its_namespace_and_moves",
        "test_a_device_can_be_called_otherwise",
        "test_devices_are_what_is_held_and_what_there_is",
    },
    "ShowsNoDevicesWhenAsleep": {
        "test_devices_says_that_nobody_answers",
    },
    "DoesNotNoticeDrift": {
        "test_drift_is_repaired",
    },
    "NeverChanges": {
        "test_a_changed_value_is_put_right",
        "test_a_device_appears_in_its_namespace_and_moves",
        "test_a_device_can_be_called_otherwise",
        "test_drift_is_repaired",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_mac_and_state_change_in_place",
        "test_states_can_be_visited_in_any_order",
        "test_the_mtu_changes",
        "test_two_ports_swap_their_names",
    },
    "SaysItIsGone": {
        "test_a_device_appears_in_its_namespace_and_moves",
        "test_a_name_moves_from_port_to_port_in_one_update",
        "test_repeating_changes_nothing",
        "test_what_is_put_is_so_and_what_is_dropped_is_gone",
    },
    "TakesAllForComplete": {
        "test_a_name_that_another_port_has_is_a_conflict",
        "test_an_update_that_is_not_complete_leaves_the_rest",
        "test_two_driver_objects_work_on_one_host_at_once",
    },
    "CleansUpWhenClosed": {
        "test_closing_leaves_the_machine_as_it_is",
        "test_two_driver_objects_work_on_one_host_at_once",
    },
    "BearsNobodyBeside": {
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_dying_after_any_stage_of_making_is_safe",
        "test_dying_after_any_stage_of_removing_is_safe",
        "test_two_driver_objects_work_on_one_host_at_once",
    },
    "ComplainsOfNothing": {
        "test_an_empty_update_is_nothing",
    },
    "IsAlwaysUp": {
        "test_a_changed_value_is_put_right",
        "test_a_device_is_as_it_was_asked_for",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_mac_and_state_change_in_place",
        "test_states_can_be_visited_in_any_order",
    },
    "MakesNamesPretty": {
        "test_a_strange_name_is_had_or_refused",
    },
    "TakesLessSilently": {
        "test_an_awkward_value_is_had_or_refused_and_never_half",
        "test_nothing_is_left_to_do_for_an_awkward_value_either",
    },
    "LeavesHalfOfIt": {
        "test_an_awkward_value_is_had_or_refused_and_never_half",
    },
    "PassesOverNamespaces": {
        "test_a_missing_namespace_concerns_its_port_alone",
    },
}


def tried(name: str) -> Refusal:
    suite = ImaginaryConformance()
    suite.DRIVER = broken_interface.DRIVERS[name]
    return refusal_of(suite, suite.drivers)


def test_a_driver_that_keeps_its_promises_is_not_refused():
    good = tried("GoodDriver")
    assert good.passed > 40
    assert not good.tests
    assert not good.left


@pytest.mark.parametrize("name", sorted(set(broken_interface.DRIVERS) - {"GoodDriver"}))
def test_a_broken_driver_is_refused_by_exactly_the_right_tests(name: str):
    assert tried(name).tests == REFUSED_BY[name]


@pytest.mark.parametrize("name", sorted(set(broken_interface.DRIVERS) - {"GoodDriver"}))
def test_one_of_the_tests_that_refuse_it_proves_the_promise_it_breaks(name: str):
    broken = getattr(broken_interface.DRIVERS[name], "proves", frozenset())
    proofs = dict(proofs_in(InterfaceDriverConformance))
    proven = {promise for test in REFUSED_BY[name] for promise in proofs[test]}
    assert broken <= proven


def test_every_test_of_the_suite_refuses_somebody():
    tests = {name for name, _ in proofs_in(InterfaceDriverConformance)}
    assert tests - set().union(*REFUSED_BY.values()) == set()


def test_every_promise_and_every_error_of_the_contracts_has_a_test():
    assert unproven(InterfaceDriverConformance, *CONTRACTS) == frozenset()


def test_every_promise_and_every_error_of_the_contracts_is_broken_by_a_driver():
    promised = {promise for contract in CONTRACTS for promise in promises_of(contract)}
    drivers = broken_interface.DRIVERS.values()
    broken = {promise for driver in drivers for promise in getattr(driver, "proves", ())}
    assert promised == broken


@pytest.mark.parametrize(("contract", "numbers"), [*zip(CONTRACTS, (7, 6, 5), strict=True)])
def test_the_numbered_promises_are_found(contract: type, numbers: int):
    found = {p.what for p in promises_of(contract) if p.where == contract.__name__}
    assert found == {str(number) for number in range(1, numbers + 1)}
