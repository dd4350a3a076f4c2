"""The suite of switch drivers refuses those that break a promise, each for the right reason."""

import pytest

from netfw.drivers.reconciler import Reconciler
from netfw.drivers.switch import SwitchDriver
from netfw.testing.conformance.common.promises import promises_of, proofs_in, unproven
from netfw.testing.conformance.switch.suite import CONTRACTS, SwitchDriverConformance
from tests.conformance.common.suite_runner import Refusal, refusal_of
from tests.conformance.switch import broken_switch
from tests.conformance.switch.fake_environment import ImaginarySwitchConformance, ImaginaryWorld

pytestmark = pytest.mark.fakes

BROKEN = sorted(set(broken_switch.DRIVERS) - {"GoodSwitch"})

REFUSED_BY: dict[str, set[str]] = {
    "LetsTheUnwiredListen": {
        "test_a_dropped_port_falls_silent_though_it_is_plugged",
        "test_a_new_port_on_hold_is_silent_until_it_is_let_live",
        "test_a_port_that_nobody_wired_neither_speaks_nor_hears",
        "test_a_port_that_was_plugged_while_others_live_is_silent",
        "test_a_port_waits_for_its_network",
        "test_a_port_whose_network_goes_falls_silent_and_waits",
        "test_a_value_that_does_not_fit_its_key_concerns_that_key_alone",
        "test_dying_at_any_stage_loses_nothing_of_the_others",
        "test_networks_do_not_mix_at_any_moment",
        "test_no_tag_leads_out_of_a_port_that_does_not_live",
        "test_physical_networks_join_the_hosts_and_not_the_networks",
        "test_who_is_refused_by_the_next_driver_keeps_nobody_else_alive",
    },
    "TakesTagsForGranted": {
        "test_no_tag_leads_into_another_network",
        "test_no_tag_leads_out_of_a_port_that_does_not_live",
    },
    "LearnsFromTheDead": {
        "test_a_dead_port_draws_no_traffic_to_itself",
    },
    "NeverKills": {
        "test_a_dead_port_on_hold_stays_dead",
        "test_a_new_driver_holds_what_lives_and_what_is_dead",
        "test_a_port_that_dies_falls_silent_and_can_live_again",
        "test_networks_do_not_mix_at_any_moment",
    },
    "ForgetsWithoutShutting": {
        "test_a_dropped_port_falls_silent_though_it_is_plugged",
        "test_an_addition_is_in_force_and_gone_with_its_port",
        "test_networks_do_not_mix_at_any_moment",
    },
    "LetsPassWhatIsFiltered": {
        "test_a_filtered_port_neither_speaks_nor_hears_without_a_firewall",
        "test_a_port_on_hold_stays_filtered_or_not",
    },
    "FiltersTooEarly": {
        "test_a_port_on_hold_stays_filtered_or_not",
    },
    "TakesHoldForLive": {
        "test_a_dead_port_on_hold_stays_dead",
        "test_a_new_driver_holds_what_lives_and_what_is_dead",
        "test_a_new_port_on_hold_is_silent_until_it_is_let_live",
        "test_a_port_on_hold_stays_filtered_or_not",
        "test_letting_live_takes_one_step",
    },
    "TakesHoldForDead": {
        "test_a_live_port_on_hold_loses_nothing",
        "test_a_new_driver_holds_what_lives_and_what_is_dead",
        "test_a_port_on_hold_stays_filtered_or_not",
    },
    "PreparesTooLate": {
        "test_letting_live_takes_one_step",
    },
    "MixesOnTheWay": {
        "test_two_networks_swap_their_numbers",
    },
    "SparesTheGone": {
        "test_who_is_refused_by_the_next_driver_keeps_nobody_else_alive",
    },
    "LetsNetworksShare": {
        "test_a_value_that_does_not_fit_its_key_concerns_that_key_alone",
        "test_two_networks_cannot_have_one_segment",
        "test_who_is_refused_by_the_next_driver_keeps_nobody_else_alive",
    },
    "FloodsEverywhere": {
        "test_a_changed_value_is_put_right",
        "test_dying_after_any_stage_of_changing_is_safe",
        "test_entries_join_the_networks_that_have_them",
        "test_states_can_be_visited_in_any_order",
        "test_what_was_learnt_goes_with_network_and_tunnel",
    },
    "LeavesAnswersToOthers": {
        "test_an_address_elsewhere_is_answered_for_here",
    },
    "KeepsNumbers": {
        "test_a_dropped_network_leaves_no_trace",
        "test_the_next_driver_drops_what_the_former_one_made",
    },
    "WaitsForNoNetwork": {
        "test_a_port_waits_for_its_network",
        "test_a_port_whose_network_goes_falls_silent_and_waits",
    },
    "MakesEverythingAnew": {
        "test_a_new_driver_touches_nothing",
        "test_after_applying_there_is_nothing_left_to_do",
        "test_converging_again_touches_nothing",
        "test_drift_is_repaired",
        "test_letting_live_takes_one_step",
    },
    "BeginsAnew": {
        "test_a_new_driver_holds_what_lives_and_what_is_dead",
        "test_a_new_driver_touches_nothing",
        "test_a_port_on_hold_stays_filtered_or_not",
        "test_an_addition_that_belongs_to_no_port",
        "test_dying_at_any_stage_loses_nothing_of_the_others",
        "test_tunnels_lose_nothing_when_everything_is_converged_again",
        "test_who_is_refused_by_the_next_driver_keeps_nobody_else_alive",
    },
    "DisturbsTheOthers": {
        "test_a_filtered_port_neither_speaks_nor_hears_without_a_firewall",
        "test_a_new_driver_holds_what_lives_and_what_is_dead",
        "test_a_port_on_hold_stays_filtered_or_not",
        "test_a_port_that_dies_falls_silent_and_can_live_again",
        "test_a_port_whose_network_goes_falls_silent_and_waits",
        "test_dying_at_any_stage_loses_nothing_of_the_others",
        "test_others_come_and_go_in_crowds_without_a_loss",
    },
    "DoesNotWaitForDevices": {
        "test_a_device_that_goes_or_moves_is_announced",
        "test_a_port_waits_for_its_device",
        "test_a_port_without_a_number_waits",
    },
    "SaysNothing": {
        "test_a_device_that_goes_or_moves_is_announced",
        "test_a_port_that_was_plugged_while_others_live_is_silent",
        "test_a_port_waits_for_its_device",
        "test_a_port_without_a_number_waits",
        "test_a_switch_that_lost_its_state_is_announced_and_rebuilt",
        "test_what_somebody_changed_is_announced_and_put_right",
    },
    "ShowsOnlyTheWired": {
        "test_a_dropped_port_falls_silent_though_it_is_plugged",
        "test_a_port_without_a_number_waits",
        "test_devices_are_those_that_are_plugged",
    },
    "MissesTheRestart": {
        "test_a_switch_that_lost_its_state_is_announced_and_rebuilt",
    },
    "TrustsItsBooks": {
        "test_a_device_that_goes_or_moves_is_announced",
        "test_a_switch_that_lost_its_state_is_announced_and_rebuilt",
        "test_what_somebody_changed_is_announced_and_put_right",
    },
    "GivesBitsTwice": {
        "test_an_addition_outside_its_grant_is_refused_for_its_port_alone",
        "test_grants_do_not_overlap",
    },
    "GrantsByChance": {
        "test_grants_are_the_same_again",
    },
    "TrustsExtensions": {
        "test_an_addition_outside_its_grant_is_refused_for_its_port_alone",
    },
    "PunishesAll": {
        "test_an_addition_outside_its_grant_is_refused_for_its_port_alone",
    },
    "ShowsNoDevicesWhenAsleep": {
        "test_devices_and_facts_say_that_nobody_answers",
    },
    "KnowsFactsByHeart": {
        "test_devices_and_facts_say_that_nobody_answers",
    },
    "DoesNotLookAtTheMachine": {
        "test_a_configuration_that_contradicts_the_machine_is_named",
        "test_devices_and_facts_say_that_nobody_answers",
    },
    "PromisesAnything": {
        "test_a_claim_for_what_there_is_not_is_refused",
    },
    "NeverRunsOut": {
        "test_when_nothing_is_left_it_is_said_who_has_it",
    },
}


