"""Former names of drivers: a configuration that still uses one is refused with the new name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import frozen

from netfw.conf.loader import file_sections
from netfw.drivers.base import Contract, Driver
from netfw.drivers.registry.loader import installed, load
from netfw.drivers.transport import Transport
from netfw.errors import ConfigError

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts


@frozen(kw_only=True)
class Rename:
    """A driver whose entry point, and therefore option group, has a new name."""

    contract: Contract[Driver]
    old: str
    new: str


RENAMES: Final = (Rename(contract=Transport, old="local", new="socket"),)


def check_driver_name(
    contract: Contract[Driver], group: str | None, option: str, name: str
) -> None:
    """Raise if *option* selects a driver by its former *name*.

    A driver of another distribution may be registered under that name; it is used.

    :raises ConfigError: the text says which name to write.
    """
    for rename in RENAMES:
        if (rename.contract, rename.old) == (contract, name) and name not in installed(contract):
            raise ConfigError(
                f"[{group or 'DEFAULT'}] {option} = {name}: this driver is now called "
                f"{rename.new!r}: write '{option} = {rename.new}', and its options under "
                f"[{rename.new}]"
            )


def check_option_groups(conf: ConfigOpts, contracts: Iterable[Contract[Driver]]) -> None:
    """Raise if a file has options of a renamed driver under its former name.

    Without this check the driver would run with its defaults.

    :raises ConfigError: names each such option and the group to write it under.
    """
    problems = [
        f"{path}: [{rename.old}] {option}: write it under [{rename.new}]"
        for rename in RENAMES
        if rename.contract in contracts and rename.old not in installed(rename.contract)
        for path, option in _old_options(conf, rename)
    ]
    if problems:
        raise ConfigError("; ".join(problems))


def _old_options(conf: ConfigOpts, rename: Rename) -> Iterator[tuple[str, str]]:
    for path, section, options in file_sections(conf):
        if section == rename.old:
            known = {option.dest for option in load(rename.contract, rename.new).OPTIONS}
            yield from ((path, name) for name in options if name.replace("-", "_") in known)
