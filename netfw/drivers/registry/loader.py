"""Find, check and make drivers by name.

Drivers register as entry points, one group per contract.  A driver that cannot be used is refused
early, with its distribution and the reason; the others stay usable.
"""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar, cast

from attrs import frozen

import netfw.drivers
import netfw.drivers.server
from netfw.drivers.base import Contract, Driver, HostResources
from netfw.drivers.registry.signatures import mismatches
from netfw.errors import (
    ConfigError,
    DriverError,
    DriverInvalid,
    DriverNotFound,
    NetfwError,
    nearest,
)


def _modules() -> Iterator[pkgutil.ModuleInfo]:
    yield from pkgutil.iter_modules(netfw.drivers.__path__, "netfw.drivers.")
    yield from pkgutil.iter_modules(netfw.drivers.server.__path__, "netfw.drivers.server.")


def all_contracts() -> list[type[Driver]]:
    """Return every contract of netfw, sorted by entry-point group."""
    found = {
        member.GROUP: member
        for module in _modules()
        for member in vars(importlib.import_module(module.name)).values()
        if isinstance(member, type) and issubclass(member, Driver) and "GROUP" in vars(member)
    }
    return [found[group] for group in sorted(found)]


if TYPE_CHECKING:
    from oslo_config.cfg import Opt

LOG = logging.getLogger(__name__)

D = TypeVar("D", bound=Driver)
Points: TypeAlias = Mapping[tuple[str, str], Sequence[EntryPoint]]
"""By group and name."""


@frozen(kw_only=True)
class Registration:
    """The name of a driver, with the distribution that registers it."""

    contract: type[Driver]
    name: str
    distribution: str
    version: str


@frozen(kw_only=True)
class Installed(Generic[D]):
    """An entry point of a contract's group: the driver class, or why it cannot be used."""

    name: str
    driver: type[D] | None = None
    error: DriverError | None = None


def load(contract: Contract[D], name: str) -> type[D]:
    """Return the driver class that is registered as *name* for *contract*.

    :raises DriverNotFound: nothing is registered under that name; names those that are.
    :raises DriverInvalid: it cannot be imported, does not implement the right version of
        *contract*, or two distributions register the name.
    """
    group = _group(contract)
    points = _points_named(_points_at(_search_path()), group, name)
    points = points or _points_named(_points(), group, name)
    if not points:
        raise DriverNotFound(group, name, installed(contract))
    if len({point.value for _, point in points}) > 1:
        owners = ", ".join(f"{origin} ({point.value})" for origin, point in points)
        raise DriverInvalid(f"{group}: {name!r} is claimed by {owners}; uninstall all but one")
    origin, point = points[0]
    if cast(type[D], contract).DRAFT:
        LOG.warning(
            "%s: %r is a driver of a draft contract: it may change without notice", group, name
        )
    return check(contract, name, _import(point, origin), origin)


def create(contract: Contract[D], name: str, options: Mapping[str, Any], host: HostResources) -> D:
    """Load a driver and make it from *options*, validated against its declaration.

    :raises DriverError: see :func:`load`.
    :raises ConfigError: an option is unknown, missing or impossible.
    """
    driver = load(contract, name)
    checked = check_options(name, driver, options)
    try:
        made = driver.from_conf(checked, host)
    except ConfigError as exc:
        if type(exc) is not ConfigError or str(exc).startswith("["):
            raise
        raise ConfigError(f"[{name}] {exc}") from exc
    except NetfwError:
        raise
    except (Exception, SystemExit) as exc:
        raise DriverInvalid(
            f"{_group(contract)}: {name!r} cannot be made: {type(exc).__name__}: {exc}"
        ) from exc
    if not isinstance(made, driver):
        raise DriverInvalid(
            f"{_group(contract)}: {name!r} cannot be made: from_conf returned {made!r}, not a "
            f"{driver.__name__}"
        )
    try:
        check_capabilities(contract, name, made)
    except DriverInvalid:
        with suppress(Exception):
            made.close()
        raise
    return made


def installed(contract: Contract[Driver]) -> list[str]:
    """Return the names of all installed drivers of *contract*, without importing them."""
    group = _group(contract)
    return sorted(name for each, name in _points_at(_search_path()) if each == group)


def registrations(contract: Contract[Driver]) -> list[Registration]:
    """Return all installed drivers of *contract* by name, without importing them."""
    points = _points_at(_search_path())
    found = []
    for name in installed(contract):
        origin, _ = _points_named(points, _group(contract), name)[0]
        distribution, _, version = origin.rpartition(" ")
        found.append(
            Registration(
                contract=cast(type[Driver], contract),
                name=name,
                distribution=distribution,
                version=version,
            )
        )
    return found


def catalogue(contract: Contract[D]) -> Iterator[Installed[D]]:
    """Yield every installed driver of *contract*, the unusable ones with the reason."""
    for name in installed(contract):
        try:
            driver, error = load(contract, name), None
        except DriverError as exc:
            driver, error = None, exc
        yield Installed(name=name, driver=driver, error=error)


def list_opts() -> list[tuple[str, Sequence[Opt]]]:
    """Return the options of every loadable driver under its name, for the sample generator."""
    return [
        (entry.name, entry.driver.OPTIONS)
        for contract in all_contracts()
        for entry in catalogue(contract)
        if entry.driver is not None and entry.driver.OPTIONS
    ]


