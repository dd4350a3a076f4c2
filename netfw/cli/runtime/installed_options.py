"""Options of netfw's programs and drivers, as far as another program may meet them in its file.

They are imported only for a name that the program itself does not know.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import netfw.conf
from netfw.conf.loader import OtherPrograms
from netfw.errors import DriverError

if TYPE_CHECKING:
    from oslo_config.cfg import Opt


class InstalledPrograms(OtherPrograms):
    """All programs of netfw, and all installed drivers."""

    def has_group(self, section: str) -> bool:
        return _is_driver(section) or any(group == section for group, _ in _program_options())

    def options(self, section: str) -> Collection[str]:
        return {option.dest for option in (*_of_programs(section), *_of_drivers(section))}


def _of_programs(section: str) -> Iterator[Opt]:
    for group, options in _program_options():
        if (group or "DEFAULT") == section:
            yield from options


def _program_options() -> Iterator[tuple[str | None, Sequence[Opt]]]:
    """Yield the groups of all programs with their options, without those of drivers."""
    for module in pkgutil.iter_modules(netfw.conf.__path__, "netfw.conf."):
        list_opts = getattr(importlib.import_module(module.name), "list_opts", None)
        if list_opts is not None:
            yield from list_opts()


def _of_drivers(section: str) -> Iterator[Opt]:
    """Yield the options of every driver of that name that can be imported."""
    if not _is_driver(section):
        return
    from netfw.drivers.registry.loader import all_contracts, installed, load

    for contract in all_contracts():
        if section in installed(contract):
            with suppress(DriverError):
                yield from load(contract, section).OPTIONS


def _is_driver(name: str) -> bool:
    from netfw.drivers.registry.entry_point_index import all_points

    return any(known == name and group.startswith("netfw.") for group, known in all_points())
