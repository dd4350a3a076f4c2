"""Promises of contracts with their sentences, from the docstrings of the contracts."""

from __future__ import annotations

import inspect
import re
from typing import Final

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import Promise

_ITEM: Final = re.compile(r"^ *(\d+)\. +(.*?)(?=^ *\d+\. |\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
_RAISES: Final = re.compile(r":raises (\w+): *(.*?)(?=:raises |:param |\n\s*\n|\Z)", re.DOTALL)


@frozen
class StatedPromise:
    """A promise and its sentence in the contract."""

    promise: Promise
    sentence: str


def stated_promises(driver: type[Driver], contract: type[Driver]) -> list[StatedPromise]:
    """Return what *driver* promises as one of *contract*, inherited promises first."""
    contracts: list[type] = [
        base
        for base in reversed(contract.__mro__)
        if issubclass(base, Driver) and base not in (Driver, Reconciler)
    ]
    if issubclass(driver, Reconciler) and Reconciler not in contracts:
        contracts.insert(-1, Reconciler)
    return [stated for each in contracts for stated in _promises_in(each)]


def watched_promises() -> list[StatedPromise]:
    """Return the promises of every driver, which no test of a suite proves: all of them watch."""
    return _promises_in(Driver)


def _promises_in(contract: type) -> list[StatedPromise]:
    """Return the promises that *contract* itself states, as `promises_of` does."""
    name = contract.__name__
    found = [
        StatedPromise(Promise(name, number), _one_line(text))
        for number, text in _ITEM.findall(inspect.getdoc(contract) or "")
    ]
    for method, function in vars(contract).items():
        doc = inspect.cleandoc(getattr(function, "__doc__", None) or "")
        for error, text in _RAISES.findall(doc):
            promise = Promise(f"{name}.{method}", error)
            if promise not in {stated.promise for stated in found}:
                found.append(StatedPromise(promise, f"{method} raises {error}: {_one_line(text)}"))
    return found


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "").split())
