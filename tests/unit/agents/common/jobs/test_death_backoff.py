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


def test_key_that_was_steady_is_converged_at_once():
    backoff = DeathBackoff()
    for now in (100.0, 100.0 + STEADY):
        assert backoff.record("one", now) == 0
    assert backoff.record("one", 100.1 + STEADY) > 0


def test_keys_that_are_steady_again_are_dropped():
    backoff = DeathBackoff()
    for number in range(5000):
        backoff.record(number, 100.0 + number)
    assert len(backoff._deaths) < 200


class CountedKey:
    hashed = 0

    def __hash__(self):
        CountedKey.hashed += 1
        return id(self)


def test_each_of_many_deaths_at_once_costs_the_same():
    backoff = DeathBackoff()
    keys = [CountedKey() for _ in range(5000)]
    for key in keys:
        backoff.record(key, 100.0)
    assert CountedKey.hashed < 5 * len(keys)
