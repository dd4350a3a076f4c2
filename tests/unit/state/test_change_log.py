"""The journal remembers as much as it was told to, in order."""

from __future__ import annotations

import pytest

from netfw.drivers.values.subscription import Service
from netfw.model.resource import ref
from netfw.state.change_log import ChangeLog
from netfw.state.dependencies import AgentRoot
from netfw.testing.conformance.state_source import samples

A, B = AgentRoot(Service.L2, "a"), AgentRoot(Service.L2, "b")
NET, QOS = ref(samples.NET), ref(samples.QOS)


def test_commit_that_concerns_two_roots_is_returned_once():
    journal = ChangeLog(10)
    journal.append({A: {NET}, B: {QOS}})
    journal.append({B: {NET}})
    assert list(journal.since(0, (A, B))) == [(1, {NET, QOS}), (2, {NET})]
    assert list(journal.since(1, (A, B))) == [(2, {NET})]
    assert list(journal.since(0, (A,))) == [(1, {NET})]


@pytest.mark.parametrize("retention", [1, 3, 50])
def test_it_forgets_the_oldest_first(retention):
    journal = ChangeLog(retention)
    for number in range(1, 41):
        journal.append({A: {NET}} if number % 3 else {})
        assert journal.oldest == max(0, number - retention)
        kept = [n for n in range(journal.oldest + 1, number + 1) if n % 3]
        assert [n for n, _ in journal.since(journal.oldest, (A,))] == kept
    assert sum(map(len, journal._entries.values())) <= 2 * retention


def test_what_it_forgot_is_gone_at_once():
    journal = ChangeLog(10)
    journal.append({A: {NET}})
    journal.clear()
    assert (journal.oldest, journal.seq) == (1, 1)
    journal.append({A: {QOS}})
    assert list(journal.since(1, (A,))) == [(2, {QOS})]


def test_a_journal_that_remembers_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one commit"):
        ChangeLog(0)
