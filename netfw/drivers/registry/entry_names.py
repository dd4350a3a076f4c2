"""Names and groups of entry points: what is written wrong there is not found by a type checker."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from types import FunctionType, ModuleType
from typing import Final

from netfw.drivers.base import Driver
from netfw.errors import LONGEST_NAME

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SIMILAR: Final = 0.85
_SIMILAR_FRAMEWORK: Final = 0.75
ADAPTERS: Final = ".adapters"
"""End of the entry-point group of the adapters of a contract."""
SUITES_GROUP: Final = "netfw.conformance"
"""Entry-point group of the modules that hold a package's subclasses of the suites."""


def name_problem(name: str) -> str | None:
    """Return why *name* cannot be the name of a driver, which is also its group of options."""
    if len(name) > LONGEST_NAME:
        return f"its name has {len(name)} characters, and at most {LONGEST_NAME} are possible"
    if not _NAME.fullmatch(name):
        return "its name has other characters than letters, digits, dots, dashes and underscores"
    if name.upper() == "DEFAULT":
        return "its name is that of the group of all programs"
    return None


def group_problem(group: str, known: Collection[str]) -> str | None:
    """Return a sentence if *group* is probably a misspelling of one of the *known* groups."""
    if group in known or group.removesuffix(ADAPTERS) in known or group == SUITES_GROUP:
        return None
    framework = re.split("[._]", group)[0]
    if not get_close_matches(framework, ["netfw"], cutoff=_SIMILAR_FRAMEWORK):
        return None
    similar = get_close_matches(group, known, n=1, cutoff=_SIMILAR)
    if not similar and group.startswith("netfw."):
        similar = get_close_matches(group, known, n=1)
    if similar:
        return f"netfw has no group {group!r}, did you mean {similar[0]!r}?"
    if group.startswith("netfw."):
        return f"netfw has no group {group!r}; its groups are {', '.join(sorted(known))}"
    return None


def object_problem(contract: type[Driver], found: object) -> str | None:
    """Return why *found*, the object of an entry point, is no driver class of *contract*."""
    if isinstance(found, type) and issubclass(found, contract):
        return None
    wanted = f"{contract.__module__}.{contract.__name__}"
    if isinstance(found, ModuleType):
        return f"{found.__name__} is a module: write {found.__name__}:CLASS in the entry point"
    if isinstance(found, contract):
        return f"{found!r} is an object: name its class {type(found).__name__} in the entry point"
    if isinstance(found, FunctionType):
        return f"{found.__qualname__} is a function, not a subclass of {wanted}"
    reason = f"{found!r} is not a subclass of {wanted}"
    if isinstance(found, type) and issubclass(found, Driver) and hasattr(found, "GROUP"):
        reason += f"; it is a driver of the group {found.GROUP}"
    return reason
