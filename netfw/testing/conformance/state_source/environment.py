"""The environment of the state source suite: the backend behind a source, and a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from attrs import frozen

from netfw.drivers.state_source import Cursor, Delta, StateSource
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import CursorLost
from netfw.model.resource import Ref, Resource, ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import Assignment, Item


class SourceBackend(Protocol):
    """The backend of a source: an API, a file, the embedding program."""

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Ref | Assignment] = ()) -> None:
        """Commit all changes at once.  References to absent resources are allowed."""

    def begin(self, put: Sequence[Item] = ()) -> Callable[[], None]:
        """Begin a change; the returned function commits it.

        Others may be committed in between.  If changes cannot be begun, begin does nothing.
        """

    def items(self) -> Sequence[Item]:
        """Return all resources, as a source would deliver them."""

    def forget_history(self) -> None:
        """Drop the history so far, as after the retention."""

    def restore(self, items: Sequence[Item]) -> None:
        """Replace everything, as from a backup: the history before is void."""

    def status(self, target: Ref, service: Service) -> Status | None:
        """Return the status of *target* by the accepted reports; ``None``: there is none."""

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        """Return the role of each host of *router* by the accepted reports."""


@frozen
class SourceEnvironment:
    """A new, empty source, and the backend behind it."""

    source: StateSource
    backend: SourceBackend
    cut: Callable[[], None] | None = None
    """Makes the source unreachable; ``None``: it never is."""
    hint_timeout: float = 30.0
    """Seconds within which a hint arrives after a commit."""


class Follower:
    """An agent's cache: it reads a snapshot, then deltas, and resyncs when its cursor is lost."""

    def __init__(self, source: StateSource, subscription: Subscription) -> None:
        self.source, self.subscription = source, subscription
        self.cache: dict[Ref, Resource] = {}
        self._pages: Iterator[Delta] | None = None
        self._fresh: dict[Ref, Resource] = {}
        self._cursor: Cursor | None = None

    def step(self) -> bool:
        """Read one page, or one delta; return whether more is known to follow."""
        if self._pages is not None:
            return self._read_page(self._pages)
        if self._cursor is None:
            return self._begin()
        try:
            delta = self.source.changes(self.subscription, self._cursor)
        except CursorLost:
            return self._begin()
        self._apply(self.cache, delta)
        self._cursor = delta.cursor
        return delta.more

    def catch_up(self) -> dict[Ref, Resource]:
        """Read until nothing is left to read, and return all resources."""
        for _ in range(10_000):
            if not self.step() and self._pages is None and not self.step():
                return self.cache
        raise AssertionError("reading never comes to an end")

    def _begin(self) -> bool:
        self._pages, self._fresh = self.source.snapshot(self.subscription), {}
        return True

    def _read_page(self, pages: Iterator[Delta]) -> bool:
        delta = next(pages, None)
        assert delta is not None, "a snapshot ended on a page that announced another"
        self._apply(self._fresh, delta)
        if not delta.more:
            self.cache, self._cursor, self._pages = self._fresh, delta.cursor, None
        return True

    def _apply(self, cache: dict[Ref, Resource], delta: Delta) -> None:
        put = {ref(resource): resource for resource in delta.put}
        assert len(put) == len(delta.put), "a resource is twice in one delta"
        assert not put.keys() & delta.drop, "a resource is both put and dropped"
        cache.update(put)
        for key in delta.drop:
            cache.pop(key, None)
