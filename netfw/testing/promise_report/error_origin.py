"""Decide by a traceback whether a hook of the vendor's suite is wrong, or the driver."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.registry.error_location import (
    frames_of,
    location_in,
    package_of,
    top_package,
)

_TESTING: Final = "netfw.testing."
_OWN: Final = frozenset({"netfw", "builtins", "abc", "typing"})
_FINDINGS: Final = (AssertionError, TimeoutError)
"""What a hook raises about the machine: the driver did not do what the hook expects."""
_WRONG_CALL: Final = re.compile(r"([\w.<>]+)\.(\w+)\(\) (?:takes|missing|got) ")


@frozen
class ErrorOrigin:
    """Where an error comes from."""

    hook: str = ""
    """The hook that is wrong; empty for an error of the driver, and for a finding."""
    location: str = ""
    """File and line in the vendor's code, as the end of a text; empty if it has no part in it."""


def find_origin(error: BaseException, suite: object, test: str) -> ErrorOrigin:
    """Return the origin of *error*, which *test* of the object *suite* raised."""
    frames = [frame for frame, _ in frames_of(error)]
    for frame in reversed(frames):
        if _is_of_driver(frame):
            return ErrorOrigin(location=location_in(package_of(frame), error))
    own = {top_package(base.__module__) for base in type(suite).__mro__} - _OWN
    for frame in frames:
        if frame.f_code.co_name != test and _is_of_hook(frame, own):
            location = location_in(package_of(frame), error)
            return ErrorOrigin(_name(frame) if _is_defect(error) else "", location)
    return _wrong_call(error, frames, suite) or ErrorOrigin(_missing_hook(error, frames))


def _is_defect(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, _FINDINGS)


def _is_of_driver(frame: FrameType) -> bool:
    if _module(frame).startswith(_TESTING):
        return False
    first = _first_argument(frame)
    return isinstance(first, Driver) or (isinstance(first, type) and issubclass(first, Driver))


def _is_of_hook(frame: FrameType, own: set[str]) -> bool:
    package = package_of(frame)
    return package in own or (package not in _OWN and _is_suite(type(_first_argument(frame))))


def _is_suite(kind: type) -> bool:
    """Return whether *kind* is a suite, an environment, or another class with hooks."""
    return any(base.__module__.startswith(_TESTING) for base in kind.__mro__)


def _wrong_call(error: BaseException, frames: list[FrameType], suite: object) -> ErrorOrigin | None:
    """Return the origin if a suite of netfw could not call a hook: its parameters are wrong."""
    match = _WRONG_CALL.match(str(error))
    called_by = [frame for frame in frames if _module(frame) != "contextlib"]
    if not isinstance(error, TypeError) or match is None or not called_by:
        return None
    owner, name = match.groups()
    for kind in _kinds(called_by[-1], suite):
        function = inspect.unwrap(vars(kind).get(name, len))
        if kind.__qualname__ == owner and inspect.isfunction(function):
            code = function.__code__
            location = f" (in {code.co_filename}, line {code.co_firstlineno})"
            return ErrorOrigin(name, location)
    return None


def _kinds(frame: FrameType, suite: object) -> Iterator[type]:
    """Yield the vendor's classes with hooks that *frame* can reach."""
    attributes = getattr(suite, "__dict__", {})
    for value in (suite, *attributes.values(), *frame.f_locals.values()):
        if _is_suite(type(value)):
            yield from (
                base for base in type(value).__mro__ if top_package(base.__module__) not in _OWN
            )


def _missing_hook(error: BaseException, frames: list[FrameType]) -> str:
    """Return the hook of a suite of netfw that a vendor has to override, and did not."""
    is_missing = isinstance(error, NotImplementedError) and frames
    return _name(frames[-1]) if is_missing and _module(frames[-1]).startswith(_TESTING) else ""


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _name(frame: FrameType) -> str:
    """Return the name of the function, or of the one in which it is defined."""
    return frame.f_code.co_qualname.partition(".<locals>")[0].rpartition(".")[2]


def _first_argument(frame: FrameType) -> Any:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
