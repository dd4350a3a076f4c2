"""Find, check and make drivers by name.

Drivers register as entry points, one group per contract.  A driver that cannot be used is refused
early, with its distribution and the reason; the others stay usable.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from attrs import frozen

import netfw.drivers
import netfw.drivers.server
from netfw.drivers.base import Capability, Contract, Driver, DriverInfo, HostResources
from netfw.drivers.registry.adapters import adapt, adapters, find
from netfw.drivers.registry.class_warnings import capability_problem
from netfw.drivers.registry.declarations import convert, declaration_problems, own_value
from netfw.drivers.registry.entry_names import name_problem, object_problem
from netfw.drivers.registry.entry_point_import import import_object
from netfw.drivers.registry.entry_point_index import all_points, read_points
from netfw.drivers.registry.error_location import location_in, top_package
from netfw.drivers.registry.method_kinds import kind_mismatches
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
    foreign_group: str = ""
    """The group of another framework, for a driver that an adapter loads."""


def load(contract: Contract[D], name: str) -> type[D]:
    """Return the driver class that is registered as *name* for *contract*.

    :raises DriverNotFound: nothing is registered under that name; names those that are.
    :raises DriverInvalid: it cannot be imported, does not implement the right version of
        *contract*, or two distributions register the name.
    """
    group = _group(contract)
    if problem := name_problem(name):
        raise DriverInvalid(f"{group}: {name!r} cannot be used: {problem}")
    adapter, points = find(all_points(), group, name)
    if not points:
        adapter, points = find(read_points(), group, name)
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
    found = import_object(point, origin) if adapter is None else adapt(adapter, name)
    return check(contract, name, found, origin)


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
            f"{location_in(top_package(driver.__module__), exc)}"
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
    points = all_points()
    groups = {_group(contract), *adapters(points, _group(contract))}
    return sorted({name for each, name in points if each in groups})


def registrations(contract: Contract[Driver]) -> list[Registration]:
    """Return all installed drivers of *contract* by name, without importing them."""
    points = all_points()
    found = []
    for name in installed(contract):
        _, ((origin, _), *_) = find(points, _group(contract), name)
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
        adapter, _ = find(all_points(), _group(contract), name)
        foreign = "" if adapter is None else adapter.name
        yield Installed(name=name, driver=driver, error=error, foreign_group=foreign)


def list_opts() -> list[tuple[str, Sequence[Opt]]]:
    """Return the options of every loadable driver under its name, for the sample generator."""
    return [
        (entry.name, entry.driver.OPTIONS)
        for contract in all_contracts()
        for entry in catalogue(contract)
        if entry.driver is not None and entry.driver.OPTIONS and not entry.foreign_group
    ]


def check(contract: Contract[D], name: str, found: object, origin: str = "this program") -> type[D]:
    """Refuse a class that does not implement *contract*; also one that is no entry point.

    :raises DriverInvalid: the text says what the author has to change.
    """
    kind = cast(type[D], contract)

    def refuse(why: str) -> NoReturn:
        raise DriverInvalid(f"{kind.GROUP}: {name!r} from {origin} cannot be used: {why}")

    if problem := object_problem(kind, found):
        refuse(problem)
    driver = cast(type[D], found)
    if missing := sorted(getattr(driver, "__abstractmethods__", ())):
        refuse(f"it does not implement {', '.join(missing)}")
    version = own_value(kind, driver, "VERSION")
    if version is None:
        refuse(f"it does not say which version it was written for; add VERSION = {kind.VERSION}")
    if type(version) is not int:
        refuse(f"its VERSION is {version!r}, not a number; write VERSION = {kind.VERSION}")
    if version != kind.VERSION:
        refuse(
            f"it was written for version {version} of {kind.__name__}, "
            f"and this netfw has version {kind.VERSION}; {_version_remedy(kind.VERSION, version)}"
        )
    if wrong := kind_mismatches(kind, driver) or mismatches(kind, driver):
        refuse("; ".join(wrong))
    if wrong := tuple(declaration_problems(kind, driver)):
        refuse("; ".join(wrong))
    return driver


def _version_remedy(present: int, stated: int) -> str:
    if stated > present:
        return "install a newer netfw, or an older release of the driver"
    return (
        f"install a newer release of the driver; its author reads netfw's CHANGELOG.md, adapts "
        f"the class and writes VERSION = {present}"
    )


def check_capabilities(contract: Contract[D], name: str, driver: D) -> None:
    """Refuse a driver that declares a capability which its contract or the driver does not have.

    :raises DriverInvalid: names the capability, and those of the contract.
    """
    kind = cast(type[D], contract)
    try:
        info = cast(object, driver.describe())
    except (Exception, SystemExit) as exc:
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot describe itself: {type(exc).__name__}: {exc}"
            f"{location_in(top_package(type(driver).__module__), exc)}"
        ) from exc
    if not (isinstance(info, DriverInfo) and type(info.name) is str and info.name):
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot describe itself: describe returned {info!r}, which "
            "is no DriverInfo with a name"
        )
    if foreign := sorted(_foreign(kind, info.capabilities)):
        known = [str(capability) for types in kind.CAPABILITY_TYPES for capability in types]
        raise DriverInvalid(
            f"{kind.GROUP}: {name!r} cannot be used: it declares {', '.join(foreign)}, and the "
            f"capabilities of {kind.__name__} are {', '.join(known) or 'none'}"
        )
    if problem := capability_problem(driver):
        raise DriverInvalid(f"{kind.GROUP}: {name!r} cannot be used: {problem}")


def _foreign(kind: type[Driver], declared: Iterable[object]) -> Iterator[str]:
    """Yield what is no capability of the contract: also text that only looks like one."""
    for capability in declared:
        if type(capability) not in kind.CAPABILITY_TYPES:
            is_known = isinstance(capability, Capability)
            yield str(capability) if is_known else f"{capability!r}, which is no Capability"


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
            values[dest] = convert(option, value)
        except (ValueError, TypeError) as exc:
            problems.append(f"{dest} cannot be {value!r}: {exc}")
    if problems:
        raise ConfigError(f"driver {name!r}: {'; '.join(problems)}")
    return values


def _group(contract: Contract[Driver]) -> str:
    return cast(type[Driver], contract).GROUP
