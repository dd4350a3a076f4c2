"""OutboxWorkerPool: the threads that empty the outbox."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import uuid4

from attrs import frozen

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable, NetfwError
from netfw.model.resource import Kind
from netfw.model.values.ids import PortId
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import Transaction
from netfw.server.db.outbox import Lane, OutboxEntry, OutboxRows
from netfw.server.outbox.recorder import MECHANISM
from netfw.server.outbox.targets import DeliveryOutcome, DeliveryTarget

LOG = logging.getLogger(__name__)

MOST_DOUBLINGS: Final = 32
"""Doublings of the first back-off: a target that is away for days has more attempts than that."""

Delivered = Callable[[UnitOfWork, Collection[PortId]], object]
"""Callback that runs, in a transaction, for delivered ports: they may be ACTIVE now."""


@frozen(kw_only=True)
class DeliveryConfig:
    """Parameters of the delivery; times are seconds."""

    workers: int = 4
    """Lanes of one driver at a time; a driver that hangs delays no other."""
    poll: float = 1.0
    """Time between two polls for entries of other processes."""
    lease: float = 30.0
    """Time for which a process owns a lane; it is renewed while the process lives."""
    first_pause: float = 1.0
    longest_pause: float = 60.0
    settle: float = 0.05
    """Time after which deliveries are recorded, although more of the lane follows."""


class OutboxWorkerPool:
    """Delivers from the outbox, each lane in order and by one thread of one process at a time.

    A process that dies loses nothing: when its lease expires, another one repeats the deliveries
    that were not recorded.
    """

    def __init__(
        self,
        context: ServerContext,
        targets: Sequence[DeliveryTarget],
        delivered: Delivered = lambda unit, ports: None,
        pace: DeliveryConfig | None = None,
    ) -> None:
        self._context, self._delivered, self._pace = context, delivered, pace or DeliveryConfig()
        self._targets = {target.name: target for target in targets}
        self.owner = uuid4().hex
        self._wakeup, self._stopped = threading.Event(), threading.Event()
        self._idle = threading.Condition()
        self._busy: set[Lane] = set()
        self._renewed = time.monotonic()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Wake the workers, because there may be something to deliver."""
        self._wakeup.set()

    def start(self) -> None:
        """Start delivering; without targets there is no thread.

        :raises BackendUnavailable: the machine has no thread left.
        """
        if self._targets and self._thread is None:
            self._thread = start_daemon_thread("outbox", "the outbox", self._run)

    def close(self, within: float = 10.0) -> None:
        """Stop between two deliveries; other processes may go on with what is left.

        A delivery that does not end *within* so many seconds is abandoned: it may be repeated.
        """
        self._stopped.set()
        self._wakeup.set()
        if self._thread is None:
            return
        self._thread.join()
        deadline = time.monotonic() + within
        while self._busy and time.monotonic() < deadline:
            time.sleep(0.01)
        for lane in tuple(self._busy):
            LOG.warning("outbox: delivery to %s does not end; abandoning it", lane.driver)
        try:
            self._context.database.transaction(lambda tx: tx.outbox.release_all(self.owner))
        except NetfwError as exc:
            LOG.warning("outbox: lanes stay leased for %s s: %s", self._pace.lease, exc)

    def drain(self) -> None:
        """Deliver, in this thread, all that can be delivered now."""
        self._renewed = time.monotonic()
        while lanes := self._ready(frozenset(self._targets)):
            for lane in lanes:
                self._work(lane)

    # Threads.

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._renew()
                self._start_lanes()
            except NetfwError as exc:
                LOG.warning("outbox: reading failed, retrying: %s", exc)
            except Exception:
                LOG.exception("outbox: internal error; continuing")
            self._wakeup.wait(min(self._pace.poll, self._pace.lease / 3))
            self._wakeup.clear()

    def _start_lanes(self) -> None:
        """Start threads for lanes that are ready, up to the limit of each driver."""
        for lane in self._ready(self._open()):
            with self._idle:
                if lane in self._busy or lane.driver not in self._open():
                    continue
                self._busy.add(lane)
            # A thread outside of any pool: the process must be able to end while a driver hangs.
            try:
                start_daemon_thread("outbox", f"delivery to {lane.driver}", self._run_lane, lane)
            except BackendUnavailable:
                self._finish(lane)
                raise

    def _open(self) -> frozenset[str]:
        """Return the drivers that are below their limit."""
        shares = Counter(lane.driver for lane in tuple(self._busy))
        return frozenset(name for name in self._targets if shares[name] < self._pace.workers)

    def _run_lane(self, lane: Lane) -> None:
        try:
            self._work(lane)
        except NetfwError as exc:
            LOG.warning("outbox: delivery to %s failed, retrying: %s", lane.driver, exc)
        except Exception:
            LOG.exception("outbox: delivery to %s failed", lane.driver)
        finally:
            self._finish(lane)
            self._wakeup.set()

    def _finish(self, lane: Lane) -> None:
        with self._idle:
            self._busy.discard(lane)
            self._idle.notify_all()

    def _renew(self) -> None:
        """Renew the leases of busy lanes, before a third of it is over.

        That of a lane whose thread failed expires: then the lane is tried again.
        """
        if time.monotonic() - self._renewed < self._pace.lease / 3:
            return
        began = time.monotonic()
        with self._idle:
            lanes, lease = tuple(self._busy), self._pace.lease
        if lanes:
            self._context.database.transaction(lambda tx: tx.outbox.renew(self.owner, lanes, lease))
        self._renewed = began

    # One lane.

    def _ready(self, names: frozenset[str]) -> tuple[Lane, ...]:
        if not names:
            return ()
        return self._context.read(lambda view: OutboxRows(view.connection).ready(names, 100))

    def _work(self, lane: Lane) -> None:
        attempt, entries = self._context.database.transaction(lambda tx: self._claim(tx, lane))
        while entries and not self._stopped.is_set():
            following = self._deliver(lane, entries, attempt)
            if following is None:
                return
            attempt = following
            entries = self._context.database.transaction(lambda tx: self._take(tx, lane))

    def _claim(self, tx: Transaction, lane: Lane) -> tuple[int, tuple[OutboxEntry, ...]]:
        """Acquire the lane for this process; return the number of the attempt, and the entries."""
        attempt = tx.outbox.claim(lane, self.owner, self._pace.lease)
        return (0, ()) if attempt is None else (attempt, self._take(tx, lane))

    def _take(self, tx: Transaction, lane: Lane) -> tuple[OutboxEntry, ...]:
        """Return the next entries, marked as tried; release the lane if there are none."""
        waiting = tx.outbox.waiting(lane, self._targets[lane.driver].at_once)
        if not waiting:
            tx.outbox.release(lane, self.owner)
            return ()
        ids = {entry.change.ref.id for entry in waiting}
        entries = (*tx.outbox.refused(lane, ids), *waiting)
        tx.outbox.mark_tried(entries)
        return tuple(sorted(entries, key=lambda entry: entry.number))

    def _deliver(self, lane: Lane, entries: Sequence[OutboxEntry], attempt: int) -> int | None:
        """Deliver *entries*; return the number of the next attempt, or ``None``: not now."""
        steps: list[DeliveryOutcome] = []
        written = time.monotonic()
        for step in self._targets[lane.driver].steps(entries):
            steps.append(step)
            if step.later:
                self._record(lane, steps, attempt)
                return None
            if time.monotonic() - written > self._pace.settle:
                self._record(lane, steps, attempt)
                steps, written, attempt = [], time.monotonic(), 1
            if self._stopped.is_set() or not self._holds_lease():
                break
        self._record(lane, steps, attempt)
        return 1 if self._holds_lease() else None

    def _holds_lease(self) -> bool:
        """Return whether the lease certainly holds."""
        return time.monotonic() - self._renewed < self._pace.lease

    def _record(self, lane: Lane, steps: Sequence[DeliveryOutcome], attempt: int) -> None:
        """Record the outcome of deliveries; delivered ports may be ACTIVE now."""
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
                    LOG.warning("outbox: delivery to %s deferred: %s", lane.driver, step.error)
                    outbox.pause(lane, self.owner, self._pause(tries), step.error)
                elif step.error:
                    outbox.fail(step.entries, step.error)
            if ports and lane.driver.startswith(MECHANISM):
                self._delivered(unit, ports)

        self._context.run(SERVER, work)

    def _pause(self, attempt: int) -> float:
        """Return a back-off that grows, with jitter."""
        doubled = self._pace.first_pause * 2.0 ** min(attempt - 1, MOST_DOUBLINGS)
        return random.uniform(0.75, 1.0) * min(self._pace.longest_pause, doubled)
