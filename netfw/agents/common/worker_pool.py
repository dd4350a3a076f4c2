"""Crew: a bounded number of threads that carry out orders, of each group one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

from attrs import frozen

G = TypeVar("G", bound=Hashable)
O = TypeVar("O")  # noqa: E741 - an order
R = TypeVar("R")


TOGETHER: Final = 0.25
"""Seconds within which results are collected together while many more are to come."""


@frozen
class JobResult(Generic[O, R]):
    """An order that was carried out, and what came of it."""

    order: O
    result: R


class KeyedWorkerPool(Generic[G, O, R]):
    """Carries out orders in at most *size* threads.

    Orders of one group are carried out one after the other; those of different groups at the same
    time.  One that comes while an older of its group still waits is joined with it by *join*, so
    that nothing outdated is done.  Urgent ones go first.  *work* does not raise; *finished* is
    called, from any thread, when there is something to collect: at once, unless so many orders
    wait that it is better collected together with what comes next.
    """

    def __init__(
        self,
        size: int,
        work: Callable[[O], R],
        join: Callable[[O, O], O],
        finished: Callable[[], None],
    ) -> None:
        self._size, self._work, self._join, self._finished = size, work, join, finished
        self._news = threading.Condition()
        self._urgent: dict[G, O] = {}
        self._patient: dict[G, O] = {}
        self._running: set[G] = set()
        self._reports: list[JobResult[O, R]] = []
        self._told_at, self._is_told = 0.0, False
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def give(self, group: G, order: O, *, urgent: bool) -> None:
        """Have an order carried out."""
        with self._news:
            queue = self._urgent if urgent or group in self._urgent else self._patient
            former = self._urgent.pop(group, None) or self._patient.pop(group, None)
            queue[group] = order if former is None else self._join(former, order)
            waiting = len(self._urgent) + len(self._patient)
            if waiting > self._idle and len(self._threads) < self._size:
                name = f"netfw-crew-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._news.notify_all()

    def recall(self) -> list[O]:
        """Take back the orders that nobody has begun."""
        with self._news:
            orders = [*self._urgent.values(), *self._patient.values()]
            self._urgent.clear()
            self._patient.clear()
            return orders

    @property
    def busy(self) -> bool:
        """Whether an order is being carried out or waits to be."""
        with self._news:
            return bool(self._running or self._urgent or self._patient)

    def wait(self, groups: Iterable[G], seconds: float) -> None:
        """Return when the orders of all *groups* were carried out, or after so many seconds."""
        asked = frozenset(groups)

        def done() -> bool:
            pending = self._running | self._urgent.keys() | self._patient.keys()
            return self._closed or asked.isdisjoint(pending)

        with self._news:
            self._news.wait_for(done, seconds)

    def collect(self) -> list[JobResult[O, R]]:
        """What was carried out since this was last asked, in order."""
        with self._news:
            reports, self._reports = self._reports, []
            self._is_told = False
            return reports

    def close(self, seconds: float = 10.0) -> None:
        """Begin nothing more, and wait so many seconds for what was begun."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            group, order = taken
            result = self._work(order)
            with self._news:
                self._running.discard(group)
                self._reports.append(JobResult(order, result))
                tell = self._is_worth_telling()
                self._news.notify_all()
            if tell:
                self._finished()

    def _is_worth_telling(self) -> bool:
        """Whether to say that there is something to collect; if not, another one will."""
        now = time.monotonic()
        many = len(self._urgent) + len(self._patient) > self._size
        if self._is_told or (many and now - self._told_at < TOGETHER):
            return False
        self._told_at, self._is_told = now, True
        return True

    def _take(self) -> tuple[G, O] | None:
        """The next order; ``None``: there will be none."""
        with self._news:
            while not self._closed:
                for queue in (self._urgent, self._patient):
                    group = next((each for each in queue if each not in self._running), None)
                    if group is not None:
                        self._running.add(group)
                        return group, queue.pop(group)
                self._idle += 1
                self._news.wait()
                self._idle -= 1
            return None
