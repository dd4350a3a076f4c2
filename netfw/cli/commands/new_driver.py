"""``netfw new-driver``: writes the package of a new driver, which works and is tested."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "new-driver",
        help="write a package with a working driver and its tests",
        description="Write a package with a working driver, its conformance test and CI file.",
    )
    kind_help = "contract of the driver, such as interface or mechanism; any other word lists them"
    parser.add_argument("kind", metavar="KIND", help=kind_help)
    parser.add_argument("name", metavar="NAME", help="name of the new distribution")
    parser.add_argument(
        "--directory", type=Path, default=Path(), metavar="D", help="where to write it (default: .)"
    )
    parser.set_defaults(func=write)


def write(arguments: argparse.Namespace) -> int:
    """Write the package; nothing is left behind if that fails."""
    from netfw.cli.scaffold.kinds import find_kind
    from netfw.cli.scaffold.names import make_names
    from netfw.cli.scaffold.package import render_package, write_package

    kind, names = find_kind(arguments.kind), make_names(arguments.name)
    target = arguments.directory / names.distribution
    rendered = render_package(kind, names)
    write_package(rendered, target)
    print(f"wrote {target}: {len(rendered)} files, {kind.contract.__name__} {names.package}")
    print("next:")
    print(f"  pip install -e '{target}[test]'")
    print(f"  pytest {target}")
    print(f"  netfw drivers show {names.package}")
    print(f"  netfw-conformance{' --sandbox' * kind.needs.is_sandboxed} {names.distribution}")
    return 0
