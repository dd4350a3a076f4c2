"""The options of a process: its own, and those of the drivers that it loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from oslo_config.cfg import Locations

from netfw.cli.runtime.renamed_drivers import check_driver_name, check_option_groups
from netfw.conf.loader import Groups, load_config
from netfw.drivers.base import Contract, Driver, HostResources
from netfw.drivers.registry.loader import catalogue, create, load

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
    groups: dict[str | None, Sequence[Opt]] = dict(own)
    for (group, option), kind in kinds.items():
        for name in names(conf, group, option):
            check_driver_name(kind, group, option, name)
            options = _with_defaults(load(kind, name).OPTIONS, defaults)
            new = [each for each in options if each not in groups.get(name, ())]
            if new:
                groups[name] = (*groups.get(name, ()), *new)
    return groups


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
    """List the options of every driver that could be chosen, for a sample configuration."""
    return [
        (found.name, _with_defaults(found.driver.OPTIONS, defaults))
        for kind in dict.fromkeys(kinds.values())
        for found in catalogue(kind)
        if found.driver is not None and found.driver.OPTIONS
    ]


def _with_defaults(options: Sequence[Opt], defaults: Mapping[str, Any]) -> list[Opt]:
    replaced = [copy(option) for option in options]
    for option in replaced:
        option.default = defaults.get(option.name, option.default)
    return replaced
