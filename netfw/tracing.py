"""Spans of a distributed trace, from an API request to the flows of a switch.

Without a tracer, which is the default, nothing is recorded, and a call costs a comparison.  Trace
contexts travel between processes as texts in the form of the header ``traceparent`` of W3C.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

MAX_ORIGINS: Final = 32
"""Trace contexts that a span can follow from."""
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_ORIGINS: ContextVar[tuple[str, ...]] = ContextVar("netfw_trace_origins", default=())


class Span(Protocol):
    """A span that is under way."""

    def set(self, name: str, value: str | int | float) -> None:
        """Set an attribute."""


class Tracer(Protocol):
    """What records spans."""

    def span(
        self, name: str, parents: Sequence[str], attributes: dict[str, str | int]
    ) -> AbstractContextManager[Span]:
        """Record a span for a block: a child of the first of *parents*, or of the current one."""

    def current(self) -> str:
        """Return the context of the current span; empty outside any."""


class _NoSpan:
    """The span of a process that records none."""

    def __enter__(self) -> _NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set(self, name: str, value: str | int | float) -> None:
        pass


NO_SPAN: Final = _NoSpan()
"""The span of every block while nothing is recorded."""


class _Installed:
    """The tracer of this process."""

    tracer: Tracer | None = None


@contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Record the spans of this process by *tracer*, within the block."""
    former, _Installed.tracer = _Installed.tracer, tracer
    try:
        yield
    finally:
        _Installed.tracer = former


def is_on() -> bool:
    """Return whether spans are recorded."""
    return _Installed.tracer is not None


def span(
    name: str, parents: Sequence[str] = (), **attributes: str | int
) -> AbstractContextManager[Span]:
    """Record a span for a block: a child of the first of *parents*, or of the current one."""
    tracer = _Installed.tracer
    return NO_SPAN if tracer is None else tracer.span(name, parents, attributes)


def inner_span(name: str, **attributes: str | int) -> AbstractContextManager[Span]:
    """Record a span for a block, unless it is outside any: periodic work is not traced."""
    tracer = _Installed.tracer
    if tracer is None or not tracer.current():
        return NO_SPAN
    return tracer.span(name, (), attributes)


def current() -> str:
    """Return the context of the current span; empty: there is none."""
    tracer = _Installed.tracer
    return "" if tracer is None else tracer.current()


def valid_contexts(raws: object) -> tuple[str, ...]:
    """Return the trace contexts in what a peer has sent, as many as a span can follow from."""
    if not isinstance(raws, list | tuple):
        return ()
    found = (raw for raw in raws[:MAX_ORIGINS] if isinstance(raw, str))
    return tuple(raw for raw in found if _TRACEPARENT.fullmatch(raw))


def follow(contexts: Iterable[str]) -> None:
    """Have the next span that `take_followed` begins in this thread follow from *contexts*."""
    if is_on():
        known = _ORIGINS.get()
        fresh = (each for each in dict.fromkeys(contexts) if each not in known)
        _ORIGINS.set((*known, *fresh)[:MAX_ORIGINS])


def take_followed() -> tuple[str, ...]:
    """Return what `follow` has noted in this thread, once."""
    found = _ORIGINS.get()
    if found:
        _ORIGINS.set(())
    return found


class RecentTraces:
    """Trace contexts of the newest commits of this process, by their numbers."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._contexts: OrderedDict[int, tuple[str, ...]] = OrderedDict()

    def note(self, commit: int, contexts: Sequence[str]) -> None:
        """Note the requests that made a commit; without any, nothing."""
        if not contexts:
            return
        with self._lock:
            self._contexts[commit] = tuple(contexts)
            if len(self._contexts) > self._limit:
                self._contexts.popitem(last=False)

    def of(self, commits: Iterable[int]) -> tuple[str, ...]:
        """Return the contexts of *commits*, as many as a span can follow from."""
        if not self._contexts:
            return ()
        with self._lock:
            found = [
                context
                for commit in sorted(set(commits))
                for context in self._contexts.get(commit, ())
            ]
        return tuple(dict.fromkeys(found))[:MAX_ORIGINS]