def check(contract: Contract[D], name: str, found: object, origin: str = "this program") -> type[D]:
    """Refuse a class that does not implement *contract*; also one that is no entry point.

    :raises DriverInvalid: the text says what the author has to change.
    """
    kind = cast(type[D], contract)

    def refuse(why: str) -> NoReturn:
        raise DriverInvalid(f"{kind.GROUP}: {name!r} from {origin} cannot be used: {why}")

    if not (isinstance(found, type) and issubclass(found, kind)):
        refuse(f"{found!r} is not a subclass of {kind.__module__}.{kind.__name__}")
    driver = found
    if missing := sorted(getattr(driver, "__abstractmethods__", ())):
        refuse(f"it does not implement {', '.join(missing)}")
    version = _written_for(kind, driver)
    if version is None:
        refuse(f"it does not say which version it was written for; add VERSION = {kind.VERSION}")
    if version != kind.VERSION:
        refuse(
            f"it was written for version {version} of {kind.__name__}, "
            f"and this netfw has version {kind.VERSION}"
        )
    if wrong := mismatches(kind, driver):
        refuse("; ".join(wrong))
    if not _are_options(driver.OPTIONS):
        refuse(f"its OPTIONS are {driver.OPTIONS!r}, not a tuple of oslo.config options")
    return driver


def check_capabilities(contract: Contract[D], name: str, driver: D) -> None:
    """Refuse a driver that declares a capability which its contract does not have.

    :raises DriverInvalid: names the capability, and those of the contract.
    """
    kind = cast(type[D], contract)
    known = [capability for types in kind.CAPABILITY_TYPES for capability in types]
    try:
        declared = driver.describe().capabilities
    except (Exception, SystemExit) as exc:
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot describe itself: {type(exc).__name__}: {exc}"
        ) from exc
    if foreign := sorted(str(capability) for capability in declared if capability not in known):
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot be used: it declares {', '.join(foreign)}, and the "
            f"capabilities of {kind.__name__} are {', '.join(known) or 'none'}"
        )


def check_options(name: str, driver: type[Driver], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of the driver's ``OPTIONS``: those given, converted, else the defaults.

    :raises ConfigError: names every option that is unknown, missing or impossible.
    """
    declared = {option.dest: option for option in driver.OPTIONS}
    problems = [
        f"{given} is not an option{nearest(given, declared)}"
        for given in options
        if given not in declared
    ]
    values: dict[str, Any] = {}
    for dest, option in declared.items():
        value = options.get(dest)
        if value is None:  # not given, or given as "not set"
            value = option.default
        if value is None:
            if option.required:
                problems.append(f"{dest} must be set ({option.help})")
            values[dest] = None
            continue
        try:
            values[dest] = option.type(value)
        except (ValueError, TypeError) as exc:
            problems.append(f"{dest} cannot be {value!r}: {exc}")
    if problems:
        raise ConfigError(f"driver {name!r}: {'; '.join(problems)}")
    return values


def _group(contract: Contract[Driver]) -> str:
    return cast(type[Driver], contract).GROUP


def _are_options(options: object) -> bool:
    if options == ():
        return True  # without importing oslo.config
    from oslo_config.cfg import Opt

    return isinstance(options, tuple) and all(isinstance(option, Opt) for option in options)


def _written_for(kind: type[Driver], driver: type[Driver]) -> int | None:
    """Return the version that the driver's own classes state, not that of the contract."""
    for ancestor in driver.__mro__:
        if ancestor is kind:
            break
        if "VERSION" in vars(ancestor):
            return cast(int, vars(ancestor)["VERSION"])
    return None


def _import(point: EntryPoint, origin: str) -> object:
    """Import the object of *point* with stevedore.

    The entry points are not read by stevedore: its caches, in the process and on disk, lack the
    distribution of an entry point and miss one that is installed later.
    """
    from stevedore import ExtensionManager

    class OnePoint(ExtensionManager[Any]):
        def list_entry_points(self) -> list[EntryPoint]:
            return [point]

    def failed(_manager: object, _point: EntryPoint, exc: BaseException) -> NoReturn:
        raise exc

    try:
        found: object = OnePoint(point.group, on_load_failure_callback=failed).extensions[0].plugin
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        raise DriverInvalid(
            f"{point.group}: {point.name!r} from {origin} cannot be imported: "
            f"{type(exc).__name__}: {exc}"
        ) from exc
    return found


def _points_named(points: Points, group: str, name: str) -> list[tuple[str, EntryPoint]]:
    """Return the entry points *name* of *group* with their distributions, in their order."""
    return sorted((_origin(point), point) for point in points.get((group, name), ()))


def _search_path() -> tuple[tuple[str, int], ...]:
    """Return the import path with the times of its last changes: the key of the cache."""
    return tuple((directory, _changed(directory)) for directory in sys.path)


def _changed(directory: str) -> int:
    try:
        return os.stat(directory or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _points_at(search_path: tuple[tuple[str, int], ...]) -> Points:
    """Return all entry points, cached: reading them opens a file of each package."""
    return _points()


def _points() -> Points:
    if sys.version_info < (3, 12):  # there they come by group
        each = chain(*dict.values(entry_points()))
    else:
        each = entry_points()
    found: dict[tuple[str, str], list[EntryPoint]] = {}
    for point in each:
        found.setdefault((point.group, point.name), []).append(point)
    return found


def _origin(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else _name_and_version(point.dist)


@lru_cache(maxsize=256)
def _name_and_version(distribution: Distribution) -> str:
    """Return name and version, cached: each reads and parses a file of the package."""
    metadata = distribution.metadata
    return f"{metadata['Name']} {metadata['Version']}"
