"""The suite of DHCP drivers refuses those that break a promise, each for the right reason."""

import pytest

from netfw.drivers.dhcp import DhcpDriver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import promises_of, proofs_in, unproven
from netfw.testing.conformance.dhcp.case import emptied
from netfw.testing.conformance.dhcp.suite import CONTRACTS, DhcpDriverConformance
from tests.conformance.common.suite_runner import Refusal, refusal_of
from tests.conformance.dhcp import broken_dhcp
from tests.conformance.dhcp.fake_dhcp import GoodDhcp
from tests.conformance.dhcp.fake_environment import ImaginaryGround

pytestmark = pytest.mark.fakes

BROKEN = sorted(set(broken_dhcp.DRIVERS) - {"GoodDhcp"})

REFUSED_BY: dict[str, set[str]] = {
    "GivesWhatAnotherHas": {
        "test_a_new_driver_interrupts_nobody",
        "test_a_port_gets_another_address_and_its_old_one_is_free",
        "test_a_port_with_several_addresses_gets_one_of_them",
        "test_a_server_that_dies_is_told_and_comes_back",
        "test_a_subnet_can_come_and_go",
        "test_an_option_without_a_value_is_not_told",
        "test_every_port_gets_its_own_address_and_strangers_get_none",
        "test_ipv6_beside_does_no_harm",
        "test_leases_live_on_when_the_server_has_to_be_started_again",
        "test_many_ports_come_at_once",
        "test_metadata_is_reached_through_the_server_where_that_is_asked_for",
        "test_names_are_told",
        "test_options_are_told_by_name_and_by_number_and_those_of_the_port_win",
        "test_options_of_a_port_win_over_what_its_subnet_says",
        "test_others_are_served_beside_a_port_that_is_refused",
        "test_ports_come_and_go_and_interrupt_nobody",
        "test_several_subnets_are_told_apart_and_one_without_dhcp_gives_nothing",
        "test_syntax_is_refused_or_taken_literally",
        "test_two_ports_swap_their_addresses",
    },
    "AnswersStrangers": {
        "test_a_port_with_another_mac_is_known_by_that_alone",
        "test_a_stranger_gets_no_ipv6_address",
        "test_every_port_gets_its_own_address_and_strangers_get_none",
        "test_others_are_served_beside_a_port_that_is_refused",
    },
    "AnswersEverywhere": {
        "test_networks_with_equal_addresses_do_not_mix",
    },
    "ForgetsTheMtu": {
        "test_a_changed_network_is_told_at_the_next_renewal",
        "test_a_port_gets_its_address_gateway_name_servers_mtu_and_domain",
        "test_different_networks_are_converged_at_once",
        "test_networks_with_equal_addresses_do_not_mix",
        "test_options_of_a_port_win_over_what_its_subnet_says",
    },
    "KnowsNoGateway": {
        "test_a_changed_network_is_told_at_the_next_renewal",
        "test_a_gateway_beyond_its_subnet_is_reached",
        "test_a_port_gets_its_address_gateway_name_servers_mtu_and_domain",
        "test_an_option_without_a_value_is_not_told",
        "test_options_of_a_port_win_over_what_its_subnet_says",
        "test_several_subnets_are_told_apart_and_one_without_dhcp_gives_nothing",
    },
    "TakesItselfForTheGateway": {
        "test_an_option_without_a_value_is_not_told",
        "test_without_a_gateway_nobody_is_told_of_one",
    },
    "AlwaysNamesItselfForNames": {
        "test_a_changed_network_is_told_at_the_next_renewal",
        "test_a_port_gets_its_address_gateway_name_servers_mtu_and_domain",
        "test_a_subnet_whose_name_server_is_zero_has_none",
        "test_an_option_without_a_value_is_not_told",
        "test_ipv6_beside_does_no_harm",
        "test_options_of_a_port_win_over_what_its_subnet_says",
        "test_several_subnets_are_told_apart_and_one_without_dhcp_gives_nothing",
        "test_two_servers_of_one_network_agree",
        "test_without_name_servers_the_dhcp_servers_are_named",
    },
    "KnowsNoPeers": {
        "test_without_name_servers_the_dhcp_servers_are_named",
    },
    "TellsNoRoutes": {
        "test_a_changed_network_is_told_at_the_next_renewal",
        "test_a_gateway_beyond_its_subnet_is_reached",
        "test_metadata_is_reached_through_the_server_where_that_is_asked_for",
        "test_other_subnets_of_the_network_are_reached_without_the_gateway",
        "test_routes_of_a_subnet_are_told_and_the_default_route_with_them",
    },
    "LeavesTheDefaultRouteToTheGateway": {
        "test_other_subnets_of_the_network_are_reached_without_the_gateway",
        "test_routes_of_a_subnet_are_told_and_the_default_route_with_them",
    },
    "SendsNeighboursToTheGateway": {
        "test_other_subnets_of_the_network_are_reached_without_the_gateway",
    },
    "ShowsNoWayToMetadata": {
        "test_metadata_is_reached_through_the_server_where_that_is_asked_for",
    },
    "ShowsEverybodyTheWayToMetadata": {
        "test_metadata_is_reached_through_the_server_where_that_is_asked_for",
    },
    "CallsEverybodyByAddress": {
        "test_names_are_told",
        "test_syntax_is_refused_or_taken_literally",
    },
    "KnowsOneDomain": {
        "test_names_are_told",
    },
    "SwallowsThePortsOptions": {
        "test_a_port_gets_both_families",
        "test_an_option_is_one_by_its_name_and_by_its_number",
        "test_an_option_without_a_value_is_not_told",
        "test_changed_options_of_a_port_are_told_at_the_next_renewal",
        "test_ipv6_beside_does_no_harm",
        "test_ipv6_options_are_told_and_those_of_the_port_win",
        "test_options_are_told_by_name_and_by_number_and_those_of_the_port_win",
        "test_options_of_a_port_win_over_what_its_subnet_says",
        "test_who_boots_by_ipxe_is_told_what_is_for_ipxe",
    },
    "LetsTheNetworkWin": {
        "test_an_option_is_one_by_its_name_and_by_its_number",
        "test_an_option_without_a_value_is_not_told",
        "test_changed_options_of_a_port_are_told_at_the_next_renewal",
        "test_ipv6_options_are_told_and_those_of_the_port_win",
        "test_options_are_told_by_name_and_by_number_and_those_of_the_port_win",
    },
    "KnowsOptionsByNameOnly": {
        "test_an_option_is_one_by_its_name_and_by_its_number",
        "test_changed_options_of_a_port_are_told_at_the_next_renewal",
        "test_ipv6_options_are_told_and_those_of_the_port_win",
        "test_options_are_told_by_name_and_by_number_and_those_of_the_port_win",
    },
    "TellsTheEmpty": {
        "test_an_option_without_a_value_is_not_told",
    },
    "TakesNameAndNumberForTwo": {
        "test_an_option_is_one_by_its_name_and_by_its_number",
    },
    "NamesAddressZero": {
        "test_a_subnet_whose_name_server_is_zero_has_none",
    },
    "KnowsNoIpxe": {
        "test_who_boots_by_ipxe_is_told_what_is_for_ipxe",
    },
    "BelievesInClientIds": {
        "test_a_port_is_known_by_its_mac_whatever_its_client_calls_itself",
    },
    "ServesEverySubnet": {
        "test_several_subnets_are_told_apart_and_one_without_dhcp_gives_nothing",
    },
    "KnowsTheFirstSubnetOnly": {
        "test_a_port_gets_both_families",
        "test_a_subnet_can_come_and_go",
        "test_ipv6_beside_does_no_harm",
        "test_metadata_is_reached_through_the_server_where_that_is_asked_for",
        "test_other_subnets_of_the_network_are_reached_without_the_gateway",
        "test_several_subnets_are_told_apart_and_one_without_dhcp_gives_nothing",
    },
    "TellsTheOldUntilThePortChanges": {
        "test_a_changed_network_is_told_at_the_next_renewal",
    },
    "KeepsTheOldMac": {
        "test_a_port_with_another_mac_is_known_by_that_alone",
    },
    "KeepsAnsweringTheDropped": {
        "test_garbage_goes_and_what_is_kept_is_served_on",
        "test_the_address_of_a_dropped_port_is_free_at_once",
    },
    "WaitsForNoNetwork": {
        "test_a_port_waits_for_its_network",
        "test_ports_wait_again_for_a_network_that_was_dropped",
    },
    "BelongsToItsThread": {
        "test_different_networks_are_converged_at_once",
        "test_two_driver_objects_work_on_one_host_at_once",
    },
    "StartsAgainForEveryPort": {
        "test_a_new_driver_interrupts_nobody",
        "test_ports_come_and_go_and_interrupt_nobody",
    },
    "WritesEverythingForEveryPort": {
        "test_one_port_more_costs_the_same_among_few_and_many",
    },
    "ReleasesNothing": {
        "test_a_port_gets_another_address_and_its_old_one_is_free",
        "test_a_port_with_another_mac_is_known_by_that_alone",
        "test_an_address_moves_from_port_to_port_in_one_update",
        "test_an_ipv6_address_is_free_at_once",
        "test_the_address_of_a_dropped_port_is_free_at_once",
        "test_two_ports_swap_their_addresses",
    },
    "LosesLeasesWithTheProcess": {
        "test_a_changed_network_is_told_at_the_next_renewal",
        "test_a_host_that_was_started_again_serves_as_before",
        "test_a_server_that_died_unseen_is_started_by_the_next_driver",
        "test_a_server_that_dies_is_told_and_comes_back",
        "test_a_subnet_can_come_and_go",
        "test_an_ipv6_lease_lives_on",
        "test_leases_live_on_when_the_server_has_to_be_started_again",
        "test_who_has_a_lease_of_one_server_is_not_refused_by_the_next",
    },
    "RefusesTheLeasesOfOthers": {
        "test_who_has_a_lease_of_one_server_is_not_refused_by_the_next",
    },
    "TakesNothingOver": {
        "test_a_new_driver_interrupts_nobody",
    },
    "TakesItsServersAlong": {
        "test_closing_a_driver_leaves_its_clients_served",
        "test_closing_leaves_the_machine_as_it_is",
    },
    "SaysNothingOfDeath": {
        "test_a_server_that_dies_is_told_and_comes_back",
    },
    "LeavesTheDead": {
        "test_a_host_that_was_started_again_serves_as_before",
        "test_a_server_that_died_unseen_is_started_by_the_next_driver",
        "test_a_server_that_dies_is_told_and_comes_back",
        "test_an_ipv6_lease_lives_on",
    },
    "KeepsOldAddresses": {
        "test_a_changed_value_is_put_right",
        "test_states_can_be_visited_in_any_order",
        "test_the_device_has_exactly_the_addresses_and_routes_that_are_asked_for",
    },
    "KnowsNoWayOut": {
        "test_a_gateway_beyond_its_subnet_is_reached",
        "test_a_host_that_was_started_again_serves_as_before",
        "test_the_device_has_addresses_and_routes_of_both_families",
        "test_the_device_has_exactly_the_addresses_and_routes_that_are_asked_for",
    },
    "HasNoMetadataAddress": {
        "test_metadata_is_reached_through_the_server_where_that_is_asked_for",
    },
    "IsNotWhereItSays": {
        "test_the_device_is_where_the_driver_says",
    },
    "LeavesTheNamespace": {
        "test_a_complete_update_removes_the_rest",
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_a_dropped_network_leaves_nothing",
        "test_garbage_goes_and_what_is_kept_is_served_on",
        "test_ports_wait_again_for_a_network_that_was_dropped",
        "test_removal_leaves_what_the_driver_did_not_make",
        "test_repeating_changes_nothing",
        "test_states_can_be_visited_in_any_order",
        "test_the_next_driver_drops_what_the_former_one_made",
        "test_what_is_put_is_so_and_what_is_dropped_is_gone",
    },
    "LeavesTheLeases": {
        "test_a_complete_update_removes_the_rest",
        "test_a_driver_that_was_killed_is_succeeded_by_the_next",
        "test_a_dropped_network_leaves_nothing",
        "test_garbage_goes_and_what_is_kept_is_served_on",
        "test_ports_wait_again_for_a_network_that_was_dropped",
        "test_removal_leaves_what_the_driver_did_not_make",
        "test_repeating_changes_nothing",
        "test_states_can_be_visited_in_any_order",
        "test_the_next_driver_drops_what_the_former_one_made",
        "test_what_is_put_is_so_and_what_is_dropped_is_gone",
    },
    "ForgetsWhatTheFormerMade": {
        "test_the_next_driver_drops_what_the_former_one_made",
    },
    "ChecksNothing": {
        "test_a_network_with_text_of_several_lines_is_refused_alone",
        "test_a_port_that_becomes_hostile_is_as_it_was_or_gone",
        "test_others_are_served_beside_a_port_that_is_refused",
        "test_text_of_several_lines_is_refused_for_its_port_alone",
    },
    "ChecksNamesOnly": {
        "test_a_network_with_text_of_several_lines_is_refused_alone",
        "test_text_of_several_lines_is_refused_for_its_port_alone",
    },
    "LooksForNewLinesOnly": {
        "test_text_of_several_lines_is_refused_for_its_port_alone",
    },
    "WritesBeforeItChecks": {
        "test_a_port_that_becomes_hostile_is_as_it_was_or_gone",
        "test_text_of_several_lines_is_refused_for_its_port_alone",
    },
    "PunishesAll": {
        "test_a_network_with_text_of_several_lines_is_refused_alone",
        "test_one_failure_concerns_one_key",
        "test_others_are_served_beside_a_port_that_is_refused",
        "test_syntax_is_refused_or_taken_literally",
        "test_text_of_several_lines_is_refused_for_its_port_alone",
    },
    "StumblesOverIpv6": {
        "test_ipv6_beside_does_no_harm",
    },
    "AnnouncesNothing": {
        "test_with_slaac_alone_a_port_makes_its_address",
        "test_with_stateful_dhcpv6_a_port_gets_its_address_and_the_rest",
        "test_with_stateless_dhcpv6_a_port_makes_its_address_and_is_told_the_rest",
    },
    "AnnouncesForOthers": {
        "test_where_somebody_else_announces_we_do_not",
    },
    "TakesAllForManaged": {
        "test_with_slaac_alone_a_port_makes_its_address",
        "test_with_stateless_dhcpv6_a_port_makes_its_address_and_is_told_the_rest",
    },
    "HasNoOptionsOfIpv6": {
        "test_a_port_gets_both_families",
        "test_ipv6_options_are_told_and_those_of_the_port_win",
    },
}


