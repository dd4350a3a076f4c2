"""Processes that die again and again."""

from netfw.agents.common.jobs.death_backoff import STEADY, DeathBackoff
from netfw.agents.common.retry_queue import RetryBackoff


def test_key_is_converged_at_once_and_then_after_growing_delays():
    backoff = DeathBackoff(RetryBackoff(1.0, 8.0))
    now, delays = 100.0, []
    for _ in range(6):
        delays.append(backoff.record("one", now))
        now += delays[-1] + 0.1
    assert delays == [0, 1, 2, 4, 8, 8]
    assert backoff.record("another", now) == 0


def test_key_that_was_steady_is_converged_at_once_and_others_are_not_kept():
    backoff = DeathBackoff()
    backoff.record("gone", 100.0)
    for now in (100.0, 100.0 + STEADY):
        assert backoff.record("one", now) == 0
    assert backoff._deaths.keys() == {"one"}
