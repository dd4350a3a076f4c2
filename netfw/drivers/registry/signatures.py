"""Check that the methods of a driver accept the calls of its contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Any


@lru_cache(maxsize=128)
def mismatches(contract: type, driver: type) -> tuple[str, ...]:
    """Return a sentence for every method of *driver* that does not accept the contract's call.

    Cached: a program loads each driver for its options, to make it, and to describe it.
    """
    return tuple(
        f"{name}{theirs} cannot be called as {name}{ours}"
        for name, method in _methods(contract)
        if (ours := _signature(method)) is not None
        and (theirs := _signature(getattr(driver, name))) is not None
        and not _accepts(theirs, ours)
    )


def _methods(contract: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in inspect.getmembers(contract):
        if callable(member) and not name.startswith("_") and not isinstance(member, type):
            yield name, member


def _signature(method: Callable[..., Any]) -> Signature | None:
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return None
    bare = [
        parameter.replace(annotation=Parameter.empty) for parameter in signature.parameters.values()
    ]
    return Signature(bare)


def _accepts(theirs: Signature, ours: Signature) -> bool:
    """Return whether every call of *ours*, by position or by name, also fits *theirs*."""
    parameters = list(ours.parameters.values())
    positional = [p.name for p in parameters if p.kind is not Parameter.KEYWORD_ONLY]
    keyword_only = {p.name: p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY}
    receiver = positional[:1] if positional[:1] in (["self"], ["cls"]) else []
    named = {name: name for name in positional[len(receiver) :]}
    try:
        theirs.bind(*positional, **keyword_only)
        theirs.bind(*receiver, **named, **keyword_only)
        theirs.bind(*(_required(parameters)))
    except TypeError:
        return False
    return True


def _required(parameters: list[Parameter]) -> list[str]:
    return [
        p.name
        for p in parameters
        if p.default is Parameter.empty and p.kind is not Parameter.KEYWORD_ONLY
    ]