LEAVE_SOMETHING = {"LeavesTheNamespace", "LeavesTheLeases", "ForgetsWhatTheFormerMade"}


def tried(kind: type[GoodDhcp]) -> Refusal:
    suite = DhcpDriverConformance()

    def drivers():
        ground = ImaginaryGround(kind)
        return suite.drivers(ground, emptied(ground))

    return refusal_of(suite, drivers)


def test_a_driver_that_keeps_its_promises_is_not_refused():
    good = tried(GoodDhcp)
    assert not good.tests
    assert not good.left
    assert good.passed > 100


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_driver_is_refused_by_exactly_the_right_tests(name: str):
    refusal = tried(broken_dhcp.DRIVERS[name])
    assert refusal.tests == REFUSED_BY[name]
    assert bool(refusal.left) == (name in LEAVE_SOMETHING)


@pytest.mark.parametrize("name", BROKEN)
def test_one_of_the_tests_that_refuse_it_proves_the_promise_it_breaks(name: str):
    broken = broken_dhcp.DRIVERS[name].proves
    proofs = dict(proofs_in(DhcpDriverConformance))
    proven = {promise for test in REFUSED_BY[name] for promise in proofs[test]}
    assert broken <= proven


def test_every_promise_and_every_error_of_the_contracts_has_a_test():
    assert unproven(DhcpDriverConformance, *CONTRACTS, Reconciler) == frozenset()


def test_every_promise_of_the_contract_is_broken_by_a_driver():
    broken = {promise for name in BROKEN for promise in broken_dhcp.DRIVERS[name].proves}
    assert broken == promises_of(DhcpDriver)


def test_a_vendor_who_says_nothing_of_the_ground_is_told_so_before_any_test():
    with pytest.raises(TypeError, match="override shared_ground;"):
        type("TestMine", (DhcpDriverConformance,), {})
