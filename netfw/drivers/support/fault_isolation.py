"""Fault isolation: an unexpected exception of a driver degrades only the keys that cause it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from netfw.drivers.host_driver import HostDriver
from netfw.errors import DriverCrashed, NetfwError
from netfw.plan import Outcome, Update

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def converge_isolated(driver: HostDriver[K, V], update: Update[K, V]) -> Outcome[K]:
    """Converge, whatever the driver raises; an empty update does not call the driver.

    An error of netfw concerns every requested key.  Any other exception is a defect of the driver:
    the update is halved until the keys that cause it are isolated, and the others are done without
    them.  Garbage of a complete update that cannot be removed is among the failed.  The caller
    logs the failures; the traceback is in each error's cause.

    :raises NetfwError: the driver failed, and no key causes it.
    """
    return _isolated(driver, update) if update else Outcome()


def _isolated(driver: HostDriver[K, V], update: Update[K, V]) -> Outcome[K]:
    outcome = _attempt(driver, update)
    if not isinstance(outcome, Exception):
        return outcome
    error = outcome if isinstance(outcome, NetfwError) else _crashed(driver, outcome)
    if isinstance(error, DriverCrashed) and update.complete:
        return _isolated(driver, _without_completeness(driver, update))
    keys = [*update.drop, *update.put]  # what goes makes room for what comes
    if not keys:
        raise error
    if len(keys) == 1 or not isinstance(error, DriverCrashed):
        return Outcome(failed=dict.fromkeys(keys, error))
    middle = len(keys) // 2
    first = _isolated(driver, _only(update, frozenset(keys[:middle])))
    second = _isolated(driver, _only(update, frozenset(keys[middle:])))
    return first | second


def _without_completeness(driver: HostDriver[K, V], update: Update[K, V]) -> Update[K, V]:
    """Return the same update with its garbage named, so that it can be divided.

    :raises NetfwError: ``present`` of the driver fails, too.
    """
    with crashes_as_errors(driver):
        present = driver.present()
    garbage = present - update.put.keys() - update.keep
    return Update(put=update.put, drop=update.drop | garbage)


@contextmanager
def crashes_as_errors(driver: HostDriver[K, V]) -> Iterator[None]:
    """Raise what is no error of netfw as a :class:`DriverCrashed`, with its cause."""
    try:
        yield
    except NetfwError:
        raise
    except Exception as exc:
        raise _crashed(driver, exc) from exc


def _only(update: Update[K, V], keys: frozenset[K]) -> Update[K, V]:
    put = {key: value for key, value in update.put.items() if key in keys}
    return Update(put=put, drop=update.drop & keys)


def _attempt(driver: HostDriver[K, V], update: Update[K, V]) -> Outcome[K] | Exception:
    try:
        outcome: object = driver.converge(update)
    except Exception as exc:  # noqa: BLE001 - the one place where a driver's defect is contained
        return exc
    if not isinstance(outcome, Outcome):
        return TypeError(f"converge returned {outcome!r}, not an Outcome")
    silent = set(update) - outcome.done - outcome.failed.keys() - outcome.waiting.keys()
    if silent:
        return LookupError(f"the outcome says nothing of {', '.join(sorted(map(str, silent)))}")
    return outcome


def _crashed(driver: HostDriver[K, V], cause: Exception) -> DriverCrashed:
    crash = DriverCrashed(f"{driver.describe().name}: {type(cause).__name__}: {cause}")
    crash.__cause__ = cause
    return crash
