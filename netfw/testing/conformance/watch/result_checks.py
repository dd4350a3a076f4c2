"""Checks of what a call of a driver returned.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netfw.drivers.base import DriverInfo
from netfw.errors import NetfwError
from netfw.plan import Outcome, Update


def result_errors(
    method: str, arguments: tuple[Any, ...], result: object, secrets: frozenset[str]
) -> Iterator[str]:
    """Yield what is wrong with the *result* of *method*, each with the broken promise."""
    if method == "converge" and arguments and isinstance(arguments[0], Update):
        yield from _outcome_errors(arguments[0], result)
    if method == "describe" and not (isinstance(result, DriverInfo) and result.name):
        yield f"it returned {result!r}, which is no DriverInfo with a name"
    if method == "problems" and not _are_sentences(result):
        yield f"promise 2 of Driver: it returned {result!r}, which is no tuple of sentences"
    if secrets:
        shown = f"{result!r} {_plan_text(result)}"
        if any(secret in shown for secret in secrets):
            yield "promise 7 of Driver: the value of a secret option is in its result"


def error_texts(error: object) -> Iterator[str]:
    """Yield what is wrong with the text of an *error* that an operator or a user reads."""
    if isinstance(error, NetfwError) and not str(error).strip():
        yield f"its {type(error).__name__} has no text: say what is wrong and what to do"


def _outcome_errors(update: Update[Any, Any], outcome: object) -> Iterator[str]:
    if not isinstance(outcome, Outcome):
        yield f"it returned {outcome!r}, which is no Outcome"
        return
    requested = frozenset(update)
    found = [*outcome.done, *outcome.failed, *outcome.waiting]
    if len(found) != len(set(found)):
        yield f"promise 4 of HostDriver: a key is in two parts of the outcome: {outcome}"
    if missing := requested.difference(found):
        yield f"promise 4 of HostDriver: the outcome lacks {_names(missing)}"
    for error in outcome.failed.values():
        yield from error_texts(error)
    if unasked := (outcome.done | outcome.waiting.keys()) - requested:
        yield f"promise 4 of HostDriver: the outcome names keys not asked for: {_names(unasked)}"


def _names(keys: frozenset[Any]) -> str:
    return ", ".join(sorted(map(str, keys)))


def _are_sentences(result: object) -> bool:
    return isinstance(result, tuple) and all(isinstance(s, str) and s.strip() for s in result)


def _plan_text(result: object) -> str:
    lines = getattr(result, "lines", None)
    return "\n".join(lines()) if callable(lines) else ""
