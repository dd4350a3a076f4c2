"""The firewall suite refuses every mutation of the fake firewall."""

from collections.abc import Collection
from contextlib import AbstractContextManager

import pytest

from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import Promise, proofs_in
from netfw.testing.conformance.firewall.case import FirewallCase, MakeDriver, emptied
from netfw.testing.conformance.firewall.property_based import FirewallPropertyConformance
from netfw.testing.conformance.firewall.suite import CONTRACTS, FirewallDriverConformance
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.firewall import (
    anti_spoofing_mutations,
    hidden_mutations,
    rule_mutations,
    update_mutations,
)
from tests.conformance.firewall.fake_firewall import (
    FakeFirewallBackend,
    FakeFirewallDriver,
    FakeFirewallEnvironment,
)

pytestmark = pytest.mark.fakes

WATCHED = Mutations.merge(conduct_mutations("converge"), hidden_mutations.MUTATIONS)
MUTATIONS = Mutations.merge(
    rule_mutations.MUTATIONS,
    anti_spoofing_mutations.MUTATIONS,
    update_mutations.MUTATIONS,
    WATCHED,
)
PROPERTY_BASED = "test_every_packet_passes_or_not_as_the_reference_model"
REFUSED_BY_TARGETED_PACKETS = (
    "end_port_range_early", "ignore_ethertype", "ignore_remote_prefix",
    "make_stateless_groups_stateful", "ignore_connection_state", "ignore_remote_group",
    "apply_all_groups_to_each_port", "round_port_range_to_mask", "ignore_address_pairs",
    "allow_any_address_of_own_mac", "never_revoke_connections", "ignore_direction",
    "ignore_icmp_type", "drop_address_group_rules", "merge_group_members",
)  # fmt: skip
UNPROVEN = Promise("Reconciler.apply", "OperationRefused")
"""Many firewalls accept the same operation twice, and no other program can take their names."""


def run_suite(suite: FirewallCase, driver: type, tests: Collection[str]) -> Refusal:
    """Run *tests*, each in an environment of its own."""

    def drivers() -> AbstractContextManager[MakeDriver]:
        environment = FakeFirewallEnvironment(driver)
        return suite.drivers(environment, emptied(environment))

    return run_tests(suite, tests, drivers, ANY_FAULT)


class TestFirewallMutations(MutationChecks):
    SUITE = FirewallDriverConformance
    CONTRACTS = BROKEN_CONTRACTS = (*CONTRACTS, Reconciler)
    FAKE = FakeFirewallDriver
    MUTATIONS = MUTATIONS
    WATCHED = WATCHED
    LEAST = 99
    UNPROVEN = frozenset({UNPROVEN, CONTRADICTIONS})

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        return run_suite(FirewallDriverConformance(), driver, tests)


class TargetedConformance(FirewallPropertyConformance):
    """The targeted examples of vendors, and one random example."""

    examples = 1


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED_BY_TARGETED_PACKETS)
def test_targeted_packets_refuse_mutation(name: str):
    broken = MUTATIONS[name].apply(FakeFirewallDriver)
    assert run_suite(TargetedConformance(), broken, {PROPERTY_BASED}).tests


def test_property_based_packets_accept_the_correct_fake():
    refusal = run_suite(FirewallPropertyConformance(), FakeFirewallDriver, {PROPERTY_BASED})
    assert not refusal.refusing
    assert refusal.passed == 1


class UnfilteredFirewall(FakeFirewallDriver):
    """A driver that has every policy and enforces none."""

    CAPABILITIES = FakeFirewallDriver.CAPABILITIES - {FirewallCapability.FILTERING}

    @classmethod
    def decide(cls, backend, delivery):
        return True

    def refusals(self, update):
        return {}

    def enforced(self, group):
        return group, {}


class MisplacedFirewall(UnfilteredFirewall):
    """One whose policy is not where the environment reads it."""

    elsewhere = FakeFirewallBackend()

    def __init__(self, backend: FakeFirewallBackend) -> None:
        super().__init__(self.elsewhere)


def test_driver_that_filters_nothing_passes_and_proves_no_promise_of_firewalls():
    suite = FirewallDriverConformance()
    refusal = run_suite(suite, UnfilteredFirewall, {name for name, _ in proofs_in(type(suite))})
    assert not refusal.refusing, refusal.reasons
    assert suite.untried_contracts() == {
        "FirewallDriver": "the driver does not declare FILTERING: it lets everything pass"
    }
    run_suite(suite, FakeFirewallDriver, {"test_repeating_changes_nothing"})
    assert suite.untried_contracts() == {}


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("test_a_complete_update_removes_the_rest", "the state of the host is the same"),
        ("test_what_was_lost_is_noticed_and_made_again", "what was lost is still present"),
    ],
)
def test_policy_of_a_driver_that_filters_nothing_is_looked_at(test: str, reason: str):
    refusal = run_suite(FirewallDriverConformance(), MisplacedFirewall, {test})
    assert reason in refusal.reasons[test]
