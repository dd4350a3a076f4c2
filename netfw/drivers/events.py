"""What a driver tells the loop by itself, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from attrs import field, frozen


@frozen
class Event:
    """Something happened on the machine; ``reason`` is for the log."""

    reason: str


def _keys(keys: Iterable[Hashable]) -> frozenset[Hashable]:
    return frozenset(keys)


@frozen
class KeysChanged(Event):
    """Converge these keys again: what they wait for has come, or somebody changed them."""

    keys: frozenset[Hashable] = field(converter=_keys)


@frozen
class ProcessDied(KeysChanged):
    """A process that serves these keys died; ``reason`` says which, and how it ended."""

    fatal: bool = False
    """The operator wants the agent to end, instead of having the process started again."""


@frozen
class FeedLost(Event):
    """The backend's change feed was interrupted: observe everything again."""


Sink = Callable[[Event], None]
"""Takes an event and only enqueues it: it neither blocks nor raises."""
