"""Proofs: which promise of which contract a test proves, and which promises lack a test.

A contract numbers its promises in its class docstring and names every error in its methods'
``:raises:``.  Each test of a suite is marked with what it proves; :func:`unproven` keeps promises
and proofs together.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from attrs import frozen

F = TypeVar("F", bound=Callable[..., Any])

_ITEM = re.compile(r"^(\d+)\. +(.*(?:\n {2,}.*)*)", re.MULTILINE)
_NUMBER = re.compile(r"^ *(\d+)\. ", re.MULTILINE)
_RAISES = re.compile(r":raises (\w+):")


@frozen
class Promise:
    """A numbered promise (``HostDriver 3``), or an error (``HostDriver.present BackendError``)."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} {self.what}"


def numbered_promises(contract: type, *numbers: int) -> frozenset[Promise]:
    """Return numbered promises of *contract*."""
    return frozenset(Promise(contract.__name__, str(number)) for number in numbers)


def documented_errors(contract: type, method: str, *errors: type[Exception]) -> frozenset[Promise]:
    """Return the promises that *method* raises *errors*."""
    where = f"{contract.__name__}.{method}"
    return frozenset(Promise(where, error.__name__) for error in errors)


def proves(contract: type, *numbers: int) -> Callable[[F], F]:
    """Mark a test as proof of numbered promises of *contract*."""
    texts = promise_texts(contract)
    return _mark(numbered_promises(contract, *numbers), *(texts[number] for number in numbers))


def proves_raise(contract: type, method: str, *errors: type[Exception]) -> Callable[[F], F]:
    """Mark a test as proof that *method* raises *errors* as documented."""
    names = " or ".join(error.__name__ for error in errors)
    text = f"{contract.__name__}.{method} raises {names} as it documents."
    return _mark(documented_errors(contract, method, *errors), text)


def promise_texts(contract: type) -> dict[int, str]:
    """Return the sentences of the numbered promises of *contract*, each with its name."""
    return {
        int(number): f"promise {number} of {contract.__name__}: {' '.join(text.split())}"
        for number, text in _ITEM.findall(inspect.getdoc(contract) or "")
    }


def proven_sentences(test: Callable[..., Any]) -> tuple[str, ...]:
    """Return the promises that *test* proves, in words."""
    return getattr(test, "proven_sentences", ())


def promises_of(contract: type) -> frozenset[Promise]:
    """Return what *contract* itself promises, without what it inherits."""
    name = contract.__name__
    promises = {Promise(name, number) for number in _NUMBER.findall(inspect.getdoc(contract) or "")}
    for method, function in vars(contract).items():
        for error in _RAISES.findall(getattr(function, "__doc__", None) or ""):
            promises.add(Promise(f"{name}.{method}", error))
    return frozenset(promises)


def proofs_in(suite: type) -> Iterator[tuple[str, frozenset[Promise]]]:
    """Yield the tests of *suite*, each with the promises it proves."""
    for name, test in inspect.getmembers(suite, callable):
        if name.startswith("test"):
            yield name, getattr(test, "proves", frozenset())


def unproven(suite: type, *contracts: type) -> frozenset[Promise]:
    """Return the promises of *contracts* that no test of *suite* proves."""
    proven = {promise for _, promises in proofs_in(suite) for promise in promises}
    return frozenset(p for contract in contracts for p in promises_of(contract)) - proven


def _mark(promises: frozenset[Promise], *sentences: str) -> Callable[[F], F]:
    def mark(test: F) -> F:
        test.proven_sentences = (*sentences, *proven_sentences(test))  # type: ignore[attr-defined]
        test.proves = getattr(test, "proves", frozenset()) | promises  # type: ignore[attr-defined]
        return test

    return mark
