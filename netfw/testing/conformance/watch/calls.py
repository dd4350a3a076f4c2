"""Watches every call of the driver objects that are made within a context.

The methods of the drivers' classes are wrapped where they are defined, for as long as the context
lasts.  What a driver calls of itself or of another driver is part of the outermost call.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import define, evolve, field

from netfw.drivers.base import Driver
from netfw.testing.conformance.common.call_counter import not_counted
from netfw.testing.conformance.watch.call_rules import (
    SLEEP_LIMIT,
    WAIT_LIMIT,
    CallRule,
    call_rules,
)
from netfw.testing.conformance.watch.fingerprint import fingerprint
from netfw.testing.conformance.watch.io_events import (
    CONSTRUCTION,
    observed_construction,
    observed_io,
)
from netfw.testing.conformance.watch.process_state import (
    ProcessState,
    is_output_shared,
    process_changes,
    read_process_state,
)
from netfw.testing.conformance.watch.result_checks import error_texts, result_errors
from netfw.testing.conformance.watch.shared_state import (
    SharedState,
    read_shared_state,
    shared_changes,
)

_active: list[CallWatch] = []
"""Watches that learn of new drivers: there is one hook for the process."""
_sleep = time.sleep


@define
class _Call:
    """A call in progress."""

    rule: CallRule
    driver: str
    """The name of the driver's class."""
    wrong: list[str] = field(factory=list)
    late: list[str] = field(factory=list)
    """What is wrong unless the call fails: the backend may not answer."""
    slept: float = 0.0

    def sentences(self) -> list[str]:
        """Return what is wrong, with the name of the call."""
        return [f"{self.driver}.{self.rule.name}: {each}" for each in dict.fromkeys(self.wrong)]


class CallWatch:
    """What the calls of drivers did that they must not do."""

    def __init__(self, wait_limit: float = WAIT_LIMIT) -> None:
        self.wait_limit = wait_limit
        self._unreported: list[str] = []
        self._owner = threading.get_ident()
        self._thread = threading.local()
        self._wrapped: dict[tuple[type, str], object] = {}
        self._rules: dict[type, dict[str, CallRule]] = {}
        self._shared: dict[type, SharedState] = {}
        self._secrets: frozenset[str] = frozenset()

    def raise_unreported(self) -> None:
        """Raise what no call could raise: that of other threads, and of calls that failed."""
        broken, self._unreported = self._unreported, []
        for driver, before in self._shared.items():
            for what in shared_changes(before, read_shared_state(driver)):
                broken.append(f"{driver.__name__} breaks promise 6 of Driver: {what}")
        if broken:
            raise AssertionError("\n".join(dict.fromkeys(broken)))

    def report(self, broken: str) -> None:
        """Record a broken promise."""
        self._unreported.append(broken)

    def adopt(self, driver: Driver) -> None:
        """Watch the calls of *driver*, which is being made."""
        kind = type(driver)
        if kind not in self._rules:
            self._rules[kind] = rules = call_rules(kind)
            for name in rules:
                self._wrap(kind, name)
            self._shared[kind] = read_shared_state(kind)
        if any(getattr(option, "secret", False) for option in kind.OPTIONS):
            self._secrets |= _secret_values(kind)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not watch this thread for a while: its calls are counted."""
        self._thread.is_suspended = True
        try:
            yield
        finally:
            self._thread.is_suspended = False

    def close(self) -> None:
        """Give the classes back their methods."""
        for (owner, name), original in self._wrapped.items():
            setattr(owner, name, original)

    def _wrap(self, kind: type, name: str) -> None:
        owner = next(base for base in kind.__mro__ if name in vars(base))
        original = vars(owner)[name]
        if (owner, name) in self._wrapped or not _is_method(original):
            return

        @functools.wraps(original)
        def call(driver: Any, *arguments: Any, **named: Any) -> Any:
            rule = self._rules.get(type(driver), {}).get(name)
            former = getattr(self._thread, "call", None)
            is_nested = former is not None and rule is not None and rule.promise is None
            if rule is None or is_nested or getattr(self._thread, "is_suspended", False):
                return original(driver, *arguments, **named)
            run = functools.partial(original, driver, *arguments, **named)
            return self._observe(_Call(rule, type(driver).__name__), former, run, arguments)

        self._wrapped[owner, name] = original
        setattr(owner, name, call)

    def _observe(
        self, call: _Call, former: _Call | None, run: Callable[[], Any], arguments: tuple[Any, ...]
    ) -> Any:
        self._thread.call = call
        try:
            with self._measured(call), _unchanged_arguments(call, arguments):
                result = run()
        except BaseException as error:
            call.wrong += error_texts(error)
            self._unreported += call.sentences()
            if call.rule.name == "problems" and isinstance(error, Exception):
                raise AssertionError(
                    f"{call.driver}.problems: promise 2 of Driver: it raised {error!r}"
                ) from error
            raise
        finally:
            self._thread.call = former
        call.wrong += call.late
        call.wrong += not_counted(
            lambda: result_errors(call.rule.name, arguments, result, self._secrets)
        )
        if call.wrong and threading.get_ident() == self._owner:
            raise AssertionError("\n".join(call.sentences()))
        self._unreported += call.sentences()
        return result

    @contextmanager
    def _measured(self, call: _Call) -> Iterator[None]:
        before, began, computed = read_process_state(), time.monotonic(), time.thread_time()
        try:
            if call.rule.is_without_io:
                with observed_io() as events:
                    yield
                if events:
                    call.wrong.append(
                        f"{call.rule.promise}: it touched files, sockets or processes: "
                        f"{'; '.join(events[:3])}"
                    )
            else:
                yield
        finally:
            waited = time.monotonic() - began - (time.thread_time() - computed)
            call.wrong += self._process_changes(before)
            if waited > self.wait_limit and not call.late:
                call.late.append(
                    f"promise 5 of Driver: it waited {waited:.0f} seconds; "
                    f"a call waits {self.wait_limit:.0f} at most"
                )

    def _process_changes(self, before: ProcessState) -> list[str]:
        """Return what changed in the process; the test may change it beside other threads."""
        if threading.get_ident() != self._owner:
            return []
        after = read_process_state()
        if after.standard_output != before.standard_output and is_output_shared():
            after = evolve(after, standard_output=before.standard_output)
        return [f"promise 4 of Driver: {change}" for change in process_changes(before, after)]

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the call of a driver that this thread executes must not sleep so long."""
        call: _Call | None = getattr(self._thread, "call", None)
        if call is None:
            return _sleep(seconds)
        call.slept += seconds
        if call.rule.promise is not None:
            call.wrong.append(
                f"{call.rule.promise}: it sleeps {seconds:g} seconds "
                f"and must not wait: other requests wait for it"
            )
        elif call.slept > SLEEP_LIMIT:
            if not call.late:
                call.late.append(
                    f"promise 5 of Driver: it sleeps {call.slept:g} seconds; "
                    f"a call waits {self.wait_limit:.0f} at most"
                )
        else:
            _sleep(seconds)
        return None


