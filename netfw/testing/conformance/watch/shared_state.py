"""State that driver objects share by accident: attributes of classes, variables of modules."""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Generic

from netfw.testing.conformance.watch.rules import is_contract

_CONSTANT = (FunctionType, ModuleType, type, classmethod, staticmethod, property)
SharedState = dict[str, tuple[int, int]]


def read_shared_state(driver: type) -> SharedState:
    """Return the variables of the classes and modules of *driver* that are not netfw's contracts.

    Each with its identity and, for a container, its length.
    """
    return dict(_variables(driver))


def shared_changes(before: SharedState, after: SharedState) -> Iterator[str]:
    """Yield the variables that were bound anew or grew, in words.  Pure."""
    for name, now in after.items():
        if before.get(name) != now:
            yield f"{name} changed, which all drivers of the process share"


def _variables(driver: type) -> Iterator[tuple[str, tuple[int, int]]]:
    modules = set()
    for base in driver.__mro__:
        if is_contract(base) or base in {ABC, Generic, object}:
            continue
        if base.__module__ not in sys.stdlib_module_names:  # of a class that was made by a call
            modules.add(base.__module__)
        yield from _described(f"{base.__name__}.", vars(base))
    for module in modules & sys.modules.keys():
        yield from _described(f"{module}.", vars(sys.modules[module]))


def _described(prefix: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, int]]]:
    for name, value in list(variables.items()):
        if not name.startswith("__") and not name.startswith("_abc") and not _is_constant(value):
            length = len(value) if isinstance(value, dict | list | set) else 0
            yield prefix + name, (id(value), length)


def _is_constant(value: object) -> bool:
    return isinstance(value, _CONSTANT) or callable(value)
