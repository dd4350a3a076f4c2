"""The options of a process: its own, and those of the drivers that it loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import frozen
from oslo_config.cfg import Locations

from netfw.cli.runtime.renamed_drivers import check_driver_name, check_option_groups
from netfw.conf.loader import Groups, load_config
from netfw.drivers.base import Contract, Driver, HostResources
from netfw.drivers.registry.loader import catalogue, create, load
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts, Opt

D = TypeVar("D", bound=Driver)

Kinds = Mapping[tuple[str | None, str], Contract[Driver]]
"""Options (group and name) that name drivers, one or several, and the contract of each."""


def groups_of(
    program: str,
    argv: Sequence[str],
    own: Groups,
    kinds: Kinds,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Groups:
    """Return all options of a process: its *own*, and those of the drivers that the files choose.

    *defaults* replaces the defaults of driver options of these names in this process.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    conf = load_config(program, argv, own).conf
    check_option_groups(conf, kinds.values())
    declared = {
        group: {option.dest: _Declared(option, "netfw itself") for option in options}
        for group, options in own.items()
    }
    for (group, option), kind in kinds.items():
        for name in names(conf, group, option):
            check_driver_name(kind, group, option, name)
            by = f"{name!r} of {cast(type[Driver], kind).GROUP}"
            for each in _with_defaults(load(kind, name).OPTIONS, defaults):
                _declare(declared.setdefault(name, {}), _Declared(each, by), name)
    return {
        group: [each.option for each in options.values()]
        for group, options in declared.items()
        if options or group in own
    }


@frozen
class _Declared:
    """An option, and what declares it."""

    option: Opt
    by: str


def _declare(group: dict[str, _Declared], new: _Declared, name: str) -> None:
    """Add an option to a group; drivers of one name may share it if it means the same to both.

    :raises ConfigError: both have an option of that name, with different values.
    """
    known = group.setdefault(new.option.dest, new)
    ours, theirs = _meaning(known.option), _meaning(new.option)
    if ours != theirs:
        differing = ", ".join(sorted(key for key in ours if ours[key] != theirs.get(key)))
        raise ConfigError(
            f"[{name}] {new.option.dest}: {known.by} and {new.by} both declare it, with another "
            f"{differing or 'type'}: use one of them, or a version of one that renames its option"
        )


def _meaning(option: Opt) -> dict[str, object]:
    """Return what decides the value of an option: not its help, nor its name for deprecations."""
    aspects = ("default", "required", "multi", "mutable", "secret")
    type = option.type, getattr(option.type, "__dict__", None)  # types do not compare all limits
    return {"type": type, **{aspect: getattr(option, aspect) for aspect in aspects}}


def names(conf: ConfigOpts, group: str | None, option: str) -> list[str]:
    """Return the drivers that an option names; none when it is empty."""
    value: str | list[str] = conf[option] if group is None else conf[group][option]
    listed = [value] if isinstance(value, str) else value
    return [name for name in listed if name]


def make(
    conf: ConfigOpts,
    kind: Contract[D],
    name: str,
    host: HostResources,
    fallback: Mapping[str, Any] = MappingProxyType({}),
) -> D:
    """Make the driver with the values of its group in *conf*.

    :raises ConfigError: its options contradict each other.
    """
    return create(kind, name, values(conf, kind, name, fallback), host)


def values(
    conf: ConfigOpts,
    kind: Contract[Driver],
    name: str,
    fallback: Mapping[str, Any] = MappingProxyType({}),
) -> Mapping[str, Any]:
    """Return the values of a driver's options.

    An option that the files do not set takes the value of *fallback*: a driver that works on
    the objects of another one need not repeat its options.
    """
    found: dict[str, Any] = {}
    for option in load(kind, name).OPTIONS:
        location = conf.get_location(option.dest, name)
        is_default = location is None or location.location is Locations.opt_default
        value = conf[name][option.dest]
        found[option.dest] = fallback.get(option.dest, value) if is_default else value
    return found


def driver_options(
    kinds: Kinds, defaults: Mapping[str, Any] = MappingProxyType({})
) -> list[tuple[str, Sequence[Opt]]]:
    """List the options of every driver that could be chosen, for a sample configuration.

    Drivers of other frameworks are left out: all of them have the options of their adapter.
    """
    return [
        (found.name, _with_defaults(found.driver.OPTIONS, defaults))
        for kind in dict.fromkeys(kinds.values())
        for found in catalogue(kind)
        if found.driver is not None and found.driver.OPTIONS and not found.foreign_group
    ]


def _with_defaults(options: Sequence[Opt], defaults: Mapping[str, Any]) -> list[Opt]:
    replaced = [copy(option) for option in options]
    for option in replaced:
        option.default = defaults.get(option.name, option.default)
    return replaced
