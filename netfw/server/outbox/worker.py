"""Delivery: the threads that empty the outbox."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from uuid import uuid4

from attrs import frozen

from netfw.errors import NetfwError
from netfw.model.ids import PortId
from netfw.model.resource import Kind
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import Transaction
from netfw.server.db.outbox import Lane, OutboxEntry, OutboxRows
from netfw.server.outbox.recorder import MECHANISM
from netfw.server.outbox.targets import Step, Target

LOG = logging.getLogger(__name__)

Delivered = Callable[[UnitOfWork, Collection[PortId]], object]
"""Told, in a transaction, of ports that were delivered: they may be ACTIVE now."""


@frozen(kw_only=True)
class DeliveryConfig:
    """How the outbox is emptied; times are seconds."""

    workers: int = 4
    """Lanes of one driver at a time; one that hangs holds up no other driver."""
    poll: float = 1.0
    """Between two looks for what other processes put in."""
    lease: float = 30.0
    """For which a lane is a process's own; it is renewed while the process lives."""
    first_pause: float = 1.0
    longest_pause: float = 60.0
    settle: float = 0.05
    """After which what was delivered is written down, though more of the lane follows."""


class OutboxWorkers:
    """Delivers from the outbox, each lane in order and by one thread of one process at a time.

    A process that dies loses nothing: when its lease is over another one delivers again what was
    not written down as delivered.
    """

    def __init__(
        self,
        backbone: ServerContext,
        targets: Sequence[Target],
        delivered: Delivered = lambda unit, ports: None,
        pace: DeliveryConfig | None = None,
    ) -> None:
        self._backbone, self._delivered, self._pace = backbone, delivered, pace or DeliveryConfig()
        self._targets = {target.name: target for target in targets}
        self.owner = uuid4().hex
        self._bell, self._stopped = threading.Event(), threading.Event()
        self._idle = threading.Condition()
        self._busy: set[Lane] = set()
        self._renewed = time.monotonic()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """There may be something to deliver."""
        self._bell.set()

    def start(self) -> None:
        """Deliver from now on; without targets there is no thread."""
        if self._targets and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
            self._thread.start()

    def close(self, within: float = 10.0) -> None:
        """Stop between two deliveries; others may go on with what is left.

        One that does not end *within* so many seconds is left to itself: it may be delivered again.
        """
        self._stopped.set()
        self._bell.set()
        if self._thread is None:
            return
        self._thread.join()
        deadline = time.monotonic() + within
        while self._busy and time.monotonic() < deadline:
            time.sleep(0.01)
        for lane in tuple(self._busy):
            LOG.warning("a delivery to %s does not end, and is given up", lane.driver)
        try:
            self._backbone.database.transaction(lambda tx: tx.outbox.release_all(self.owner))
        except NetfwError as exc:
            LOG.warning("lanes of the outbox are free only in %s s: %s", self._pace.lease, exc)

    def drain(self) -> None:
        """Deliver, in this thread, all that can be delivered now."""
        self._renewed = time.monotonic()
        while lanes := self._ready(frozenset(self._targets)):
            for lane in lanes:
                self._work(lane)

    # The threads.

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._renew()
                self._begin()
            except NetfwError as exc:
                LOG.warning("the outbox cannot be read, and is tried again: %s", exc)
            self._bell.wait(min(self._pace.poll, self._pace.lease / 3))
            self._bell.clear()

    def _begin(self) -> None:
        """Give lanes that are ready to threads; those of a driver that has its share wait."""
        for lane in self._ready(self._open()):
            with self._idle:
                if lane in self._busy or lane.driver not in self._open():
                    continue
                self._busy.add(lane)
            # Of its own and not of a pool: the process must be able to end while a driver hangs.
            threading.Thread(
                target=self._contained, args=(lane,), name="outbox", daemon=True
            ).start()

    def _open(self) -> frozenset[str]:
        """The drivers that can be given more."""
        shares = Counter(lane.driver for lane in tuple(self._busy))
        return frozenset(name for name in self._targets if shares[name] < self._pace.workers)

    def _contained(self, lane: Lane) -> None:
        try:
            self._work(lane)
        except NetfwError as exc:
            LOG.warning("delivery to %s is tried again: %s", lane.driver, exc)
        except Exception:
            LOG.exception("delivery to %s failed", lane.driver)
        finally:
            with self._idle:
                self._busy.discard(lane)
                self._idle.notify_all()
            self._bell.set()

    def _renew(self) -> None:
        """Renew the lease, if this process has one, before a third of it is over."""
        if time.monotonic() - self._renewed < self._pace.lease / 3:
            return
        began = time.monotonic()
        if self._busy:
            lease = self._pace.lease
            self._backbone.database.transaction(lambda tx: tx.outbox.renew(self.owner, lease))
        self._renewed = began

    # One lane.

    def _ready(self, names: frozenset[str]) -> tuple[Lane, ...]:
        if not names:
            return ()
        return self._backbone.read(lambda view: OutboxRows(view.connection).ready(names, 100))

    def _work(self, lane: Lane) -> None:
        attempt, entries = self._backbone.database.transaction(lambda tx: self._claim(tx, lane))
        while entries and not self._stopped.is_set():
            following = self._deliver(lane, entries, attempt)
            if following is None:
                return
            attempt = following
            entries = self._backbone.database.transaction(lambda tx: self._take(tx, lane))

    def _claim(self, tx: Transaction, lane: Lane) -> tuple[int, tuple[OutboxEntry, ...]]:
        """Have the lane be this process's alone: the number of the attempt, and what to deliver."""
        attempt = tx.outbox.claim(lane, self.owner, self._pace.lease)
        return (0, ()) if attempt is None else (attempt, self._take(tx, lane))

    def _take(self, tx: Transaction, lane: Lane) -> tuple[OutboxEntry, ...]:
        """What is to be delivered next, marked as tried; nothing is left: the lane is anybody's."""
        waiting = tx.outbox.waiting(lane, self._targets[lane.driver].at_once)
        if not waiting:
            tx.outbox.release(lane, self.owner)
            return ()
        ids = {entry.change.ref.id for entry in waiting}
        entries = (*tx.outbox.refused(lane, ids), *waiting)
        tx.outbox.mark_tried(entries)
        return tuple(sorted(entries, key=lambda entry: entry.number))

    def _deliver(self, lane: Lane, entries: Sequence[OutboxEntry], attempt: int) -> int | None:
        """Deliver some; the number of the next attempt, or ``None``: not now."""
        steps: list[Step] = []
        written = time.monotonic()
        for step in self._targets[lane.driver].steps(entries):
            steps.append(step)
            if step.later:
                self._settle(lane, steps, attempt)
                return None
            if time.monotonic() - written > self._pace.settle:
                self._settle(lane, steps, attempt)
                steps, written, attempt = [], time.monotonic(), 1
            if self._stopped.is_set() or not self._is_mine():
                break
        self._settle(lane, steps, attempt)
        return 1 if self._is_mine() else None

    def _is_mine(self) -> bool:
        """Whether the lease is surely not over."""
        return time.monotonic() - self._renewed < self._pace.lease

    def _settle(self, lane: Lane, steps: Sequence[Step], attempt: int) -> None:
        """Write down what became of deliveries; ports that were delivered may be ACTIVE now."""
        if not steps:
            return
        done = [entry for step in steps if not step.error for entry in step.entries]
        ports = {PortId(each.change.ref.id) for each in done if each.change.ref.kind is Kind.PORT}

        def work(unit: UnitOfWork) -> None:
            outbox, tries = unit.tx.outbox, attempt
            outbox.delete(done)
            if len(steps) > 1 or not steps[0].error:
                outbox.reset_attempts(lane, self.owner)
                tries = 1
            for step in steps:
                if step.later:
                    LOG.warning("%s is told again later: %s", lane.driver, step.error)
                    outbox.pause(lane, self.owner, self._pause(tries), step.error)
                elif step.error:
                    outbox.fail(step.entries, step.error)
            if ports and lane.driver.startswith(MECHANISM):
                self._delivered(unit, ports)

        self._backbone.run(SERVER, work)

    def _pause(self, attempt: int) -> float:
        """Longer each time, and not the same for all lanes."""
        longest = min(self._pace.longest_pause, self._pace.first_pause * 2.0 ** (attempt - 1))
        return random.uniform(0.75, 1.0) * longest
