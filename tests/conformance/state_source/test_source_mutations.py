"""The suite of state sources refuses every mutation of the source in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import Phase, settings

from netfw.drivers.state_source import StateSource
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.suite import StateSourceConformance
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.conformance.state_source.source_mutations import MUTATIONS, FakeSource

pytestmark = pytest.mark.fakes

CONCURRENT = "test_writers_and_readers_at_the_same_time_agree_in_the_end"
"""Whether this one finds a fault depends on timing."""
ANY_HISTORY = "test_any_history_read_in_any_way_ends_with_what_is_reachable"
REFUSED_BY_HISTORIES = (
    "ignore_subscription", "take_cursor_late", "omit_newly_reachable", "keep_unreachable",
    "always_more", "ignore_lost_cursor", "ignore_epoch",
)  # fmt: skip


class FakeSourceConformance(StateSourceConformance):
    """The suite on sources in memory; ``SOURCE`` is their class."""

    SOURCE: type[FakeSource] = FakeSource
    examples = settings(
        StateSourceConformance.examples,
        max_examples=200,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )

    @contextmanager
    def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
        source = self.SOURCE(page=page)
        # Its hints have arrived when a commit returns.
        yield SourceEnvironment(source, source.environment(), source.cut, hint_timeout=0.1)


class PatientSourceConformance(FakeSourceConformance):
    """Draws until a mutation is found: which examples are drawn depends on the loaded modules."""

    examples = settings(FakeSourceConformance.examples, max_examples=5000)


def run_suite(
    source: type, tests: Collection[str], suite: type[FakeSourceConformance] = FakeSourceConformance
) -> Refusal:
    made = suite()
    made.SOURCE = source
    return run_tests(made, tests)


@pytest.mark.spec("RPC-02")
class TestSourceMutations(MutationChecks):
    SUITE = StateSourceConformance
    CONTRACTS = BROKEN_CONTRACTS = (StateSource,)
    FAKE = FakeSource
    MUTATIONS = MUTATIONS
    LEAST = 20
    LEFT_OUT = frozenset({CONCURRENT, ANY_HISTORY})

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        return run_suite(driver, tests)


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED_BY_HISTORIES)
def test_property_based_histories_refuse_mutation(name: str) -> None:
    broken = MUTATIONS[name].apply(FakeSource)
    assert run_suite(broken, {ANY_HISTORY}, PatientSourceConformance).refusing


def test_property_based_histories_accept_the_correct_source() -> None:
    assert not run_suite(FakeSource, {ANY_HISTORY}).refusing
