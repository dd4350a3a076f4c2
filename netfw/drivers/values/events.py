"""Events that a driver sends to the agent's loop, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from attrs import field, frozen


@frozen
class Event:
    """A change of the machine; ``reason`` is for the log."""

    reason: str


def _keys(keys: Iterable[Hashable]) -> frozenset[Hashable]:
    return frozenset(keys)


@frozen
class KeysChanged(Event):
    """Keys to converge again: they can go on now, or something else changed them."""

    keys: frozenset[Hashable] = field(converter=_keys)
    delay: float = field(default=0.0, kw_only=True)
    """Seconds for which the loop waits for another event, which the backend is about to cause:
    before that the keys could not go on."""


@frozen
class ProcessDied(KeysChanged):
    """A process that serves these keys died; ``reason`` has its name and exit status."""

    fatal: bool = False
    """The configuration ends the agent instead of restarting the process."""


@frozen
class FeedLost(Event):
    """The change feed of the backend was interrupted: everything is to be observed again."""


@frozen
class BackendRecovered(FeedLost):
    """The backend answers again after it did not: what failed meanwhile is tried again at once.

    A driver sends one for each outage, when it has a new connection.
    """


Sink = Callable[[Event], None]
"""Takes an event and only enqueues it: it neither blocks nor raises."""
