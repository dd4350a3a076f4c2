"""``netfw drivers``: lists installed drivers with capabilities and health."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any, Final

from attrs import asdict, frozen

from netfw.cli.runtime.arguments import add_json_argument
from netfw.cli.runtime.driver_trial import DriverReport
from netfw.cli.runtime.tables import print_table
from netfw.cli.runtime.trial_process import try_drivers
from netfw.drivers.registry.entry_point_index import misplaced_points, unreadable_distributions
from netfw.drivers.registry.loader import Registration, all_contracts, registrations
from netfw.errors import NotFound, nearest

TIMEOUT: Final = 60.0
"""Seconds for a driver to be imported and made; a busy machine needs some of them."""


@frozen(kw_only=True)
class DriverRow:
    """One installed driver, as ``netfw drivers`` shows it."""

    interface: str
    name: str
    distribution: str
    version: str
    capabilities: tuple[str, ...]
    health: str
    warnings: tuple[str, ...] = ()


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("drivers", help="list installed drivers, or show one")
    add_json_argument(parser)
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help="how long a driver may take to be imported and made (default: %(default)g)",
    )
    parser.set_defaults(func=list_drivers)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="list installed drivers (the default)")
    listing.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    show = actions.add_parser("show", help="show one driver and its options")
    show.add_argument("name", metavar="NAME", help="NAME, or INTERFACE/NAME where several share it")
    show.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    show.set_defaults(func=show_driver)


def list_drivers(arguments: argparse.Namespace) -> int:
    tried = _tried(_everything(), arguments.timeout)
    rows = [*(_row(each, report) for each, report in tried), *_misplaced()]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        headers = ("INTERFACE", "NAME", "DISTRIBUTION", "VERSION", "CAPABILITIES", "HEALTH")
        print_table(headers, [_cells(row) for row in rows])
    return 0


def show_driver(arguments: argparse.Namespace) -> int:
    """Print the details of a driver; return 1 when it cannot be used."""
    everything = _everything()
    chosen = [
        each
        for each in everything
        if arguments.name in (each.name, f"{each.contract.__name__}/{each.name}")
    ]
    if not chosen:
        names = sorted({each.name for each in everything})
        if misplaced := [row for row in _misplaced() if row.name == arguments.name]:
            texts = (f"{row.distribution} {row.version}: {row.health}" for row in misplaced)
            raise NotFound(f"driver {arguments.name!r} of {'; '.join(texts)}")
        raise NotFound(
            f"no driver is called {arguments.name!r}{nearest(arguments.name, names)}; "
            f"installed: {', '.join(names)}"
        )
    tried = _tried(chosen, arguments.timeout)
    described = [_details(each, report) for each, report in tried]
    if arguments.json:
        print(json.dumps(described, indent=2))
    else:
        for details in described:
            _print_details(details)
    return 0 if all(report.is_usable for _, report in tried) else 1


def _everything() -> list[Registration]:
    return [each for contract in all_contracts() for each in registrations(contract)]


def _tried(
    chosen: Sequence[Registration], timeout: float
) -> list[tuple[Registration, DriverReport]]:
    reports = try_drivers([(each.contract, each.name) for each in chosen], timeout)
    return list(zip(chosen, reports, strict=True))


def _row(each: Registration, report: DriverReport) -> DriverRow:
    health = report.health
    if each.contract.DRAFT:
        health += "; draft contract: may change without notice"
    return DriverRow(
        interface=each.contract.__name__,
        name=each.name,
        distribution=each.distribution,
        version=each.version,
        capabilities=tuple(report.capabilities),
        health=health,
        warnings=tuple(report.warnings),
    )


def _misplaced() -> list[DriverRow]:
    """Return the drivers that cannot be found: entry points are misspelt or unreadable."""
    groups = [contract.GROUP for contract in all_contracts()]
    found = [(each.name, each.origin, each.problem) for each in misplaced_points(groups)]
    found += [("-", origin, problem) for origin, problem in unreadable_distributions()]
    rows = []
    for name, origin, problem in found:
        distribution, _, version = origin.rpartition(" ")
        rows.append(
            DriverRow(
                interface="-",
                name=name,
                distribution=distribution,
                version=version,
                capabilities=(),
                health=f"cannot be found: {problem}",
            )
        )
    return rows


def _cells(row: DriverRow) -> tuple[str, ...]:
    capabilities = ", ".join(row.capabilities) or "-"
    health = "; ".join((row.health, *(f"warning: {each}" for each in row.warnings)))
    return row.interface, row.name, row.distribution, row.version, capabilities, health


def _details(each: Registration, report: DriverReport) -> dict[str, Any]:
    row: dict[str, Any] = asdict(_row(each, report))
    return {**row, "about": report.about, "group": f"[{each.name}]", "options": report.options}


def _print_details(details: dict[str, Any]) -> None:
    print(f"{details['interface']} {details['name']}: {details['about']}")
    print(f"  from {details['distribution']} {details['version']}")
    print(f"  capabilities: {', '.join(details['capabilities']) or 'none'}")
    print(f"  health: {details['health']}")
    for warning in details["warnings"]:
        print(f"  warning: {warning}")
    if not details["options"]:
        print("  no options")
        return
    print(f"  options in {details['group']}:")
    for option in details["options"]:
        default = "(not set)" if option["default"] is None else option["default"]
        print(f"    {option['name']} ({option['type']}) = {default}")
        print(f"      {option['help']}")
