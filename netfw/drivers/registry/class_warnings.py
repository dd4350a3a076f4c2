"""Find what is suspicious in a driver class: probably a mistake of its author."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from types import FunctionType
from typing import Any, Final

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.registry.declarations import option_warnings

_SIMILAR: Final = 0.88
_PARTS: Final = ("observe", "plan", "apply")


def class_warnings(contract: type[Driver], name: str, driver: type[Driver]) -> Iterator[str]:
    """Yield a sentence for each part of *driver* that its author probably did not intend."""
    if name != name.lower():
        yield f"its name is not in lower case: the group of its options is [{name.lower()}] in logs"
    yield from option_warnings(driver.OPTIONS)
    yield from _misspelt_members(contract, driver)
    yield from _shared_state(driver)
    if issubclass(driver, Reconciler):
        yield from _other_converge(driver)
    elif issubclass(driver, HostDriver) and all(hasattr(driver, part) for part in _PARTS):
        yield (
            f"it has {', '.join(_PARTS)} and is no Reconciler: it has no dry run and no repair "
            "of drift; derive it from netfw.drivers.reconciler.Reconciler too"
        )


def description_warnings(name: str, driver: Driver) -> Iterator[str]:
    """Yield a sentence if the driver that is registered as *name* describes itself as another."""
    described = driver.describe().name
    if described != name:
        yield (
            f"it is registered as {name!r} and describes itself as {described!r}: logs and "
            "agents show the second, and the configuration needs the first"
        )


def capability_warnings(driver: Driver) -> Iterator[str]:
    """Yield a sentence for each capability that the driver has and does not declare."""
    if not isinstance(driver, HostDriver):
        return
    declared = driver.describe().capabilities
    if isinstance(driver, Reconciler) and HostCapability.PLAN not in declared:
        yield "it is a Reconciler and does not declare HostCapability.PLAN"
    overrides = type(driver).watch is not HostDriver.watch
    if overrides and HostCapability.WATCH not in declared:
        yield "it overrides watch and does not declare HostCapability.WATCH"


def capability_problem(driver: Driver) -> str | None:
    """Return why a declared capability of a host driver cannot be true."""
    if not isinstance(driver, HostDriver):
        return None
    declared = driver.describe().capabilities
    if HostCapability.PLAN in declared and not isinstance(driver, Reconciler):
        return "it declares HostCapability.PLAN and is no Reconciler"
    if HostCapability.WATCH in declared and type(driver).watch is HostDriver.watch:
        return "it declares HostCapability.WATCH and does not override watch"
    return None


def _own_classes(driver: type) -> Iterator[type]:
    """Yield the classes of the driver's author."""
    for ancestor in driver.__mro__:
        if not ancestor.__module__.startswith(("netfw.drivers.", "builtins", "abc", "typing")):
            yield ancestor


def _own_members(driver: type) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for ancestor in _own_classes(driver):
        members = {**vars(ancestor), **members}
    return members


def _misspelt_members(contract: type[Driver], driver: type[Driver]) -> Iterator[str]:
    members = _own_members(driver)
    contractual = {name for name in dir(contract) if not name.startswith("_")}
    missing = contractual - members.keys()
    for name in sorted(members.keys() - contractual):
        if not name.startswith("_") and (
            similar := get_close_matches(name, missing, n=1, cutoff=_SIMILAR)
        ):
            yield f"{name} is not in the contract, did you mean {similar[0]!r}?"


def _shared_state(driver: type[Driver]) -> Iterator[str]:
    for name, value in sorted(_own_members(driver).items()):
        if (
            isinstance(value, (list, dict, set))
            and not name.startswith("__")
            and not name.isupper()
        ):
            yield f"{name} is shared by all objects of the class: make it in __init__"


def _other_converge(driver: type[Driver]) -> Iterator[str]:
    own = _own_members(driver).get("converge")
    if isinstance(own, FunctionType) and not _reaches(driver, own, {"super", "plan"}):
        yield (
            "its converge neither calls plan nor that of Reconciler: a dry run shows something "
            "else than it does"
        )


def _reaches(driver: type, method: FunctionType, names: set[str]) -> bool:
    """Return whether *method*, or a method of the class that it names, uses one of *names*."""
    members = _own_members(driver)
    waiting, seen = [method], {method}
    while waiting:
        used = set(waiting.pop().__code__.co_names)
        if used & names:
            return True
        for name in used & members.keys():
            member = members[name]
            if isinstance(member, FunctionType) and member not in seen:
                seen.add(member)
                waiting.append(member)
    return False
