"""The options of a process: its own, and those of the drivers that it loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def groups_of(program: str, argv: Sequence[str], own: Groups, kinds: Kinds) -> Groups:
    """Return all options of a process: its *own*, and those of the drivers that the files choose.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    conf = load_config(program, argv, own).conf
    check_option_groups(conf, kinds.values())
    groups: dict[str | None, Sequence[Opt]] = dict(own)
    for (group, option), kind in kinds.items():
        for name in names(conf, group, option):
            check_driver_name(kind, group, option, name)
            new = [each for each in load(kind, name).OPTIONS if each not in groups.get(name, ())]
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
        unsaid = location is None or location.location is Locations.opt_default
        said = conf[name][option.dest]
        found[option.dest] = fallback.get(option.dest, said) if unsaid else said
    return found


def driver_options(kinds: Kinds) -> list[tuple[str, Sequence[Opt]]]:
    """List the options of every driver that could be chosen, for a sample configuration."""
    return [
        (found.name, found.driver.OPTIONS)
        for kind in dict.fromkeys(kinds.values())
        for found in catalogue(kind)
        if found.driver is not None and found.driver.OPTIONS
    ]
