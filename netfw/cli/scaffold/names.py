"""Names of a new package: of the distribution, the module and the classes."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from attrs import frozen

from netfw.drivers.registry.entry_names import name_problem
from netfw.drivers.registry.loader import all_contracts, installed
from netfw.errors import ConfigError

LONGEST: Final = 30
"""Length of a name with which every line of the templates stays short enough."""
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@frozen
class PackageNames:
    """The names that follow from the name of a distribution."""

    distribution: str

    @property
    def package(self) -> str:
        """Name of the module to import, of the driver, and of the group of its options."""
        return re.sub(r"[-_.]+", "_", self.distribution).lower()

    @property
    def prefix(self) -> str:
        """First part of the names of classes."""
        return "".join(part.capitalize() for part in self.package.split("_"))


def make_names(name: str) -> PackageNames:
    """Return the names of a new package.

    :raises ConfigError: no package can have the name.
    """
    names = PackageNames(name)
    problem = _form_problem(names) or _clash_problem(names)
    if problem is not None:
        raise ConfigError(f"a package cannot be called {name!r}: {problem}")
    return names


def _form_problem(names: PackageNames) -> str | None:
    if len(names.distribution) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    if _DISTRIBUTION.fullmatch(names.distribution) is None:
        return (
            "the name of a distribution consists of letters, digits, '-', '_' and '.', and begins "
            "and ends with a letter or digit"
        )
    if not names.package.isidentifier():
        return f"{names.package!r} is no name of a module; begin with a letter"
    if keyword.iskeyword(names.package) or keyword.issoftkeyword(names.package):
        return f"{names.package!r} is a keyword of Python"
    return name_problem(names.package)


def _clash_problem(names: PackageNames) -> str | None:
    """Return what has one of the names already.  Imports none of it."""
    if names.package in sys.stdlib_module_names:
        return f"{names.package!r} is a module of the standard library"
    found = PathFinder.find_spec(names.package)
    if found is not None and found.origin is not None:  # a folder alone is no module
        return f"a module {names.package!r} is installed, which it would hide"
    try:
        distribution(names.distribution)
    except PackageNotFoundError:
        pass
    else:
        return "a distribution of that name is installed"
    owners = [kind.__name__ for kind in all_contracts() if names.package in installed(kind)]
    if owners:
        return f"an installed {owners[0]} has that name, and the options of both would collide"
    return None
