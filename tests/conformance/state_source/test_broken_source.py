"""The suite refuses sources that are wrong, each by the tests that are about what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import Phase, settings

from netfw.drivers.state_source import StateSource
from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.suite import StateSourceConformance
from tests.conformance.common.refusal import refusals
from tests.conformance.state_source.broken_source import BROKEN, BrokenSource

pytestmark = pytest.mark.fakes

BY_CHANCE = "test_writers_and_readers_at_the_same_time_agree_in_the_end"
"""Whether this one sees a fault depends on timing."""
ANY_HISTORY = "test_any_history_read_in_any_way_ends_with_what_is_reachable"
SEARCHED, SPARED = 200, 20
"""Histories for a source that one of them has to refuse, and for one that none of them may."""


def suite_of(source: type[BrokenSource]) -> StateSourceConformance:
    class Suite(StateSourceConformance):
        examples = settings(
            StateSourceConformance.examples,
            max_examples=SEARCHED if ANY_HISTORY in source.refused_by else SPARED,
            phases=[Phase.generate],
            report_multiple_bugs=False,
        )

        @contextmanager
        def setting(self, page: int) -> Iterator[SourceEnvironment]:
            broken = source(page=page)
            yield SourceEnvironment(broken, broken.world(), broken.cut)

    return Suite()


@pytest.mark.spec("RPC-02")
@pytest.mark.parametrize("source", BROKEN, ids=lambda source: source.__name__)
def test_a_broken_source_is_refused_by_the_right_tests(source: type[BrokenSource]) -> None:
    assert refusals(suite_of(source), but={BY_CHANCE}) == source.refused_by


def suite_tests() -> set[str]:
    return {name for name in vars(StateSourceConformance) if name.startswith("test_")}


def test_every_promise_and_every_error_has_a_test() -> None:
    assert unproven(StateSourceConformance, StateSource) == frozenset()


def test_every_test_refuses_somebody() -> None:
    refusing = frozenset().union(*(source.refused_by for source in BROKEN))
    assert suite_tests() - {BY_CHANCE} == refusing
