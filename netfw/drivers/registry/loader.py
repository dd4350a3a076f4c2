"""Finding, checking and making drivers by name.

Drivers register as entry points, one group per contract.  A driver that cannot be used is named
with its distribution and the reason, early, and the others go on.
"""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar, cast

from attrs import frozen

import netfw.drivers
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


def all_contracts() -> list[type[Driver]]:
    """Every contract of netfw, by the name of its entry-point group."""
    found = {
        member.GROUP: member
        for module in pkgutil.iter_modules(netfw.drivers.__path__, "netfw.drivers.")
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
class Installed(Generic[D]):
    """An entry point of a contract's group: the driver class, or why it cannot be used."""

    name: str
    distribution: str
    version: str
    driver: type[D] | None = None
    error: DriverError | None = None


def load(kind: Contract[D], name: str) -> type[D]:
    """Return the driver class that is registered as *name* for this *kind* of driver.

    :raises DriverNotFound: nothing is registered under that name; says what is.
    :raises DriverInvalid: it cannot be imported, is not a complete *kind* of the right version,
        or two distributions claim the name.
    """
    group = _group(kind)
    claims = _claims(_points_at(_places()), group, name) or _claims(_points(), group, name)
    if not claims:
        raise DriverNotFound(group, name, installed(kind))
    if len({point.value for _, point in claims}) > 1:
        said = ", ".join(f"{origin} ({point.value})" for origin, point in claims)
        raise DriverInvalid(f"{group}: {name!r} is claimed by {said}; uninstall all but one")
    origin, point = claims[0]
    if cast(type[D], kind).DRAFT:
        LOG.warning(
            "%s: %r is a driver of a draft contract: it may change without notice", group, name
        )
    return check(kind, name, _import(point, origin), origin)


def create(kind: Contract[D], name: str, options: Mapping[str, Any], host: HostResources) -> D:
    """Load a driver and make it from *options*, which are checked against what it declares.

    :raises DriverError: see :func:`load`.
    :raises ConfigError: an option is unknown, missing or impossible.
    """
    driver = load(kind, name)
    checked = check_options(name, driver, options)
    try:
        made = driver.from_conf(checked, host)
    except ConfigError as exc:
        if type(exc) is not ConfigError or str(exc).startswith("["):
            raise
        raise ConfigError(f"[{name}] {exc}") from exc
    except NetfwError:
        raise
    except Exception as exc:
        raise DriverInvalid(
            f"{_group(kind)}: {name!r} cannot be made: {type(exc).__name__}: {exc}"
        ) from exc
    try:
        check_capabilities(kind, name, made)
    except BaseException:
        made.close()
        raise
    return made


def installed(kind: Contract[Driver]) -> list[str]:
    """Names of every installed driver of this *kind*, without importing them."""
    return sorted(entry_points(group=_group(kind)).names)


def catalogue(kind: Contract[D]) -> Iterator[Installed[D]]:
    """Every installed driver of this *kind*, the unusable ones with the reason."""
    for name in installed(kind):
        points = [point for point in entry_points(group=_group(kind)) if point.name == name]
        origins = sorted({_origin(point) for point in points})
        distribution, _, version = origins[0].partition(" ")
        try:
            driver, error = load(kind, name), None
        except DriverError as exc:
            driver, error = None, exc
        yield Installed(
            name=name, distribution=distribution, version=version, driver=driver, error=error
        )


def list_opts() -> list[tuple[str, Sequence[Opt]]]:
    """The options of every driver that can be loaded, under its name: for the sample generator."""

    return [
        (found.name, found.driver.OPTIONS)
        for kind in all_contracts()
        for found in catalogue(kind)
        if found.driver is not None and found.driver.OPTIONS
    ]


def check(contract: Contract[D], name: str, found: object, origin: str = "this program") -> type[D]:
    """Refuse early what would fail late; also for classes that are no entry point.

    :raises DriverInvalid: says what the author has to change.
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
    except Exception as exc:
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot describe itself: {type(exc).__name__}: {exc}"
        ) from exc
    if foreign := sorted(str(capability) for capability in declared if capability not in known):
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot be used: it declares {', '.join(foreign)}, and the "
            f"capabilities of {kind.__name__} are {', '.join(known) or 'none'}"
        )


def check_options(name: str, driver: type[Driver], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of the driver's ``OPTIONS``: those given, converted, and defaults for the rest.

    :raises ConfigError: names every option that is unknown, missing or impossible.
    """
    declared = {option.dest: option for option in driver.OPTIONS}
    faults = [
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
                faults.append(f"{dest} must be set ({option.help})")
            values[dest] = None
            continue
        try:
            values[dest] = option.type(value)
        except (ValueError, TypeError) as exc:
            faults.append(f"{dest} cannot be {value!r}: {exc}")
    if faults:
        raise ConfigError(f"driver {name!r}: {'; '.join(faults)}")
    return values


def _group(kind: Contract[Driver]) -> str:
    return cast(type[Driver], kind).GROUP


def _are_options(options: object) -> bool:
    if options == ():
        return True  # without importing oslo.config
    from oslo_config.cfg import Opt

    return isinstance(options, tuple) and all(isinstance(option, Opt) for option in options)


def _written_for(kind: type[Driver], driver: type[Driver]) -> int | None:
    """The version that the driver's own classes state, not the one inherited from the contract."""
    for ancestor in driver.__mro__:
        if ancestor is kind:
            break
        if "VERSION" in vars(ancestor):
            return cast(int, vars(ancestor)["VERSION"])
    return None


def _import(point: EntryPoint, origin: str) -> object:
    """Have stevedore import what *point* names, and nothing else.

    The entry points are ours, not stevedore's: its caches, in the process and on disk, forget
    which distribution brought an entry point and do not see one that came later.
    """
    from stevedore import ExtensionManager

    class OnePoint(ExtensionManager[Any]):
        def list_entry_points(self) -> list[EntryPoint]:
            return [point]

    def failed(_manager: object, _point: EntryPoint, exc: BaseException) -> NoReturn:
        raise exc

    try:
        found: object = OnePoint(point.group, on_load_failure_callback=failed).extensions[0].plugin
    except (Exception, SystemExit) as exc:
        raise DriverInvalid(
            f"{point.group}: {point.name!r} from {origin} cannot be imported: "
            f"{type(exc).__name__}: {exc}"
        ) from exc
    return found


def _claims(points: Points, group: str, name: str) -> list[tuple[str, EntryPoint]]:
    """Who registers something as *name*, in the order of the distributions."""
    return sorted((_origin(point), point) for point in points.get((group, name), ()))


def _places() -> tuple[tuple[str, int], ...]:
    """Where distributions are, with what is other after one came or went."""
    return tuple((place, _changed(place)) for place in sys.path)


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _points_at(places: tuple[tuple[str, int], ...]) -> Points:
    """All entry points; a program loads many drivers, and this reads a file of each package."""
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
    if point.dist is None:
        return "an unknown distribution"
    metadata = point.dist.metadata
    return f"{metadata['Name']} {metadata['Version']}"
