"""Containment: a driver's unexpected exception degrades the keys it is about, and nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from netfw.drivers.host_driver import HostDriver
from netfw.errors import DriverCrashed, NetfwError
from netfw.plan import Outcome, Update

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def converge_contained(driver: HostDriver[K, V], update: Update[K, V]) -> Outcome[K]:
    """Converge, whatever the driver raises.

    An error that netfw knows concerns every key that was asked for.  An unknown one is a defect
    of the driver: the update is halved until the keys that cause it are alone, and the others are
    done without them.  The caller logs what failed; the traceback is in each error's cause.
    """
    outcome = _attempt(driver, update)
    if not isinstance(outcome, Exception):
        return outcome
    if isinstance(outcome, NetfwError):
        return Outcome(failed=dict.fromkeys(update, outcome))
    keys = list(update)
    if len(keys) <= 1 and not update.complete:
        return Outcome(failed=dict.fromkeys(keys, _crashed(driver, outcome)))
    return _by_halves(driver, update, keys, outcome)


def _by_halves(
    driver: HostDriver[K, V], update: Update[K, V], keys: list[K], cause: Exception
) -> Outcome[K]:
    done: set[K] = set()
    failed: dict[K, NetfwError] = {}
    waiting: dict[K, str] = {}
    middle = max(1, len(keys) // 2)
    for half in (keys[:middle], keys[middle:]):
        if not half:
            continue
        part = converge_contained(driver, _only(update, frozenset(half)))
        done |= part.done
        failed |= part.failed
        waiting |= part.waiting
    if update.complete:
        rest: Update[K, V] = Update(complete=True, keep=update.keep | frozenset(keys))
        swept = _attempt(driver, rest)
        if isinstance(swept, Exception) and not failed:
            failed = dict.fromkeys(keys, _crashed(driver, cause))
            done, waiting = set(), {}
    return Outcome(frozenset(done), failed, waiting)


def _only(update: Update[K, V], keys: frozenset[K]) -> Update[K, V]:
    put: Mapping[K, V] = {key: value for key, value in update.put.items() if key in keys}
    return Update(put=put, drop=update.drop & keys)


def _attempt(driver: HostDriver[K, V], update: Update[K, V]) -> Outcome[K] | Exception:
    try:
        return driver.converge(update)
    except Exception as exc:  # noqa: BLE001 - the one place where a driver's defect is contained
        return exc


def _crashed(driver: HostDriver[K, V], cause: Exception) -> DriverCrashed:
    crash = DriverCrashed(f"{driver.describe().name}: {type(cause).__name__}: {cause}")
    crash.__cause__ = cause
    return crash
