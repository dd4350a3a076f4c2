"""Steps and readers for the tests of state sources."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from attrs import evolve

from netfw.drivers.state_source import Cursor
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.port import Port
from netfw.model.resource import Ref, Resource, ref
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import Item
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.environment import Follower, SourceEnvironment
from netfw.testing.conformance.state_source.histories import (
    Commit,
    Forget,
    Read,
    Restore,
    Step,
    key,
    universe,
)

DEADLINE = 30.0
"""Seconds within which a reader has read after a hint."""


def refs(resources: Iterable[Resource]) -> set[Ref]:
    """Return the references to these resources."""
    return {ref(resource) for resource in resources}


def cursor_of(at: SourceEnvironment, subscription: Subscription) -> Cursor:
    """Return the present cursor, as an agent that has read everything has it."""
    *_, last = at.source.snapshot(subscription)
    return last.cursor


def stored(at: SourceEnvironment, port: Port) -> Port:
    """Commit *port* and return it as the backend stores it."""
    at.backend.commit((port,))
    for item in at.backend.items():
        if isinstance(item, Port) and item.id == port.id:
            return item
    raise AssertionError(f"the backend did not store {ref(port)}")


class HintedReader:
    """An agent which checks at each hint whether it can read by now that *wanted* came or went.

    Another thread reads: a hint only enqueues.  It waits for that thread, so that a hint that came
    too early finds nothing.
    """

    def __init__(
        self,
        at: SourceEnvironment,
        since: Cursor,
        wanted: Resource,
        subscription: Subscription = samples.L2_HERE,
    ) -> None:
        self._at, self._since, self._wanted = at, since, wanted
        self._subscription = subscription
        self._received = threading.Event()
        self._lock = threading.Lock()
        self._readers: list[threading.Thread] = []
        self._done = False

    def hint(self) -> None:
        reader = threading.Thread(target=self._read)
        with self._lock:
            if self._done:
                return
            reader.start()
            self._readers.append(reader)
        reader.join(DEADLINE)

    def has_received(self) -> bool:
        """Return whether *wanted* was readable after a hint; it may be late, and not the first."""
        received = self._received.wait(self._at.hint_timeout)
        with self._lock:
            self._done = True
        for reader in self._readers:
            reader.join()
        return received

    def _read(self) -> None:
        delta = self._at.source.changes(self._subscription, self._since)
        if ref(self._wanted) in refs(delta.put) | delta.drop:
            self._received.set()


def ports(at: SourceEnvironment) -> set[Ref]:
    """Return all ports."""
    return {ref(item) for item in at.backend.items() if isinstance(item, Port)}


def up(resource: Resource, host: str, service: Service = Service.L2) -> StatusReport:
    """Return the report of *host* that *resource* works."""
    return StatusReport(
        ref=ref(resource),
        revision=resource.revision,
        host=host,
        service=service,
        status=Status.ACTIVE,
    )


def take(step: Step, at: SourceEnvironment, followers: tuple[Follower, ...]) -> None:
    """Execute one step of a history."""
    match step:
        case Commit(put, remove):
            wanted = items(put)
            gone = {key(universe()[number]) for number in remove}
            at.backend.commit(wanted, tuple(gone - {key(item) for item in wanted}))
        case Read(who, times):
            for _ in range(times):
                followers[who].step()
        case Forget():
            at.backend.forget_history()
        case Restore(numbers):
            at.backend.restore(items(numbers))


def items(numbers: Iterable[int]) -> tuple[Item, ...]:
    """Return the items of these numbers; of items with the same id, the last."""
    return tuple({key(universe()[number]): universe()[number] for number in numbers}.values())


def write(at: SourceEnvironment, number: int) -> None:
    """Commit many changes, in one of several threads."""
    for turn in range(30):
        host = (samples.HERE, samples.THERE)[turn % 2]
        groups = (samples.WEB, samples.DB)[turn % 3 % 2]
        at.backend.commit((samples.port(20 + number, host, samples.NET, groups),))
        if turn % 5 == number:
            at.backend.commit((), (ref(samples.FROM_DB),))
        else:
            at.backend.commit((evolve(samples.FROM_DB, description=f"{number} {turn}"),))
