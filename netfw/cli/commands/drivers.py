"""``netfw drivers``: lists installed drivers with capabilities and health."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, frozen

from netfw.cli.runtime.tables import print_table
from netfw.drivers.base import Driver
from netfw.drivers.registry import loader
from netfw.drivers.registry.loader import Installed, catalogue, create
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.errors import DriverError, NetfwError, NotFound, nearest

if TYPE_CHECKING:
    from oslo_config.cfg import Opt


STAND_INS: Final[Mapping[str, str]] = {"InterfaceDriver": "null", "Transport": "socket"}
"""Drivers without needs of their own, for drivers that need one of the contract."""


@frozen(kw_only=True)
class Row:
    """One installed driver, as ``netfw drivers`` shows it."""

    interface: str
    name: str
    distribution: str
    version: str
    capabilities: tuple[str, ...]
    health: str


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("drivers", help="list installed drivers, or show one")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.set_defaults(func=list_drivers)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="list installed drivers (the default)")
    listing.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    show = actions.add_parser("show", help="show one driver and its options")
    show.add_argument("name", metavar="NAME", help="NAME, or INTERFACE/NAME where several share it")
    show.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    show.set_defaults(func=show_driver)


def list_drivers(arguments: argparse.Namespace) -> int:
    rows = [_row(kind, found) for kind, found in _everything()]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        headers = ("INTERFACE", "NAME", "DISTRIBUTION", "VERSION", "CAPABILITIES", "HEALTH")
        print_table(headers, [_cells(row) for row in rows])
    return 0


def show_driver(arguments: argparse.Namespace) -> int:
    """Print the details of a driver; return 1 when it cannot be used."""
    chosen = [
        (kind, found)
        for kind, found in _everything()
        if arguments.name in (found.name, f"{kind.__name__}/{found.name}")
    ]
    if not chosen:
        names = sorted({found.name for _, found in _everything()})
        raise NotFound(
            f"no driver is called {arguments.name!r}{nearest(arguments.name, names)}; "
            f"installed: {', '.join(names)}"
        )
    described = [_details(kind, found) for kind, found in chosen]
    if arguments.json:
        print(json.dumps(described, indent=2))
    else:
        for details in described:
            _print_details(details)
    return 1 if any(found.error for _, found in chosen) else 0


def _everything() -> Iterator[tuple[type[Driver], Installed[Driver]]]:
    for kind in loader.all_contracts():
        for found in catalogue(kind):
            yield kind, found


def _row(kind: type[Driver], found: Installed[Driver]) -> Row:
    capabilities: Sequence[str] = ()
    health = str(found.error)
    if found.driver is not None:
        capabilities, health = _try_out(kind, found)
    if kind.DRAFT:
        health += "; draft contract: may change without notice"
    return Row(
        interface=kind.__name__,
        name=found.name,
        distribution=found.distribution,
        version=found.version,
        capabilities=tuple(capabilities),
        health=health,
    )


def _try_out(kind: type[Driver], found: Installed[Driver]) -> tuple[Sequence[str], str]:
    """Return capabilities and health of a driver made with its default options."""
    with ExitStack() as stack:
        host = stack.enter_context(LocalHostResources())
        _lend(host, kind, stack)
        try:
            driver = create(kind, found.name, {}, host)
        except DriverError as exc:
            return (), str(exc)
        except NetfwError as exc:
            return (), f"needs configuration: {exc}"
        try:
            capabilities = sorted(driver.describe().capabilities)
            return capabilities, "; ".join(driver.problems()) or "ok"
        except Exception as exc:  # noqa: BLE001 - one bad driver does not hide the others
            return (), f"a defect of the driver: {type(exc).__name__}: {exc}"
        finally:
            driver.close()


def _lend(host: LocalHostResources, kind: type[Driver], stack: ExitStack) -> None:
    """Register drivers that work on any machine, for drivers that need one."""
    for contract in loader.all_contracts():
        name = STAND_INS.get(contract.__name__)
        if name is None or contract is kind:
            continue
        with suppress(NetfwError):
            driver = create(contract, name, {}, host)
            stack.callback(driver.close)
            host.add(driver)


def _cells(row: Row) -> tuple[str, ...]:
    capabilities = ", ".join(row.capabilities) or "-"
    return row.interface, row.name, row.distribution, row.version, capabilities, row.health


def _details(kind: type[Driver], found: Installed[Driver]) -> dict[str, Any]:
    row: dict[str, Any] = asdict(_row(kind, found))
    options = [_option(option) for option in found.driver.OPTIONS] if found.driver else []
    doc = (found.driver.__doc__ or "").strip().partition("\n")[0] if found.driver else ""
    return {**row, "about": doc, "group": f"[{found.name}]", "options": options}


def _option(option: Opt) -> dict[str, Any]:
    return {
        "name": option.dest,
        "type": str(option.type),
        "default": option.default,
        "help": option.help or "",
    }


def _print_details(details: dict[str, Any]) -> None:
    print(f"{details['interface']} {details['name']}: {details['about']}")
    print(f"  from {details['distribution']} {details['version']}")
    print(f"  capabilities: {', '.join(details['capabilities']) or 'none'}")
    print(f"  health: {details['health']}")
    if not details["options"]:
        print("  no options")
        return
    print(f"  options in {details['group']}:")
    for option in details["options"]:
        default = "(not set)" if option["default"] is None else option["default"]
        print(f"    {option['name']} ({option['type']}) = {default}")
        print(f"      {option['help']}")