@contextmanager
def watched_calls(wait_limit: float = WAIT_LIMIT) -> Iterator[CallWatch]:
    """Watch the drivers that are made in this context.

    :raises AssertionError: a call broke a promise, and could not raise it itself.
    """
    _install_hook()
    watch = CallWatch(wait_limit)

    def report(driver: type, event: str) -> None:
        watch.report(f"{driver.__name__} breaks promise 1 of Driver: construction does {event}")

    _active.append(watch)
    time.sleep = watch.sleep  # type: ignore[assignment]
    try:
        with observed_construction(report):
            yield watch
    finally:
        time.sleep = _sleep
        _active.remove(watch)
        watch.close()
    watch.raise_unreported()


@contextmanager
def unwatched() -> Iterator[None]:
    """Suspend every watch for this thread."""
    with ExitStack() as stack:
        for watch in _active:
            stack.enter_context(watch.suspended())
        yield


@contextmanager
def _unchanged_arguments(call: _Call, arguments: tuple[Any, ...]) -> Iterator[None]:
    if call.rule.name not in {"plan", "converge", "bind", "validate", "deliver"}:
        yield
        return
    before = not_counted(lambda: fingerprint(arguments))
    yield
    if not_counted(lambda: fingerprint(arguments)) != before:
        promise = "promise 1 of Reconciler: " if call.rule.name == "plan" else ""
        call.wrong.append(f"{promise}it changed its arguments")


def _is_method(member: object) -> bool:
    return callable(member) and not isinstance(member, classmethod | staticmethod | type)


@functools.cache
def _install_hook() -> None:
    """Have `Driver` announce its objects, once: a class does not forget that it had ``__new__``."""

    def new(kind: type[Driver], *arguments: object, **named: object) -> Driver:
        if (arguments or named) and kind.__init__ is object.__init__:
            raise TypeError(f"{kind.__name__}() takes no arguments")
        made: Driver = object.__new__(kind)
        for watch in _active:
            watch.adopt(made)
        return made

    Driver.__new__ = staticmethod(new)  # type: ignore[method-assign, assignment]


def _secret_values(kind: type[Driver]) -> frozenset[str]:
    """Return the values of secret options of the ``from_conf`` that makes a driver now."""
    names = [option.dest for option in kind.OPTIONS if option.secret]
    frame = sys._getframe(1)
    found: set[str] = set()
    while (caller := frame.f_back) is not None:
        frame = caller
        if frame.f_code.co_name in CONSTRUCTION and "options" in frame.f_locals:
            options = frame.f_locals["options"]
            found |= {str(options[name]) for name in names if options.get(name)}
    return frozenset(found)
