"""Agenda: what is not done yet, since when, and when to try it again."""

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
        """How long to wait after so many attempts that failed."""
        return min(self.first * 2.0 ** min(attempts - 1, 32), self.longest)


@frozen(kw_only=True)
class RetryEntry:
    """Something that is not done yet."""

    since: float
    """When it began to differ from what is wanted."""
    due: float
    attempts: int = 0
    tried: float = 0.0
    """When it was last tried."""
    error: NetfwError | None = None
    """Why the last attempt failed."""
    waits_for: str = ""


class RetryQueue(Generic[K]):
    """Keys that are to be converged.  Each has a pause of its own: none delays another.

    What fails is tried again for ever.  What waits is too, in case the event that ends the wait
    is lost or the driver has none.
    """

    def __init__(self, pauses: RetryBackoff) -> None:
        self._pauses = pauses
        self._pending: dict[K, RetryEntry] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: K) -> bool:
        return key in self._pending

    def add(self, keys: Iterable[K], now: float) -> None:
        """These are wanted differently now: try them at once."""
        for key in keys:
            former = self._pending.get(key)
            since = now if former is None else former.since
            self._pending[key] = RetryEntry(since=since, due=now)

    def requeue(self, keys: Iterable[K], now: float) -> None:
        """Something happened to these: try them at once.

        One that failed just now is given its first pause: an attempt may itself make the noise
        that comes back as an event.
        """
        for key in keys:
            former = self._pending.get(key)
            if former is None:
                self._pending[key] = RetryEntry(since=now, due=now)
            elif former.error is None:
                self._pending[key] = evolve(former, due=now)
            else:
                due = min(former.due, max(now, former.tried + self._pauses.first))
                self._pending[key] = evolve(former, due=due)

    def due(self, now: float) -> frozenset[K]:
        """What to try now."""
        return frozenset(key for key, pending in self._pending.items() if pending.due <= now)

    def when(self, key: K) -> float:
        """When *key*, which is on the agenda, is to be tried."""
        return self._pending[key].due

    def next_due(self) -> float | None:
        """When to look again; ``None``: nothing is left to do."""
        return min((pending.due for pending in self._pending.values()), default=None)

    def record(self, outcome: Outcome[K], now: float) -> None:
        """Note what became of an attempt."""
        for key in outcome.done:
            self._pending.pop(key, None)
        for key, error in outcome.failed.items():
            self._again(key, now, error, "")
        for key, reason in outcome.waiting.items():
            self._again(key, now, None, reason)

    def _again(self, key: K, now: float, error: NetfwError | None, waits_for: str) -> None:
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
        """Since when something is not as it should be; ``None``: all is."""
        return min((pending.since for pending in self._pending.values()), default=None)

    @property
    def degraded(self) -> Mapping[K, str]:
        """What failed and is tried again, with the reason."""
        return {k: str(p.error) for k, p in self._pending.items() if p.error is not None}

    @property
    def waiting(self) -> Mapping[K, str]:
        """What waits, and for what."""
        return {k: p.waits_for for k, p in self._pending.items() if p.waits_for}

    def __iter__(self) -> Iterator[K]:
        return iter(self._pending)
