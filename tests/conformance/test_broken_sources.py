"""The suite refuses sources that are wrong, each by the tests that are about what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from broken_sources import BROKEN, BrokenSource
from hypothesis import Phase, settings

from netfw.errors import NetfwError
from netfw.testing.conformance.state_source import StateSourceConformance
from netfw.testing.conformance.state_world import Setting


def suite_of(source: type[BrokenSource]) -> StateSourceConformance:
    class Suite(StateSourceConformance):
        examples = settings(
            StateSourceConformance.examples, max_examples=40, phases=[Phase.generate]
        )

        @contextmanager
        def setting(self, page: int) -> Iterator[Setting]:
            broken = source(page=page)
            yield Setting(broken, broken.world())

    return Suite()


BY_CHANCE = "test_2_writers_and_readers_at_the_same_time_agree_in_the_end"
"""Whether this one sees a fault depends on timing."""


def refusals(suite: StateSourceConformance) -> frozenset[str]:
    """The tests of *suite* that do not pass.  None of them needs a fixture."""
    refused = set()
    for name in dir(suite):
        if name.startswith("test_") and name != BY_CHANCE:
            try:
                getattr(suite, name)()
            except (AssertionError, NetfwError, pytest.fail.Exception):
                refused.add(name)
    return frozenset(refused)


@pytest.mark.spec("RPC-02")
@pytest.mark.parametrize("source", BROKEN, ids=lambda source: source.__name__)
def test_a_broken_source_is_refused_by_the_right_tests(source: type[BrokenSource]) -> None:
    assert refusals(suite_of(source)) == source.refused_by
