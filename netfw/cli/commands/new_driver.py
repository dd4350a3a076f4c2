"""``netfw new-driver``: writes the package of a new driver, which works and is tested."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from netfw.cli.runtime.arguments import add_json_argument


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
    add_json_argument(parser)
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
    following = [
        f"pip install -e '{target}[test]'",
        f"pytest {target}",
        f"netfw drivers show {names.package}",
        f"netfw-conformance{' --sandbox' * kind.needs.is_sandboxed} {names.distribution}",
    ]
    contract = kind.contract.__name__
    if arguments.json:
        written = {"directory": str(target), "files": sorted(map(str, rendered))}
        names_of_driver = {"contract": contract, "driver": names.package}
        print(json.dumps({**written, **names_of_driver, "next": following}, indent=2))
        return 0
    print(f"wrote {target}: {len(rendered)} files, {contract} {names.package}")
    print("next:")
    for command in following:
        print(f"  {command}")
    return 0
