"""The kinds of packages: one for each contract that has an entry-point group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.registry.loader import all_contracts
from netfw.errors import ConfigError, nearest

STATE_FILE: Final = "state_file"
"""Templates of a backend that is one JSON file, for kinds whose driver has a backend."""


@frozen(kw_only=True)
class Needs:
    """What the package of a kind has beyond the templates of its own."""

    parts: tuple[str, ...] = ()
    """Folders of templates that several kinds share."""
    extras: tuple[str, ...] = ()
    """Extras of netfw that the driver imports."""
    is_sandboxed: bool = False
    """Whether its tests run on real namespaces and switches."""


NEEDS: Final[Mapping[str, Needs]] = {
    "core-plugin": Needs(extras=("server",)),
    "dhcp": Needs(is_sandboxed=True),
    "firewall": Needs(is_sandboxed=True),
    "interface": Needs(parts=(STATE_FILE,)),
    "mechanism": Needs(parts=(STATE_FILE,)),
    "metadata": Needs(is_sandboxed=True),
    "router": Needs(is_sandboxed=True),
    "service-plugin": Needs(extras=("server",)),
    "switch": Needs(is_sandboxed=True),
}


@frozen
class ScaffoldKind:
    """A contract as an argument of ``netfw new-driver``."""

    name: str
    contract: type[Driver]
    needs: Needs

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of templates, those that all packages share first."""
        return ("common", *self.needs.parts, self.name)


def all_kinds() -> dict[str, ScaffoldKind]:
    """Return every kind by its name, sorted."""
    named = {kind_name(contract): contract for contract in all_contracts()}
    return {
        name: ScaffoldKind(name, contract, NEEDS.get(name, Needs()))
        for name, contract in sorted(named.items())
    }


def kind_name(contract: type[Driver]) -> str:
    """Return the kind of *contract*: its group in the singular, without the word driver."""
    plural = contract.GROUP.removeprefix("netfw.")
    return plural.removesuffix("s").removesuffix("_driver").replace("_", "-")


def find_kind(name: str) -> ScaffoldKind:
    """Return the kind that is called *name*.

    :raises ConfigError: there is none; the text lists them.
    """
    kinds = all_kinds()
    if name not in kinds:
        raise ConfigError(
            f"there is no kind of driver {name!r}{nearest(name, kinds)}; "
            f"the kinds are {', '.join(kinds)}"
        )
    return kinds[name]
