"""State that driver objects share by accident: attributes of classes, variables of modules."""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, Generic

from netfw.testing.conformance.watch.call_rules import is_contract

_CONSTANT = (FunctionType, ModuleType, type, classmethod, staticmethod, property)
_TESTS = frozenset({"tests", "conformance", "conftest"})
Variables = dict[str, tuple[int, int]]
SharedState = dict[str, Variables]


def read_shared_state(driver: type) -> SharedState:
    """Return the variables that objects of *driver* share, by class or module.

    Those of its classes, and of all imported modules of its author's package, but not those of
    netfw's contracts, nor of tests.  Each with its identity and, for a container, its length.
    """
    own = [base for base in driver.__mro__ if not is_contract(base)]
    own = [base for base in own if base not in {ABC, Generic, object}]
    found: SharedState = {}
    for base in own:
        found.setdefault(base.__name__, {}).update(_described(vars(base), frozenset()))
    modules = {base.__module__ for base in own} - sys.stdlib_module_names
    packages = frozenset(module.partition(".")[0] for module in modules)
    modules |= {name for name in list(sys.modules) if _is_own(name, packages)}
    for name in modules & sys.modules.keys():
        found[name] = dict(_described(vars(sys.modules[name]), packages))
    return found


def shared_changes(before: SharedState, after: SharedState) -> Iterator[str]:
    """Yield the variables that were bound anew or grew, in words.  Pure.

    A module that was imported in between is no change.
    """
    for owner, variables in before.items():
        for name, now in after.get(owner, {}).items():
            if variables.get(name) != now:
                yield f"{owner}.{name} changed, which all drivers of the process share"


@cache
def _is_own(module: str, packages: frozenset[str]) -> bool:
    """Return whether a module is one of *packages*, and neither of tests nor of netfw itself."""
    parts = module.split(".")
    return parts[0] in packages - {"netfw"} and not any(map(_is_test, parts))


def _is_test(part: str) -> bool:
    return part in _TESTS or part.startswith("test_")


def _described(
    variables: Mapping[str, Any], packages: frozenset[str]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield *variables*, and the attributes of those that are objects of *packages*."""
    for name, value in list(variables.items()):
        if name.startswith(("__", "_abc")) or _is_constant(value):
            continue
        length = len(value) if isinstance(value, dict | list | set) else 0
        yield name, (id(value), length)
        if type(value).__module__.partition(".")[0] in packages and not _is_frozen(type(value)):
            for each, (identity, size) in _described(_attributes(value), frozenset()):
                yield f"{name}.{each}", (identity, size)


def _attributes(value: object) -> Mapping[str, Any]:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **found}


def _is_frozen(kind: type) -> bool:
    """Return whether objects of *kind* are values: what they cache is no state."""
    return kind.__setattr__.__name__ == "_frozen_setattrs"


def _is_constant(value: object) -> bool:
    return isinstance(value, _CONSTANT) or callable(value)
