"""Retry queue: keys to converge, with back-off per key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from attrs import evolve, frozen

from netfw.errors import NetfwError
from netfw.plan import Outcome

K = TypeVar("K", bound=Hashable)


@frozen
class RetryBackoff:
    """Pauses between attempts: each twice as long as the one before, up to the longest."""

    first: float = 1.0
    longest: float = 60.0

    def after(self, attempts: int) -> float:
        """Return the pause after so many failed attempts."""
        return min(self.first * 2.0 ** min(attempts - 1, 32), self.longest)


@frozen(kw_only=True)
class RetryEntry:
    """A key that is not converged yet."""

    since: float
    """When it began to differ from the desired state."""
    due: float
    attempts: int = 0
    tried: float = 0.0
    """When it was last tried."""
    error: NetfwError | None = None
    """Why the last attempt failed."""
    waits_for: str = ""


class RetryQueue(Generic[K]):
    """Keys to converge, each with its own pause: none delays another.

    A failed key is retried for ever.  A waiting key is too, since the event that ends the wait may
    be lost, or the driver may have none.
    """

    def __init__(self, pauses: RetryBackoff) -> None:
        self._pauses = pauses
        self._pending: dict[K, RetryEntry] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: K) -> bool:
        return key in self._pending

    def add(self, keys: Iterable[K], now: float) -> None:
        """Queue keys whose desired state changed, for now."""
        for key in keys:
            former = self._pending.get(key)
            since = now if former is None else former.since
            self._pending[key] = RetryEntry(since=since, due=now)

    def requeue(self, keys: Iterable[K], now: float, *, pause: float | None = None) -> None:
        """Queue keys that an event names, for now.

        A key that failed just now keeps *pause*, by default its first one: the attempt itself may
        have caused the event.
        """
        pause = self._pauses.first if pause is None else pause
        for key in keys:
            former = self._pending.get(key)
            if former is None:
                self._pending[key] = RetryEntry(since=now, due=now)
            elif former.error is None:
                self._pending[key] = evolve(former, due=now)
            else:
                due = min(former.due, max(now, former.tried + pause))
                self._pending[key] = evolve(former, due=due)

    def advance(self, key: K, due: float) -> None:
        """Have *key*, which is queued, retried at *due* at the latest."""
        former = self._pending[key]
        self._pending[key] = evolve(former, due=min(former.due, due))

    def add_later(self, due: Mapping[K, float], now: float) -> None:
        """Queue keys for later; those that are queued already are tried then at the latest."""
        for key, when in due.items():
            self._pending.setdefault(key, RetryEntry(since=now, due=when))
            self.advance(key, when)

    def due(self, now: float) -> frozenset[K]:
        """Return the keys to converge now."""
        return frozenset(key for key, pending in self._pending.items() if pending.due <= now)

    def when(self, key: K) -> float:
        """Return when *key*, which is queued, is due."""
        return self._pending[key].due

    def next_due(self) -> float | None:
        """Return when the next key is due; ``None``: the queue is empty."""
        return min((pending.due for pending in self._pending.values()), default=None)

    def record(self, outcome: Outcome[K], now: float) -> None:
        """Record the outcome of an attempt."""
        for key in outcome.done:
            self._pending.pop(key, None)
        for key, error in outcome.failed.items():
            self._retry(key, now, error, "")
        for key, reason in outcome.waiting.items():
            self._retry(key, now, None, reason)

    def _retry(self, key: K, now: float, error: NetfwError | None, waits_for: str) -> None:
        former = self._pending.get(key) or RetryEntry(since=now, due=now)
        attempts = former.attempts + 1
        self._pending[key] = RetryEntry(
            since=former.since,
            due=now + self._pauses.after(attempts),
            attempts=attempts,
            tried=now,
            error=error,
            waits_for=waits_for,
        )

    def oldest(self) -> float | None:
        """Return since when the oldest key is queued; ``None``: the queue is empty."""
        return min((pending.since for pending in self._pending.values()), default=None)

    @property
    def degraded(self) -> Mapping[K, str]:
        """Keys that failed and are retried, with the reason."""
        return {k: str(p.error) for k, p in self._pending.items() if p.error is not None}

    @property
    def waiting(self) -> Mapping[K, str]:
        """Keys that wait, and for what."""
        return {k: p.waits_for for k, p in self._pending.items() if p.waits_for}

    def __iter__(self) -> Iterator[K]:
        return iter(self._pending)