LEAVE_SOMETHING = {"KeepsNumbers"}


def tried(name: str) -> Refusal:
    suite = ImaginarySwitchConformance()
    suite.DRIVER = broken_switch.DRIVERS[name]
    blank = {0: {}, 1: {}}
    return refusal_of(suite, lambda: suite.drivers(ImaginaryWorld(suite.DRIVER), blank))


def test_a_switch_that_keeps_its_promises_is_not_refused():
    good = tried("GoodSwitch")
    assert good.passed > 100
    assert not good.tests
    assert not good.left


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_switch_is_refused_by_exactly_the_right_tests(name: str):
    refusal = tried(name)
    assert refusal.tests == REFUSED_BY[name]
    assert LEAVE_SOMETHING.isdisjoint({name}) or refusal.left


@pytest.mark.parametrize("name", BROKEN)
def test_one_of_the_tests_that_refuse_it_proves_the_promise_it_breaks(name: str):
    broken = broken_switch.DRIVERS[name].proves
    proofs = dict(proofs_in(SwitchDriverConformance))
    proven = {promise for test in REFUSED_BY[name] for promise in proofs[test]}
    assert broken <= proven


def test_every_promise_and_every_error_of_the_contracts_has_a_test():
    assert unproven(SwitchDriverConformance, *CONTRACTS, Reconciler) == frozenset()


def test_every_promise_and_every_error_of_the_contract_is_broken_by_a_driver():
    broken = {promise for name in BROKEN for promise in broken_switch.DRIVERS[name].proves}
    assert broken == promises_of(SwitchDriver)
