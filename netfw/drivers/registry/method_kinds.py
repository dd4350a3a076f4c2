"""Check that the members of a driver are of the kind that its contract has."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import lru_cache, partialmethod
from typing import Any, Final

METHOD: Final = "a method"
CLASS_METHOD: Final = "a class method"
STATIC_METHOD: Final = "a static method"
PROPERTY: Final = "a property"
VALUE: Final = "a plain value"
GENERATOR: Final = "a generator"

_ITERATORS = ("Iterator", "Iterable", "Generator")
"""Return annotations of methods that a generator may implement."""


@lru_cache(maxsize=128)
def kind_mismatches(contract: type, driver: type) -> tuple[str, ...]:
    """Return a sentence for every member of *driver* of another kind than the contract's.

    A plain call of an async method or of a generator does nothing.
    """
    return tuple(_mismatches(contract, driver))


def _mismatches(contract: type, driver: type) -> Iterator[str]:
    for name in contract_members(contract):
        ours, theirs = _static(contract, name), _static(driver, name)
        if theirs is ours:
            continue
        expected, found = _kind(ours), _kind(theirs)
        if found != expected and not _is_accepted(ours, expected, found):
            yield f"{name} is {found}, and {name} of {contract.__name__} is {expected}"
    constructor = _kind(_static(driver, "__init__"))
    if constructor not in (METHOD, STATIC_METHOD):
        yield f"__init__ is {constructor}: it is never executed"


def contract_members(contract: type) -> list[str]:
    """Return the names of the methods and properties of *contract*."""
    return [
        name
        for name in dir(contract)
        if not name.startswith("_") and _kind(_static(contract, name)) != VALUE
    ]


def _is_accepted(ours: object, expected: str, found: str) -> bool:
    if expected == METHOD:
        return found == GENERATOR and _returns_iterator(ours)
    if expected == CLASS_METHOD:
        return found == STATIC_METHOD
    return expected == PROPERTY and found == VALUE


def _returns_iterator(method: object) -> bool:
    annotation = getattr(method, "__annotations__", {}).get("return", "")
    return str(annotation).rpartition(".")[2].startswith(_ITERATORS)


def _static(owner: type, name: str) -> Any:
    return inspect.getattr_static(owner, name, None)


def _kind(member: object) -> str:
    """Return what *member* is, as it stands in the class."""
    function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    kinds = {
        "an async method": inspect.iscoroutinefunction(function),
        "an async generator": inspect.isasyncgenfunction(function),
        GENERATOR: inspect.isgeneratorfunction(function),
        CLASS_METHOD: isinstance(member, classmethod),
        STATIC_METHOD: isinstance(member, staticmethod),
        "a class": isinstance(member, type),
        METHOD: callable(member) or isinstance(member, partialmethod),
        PROPERTY: hasattr(member, "__get__"),
    }
    return next((kind for kind, is_it in kinds.items() if is_it), VALUE)
