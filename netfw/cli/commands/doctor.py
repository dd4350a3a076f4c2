"""``netfw doctor``: checks whether this host has what netfw needs, and says what to do."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netfw.cli.agents.component_factory import add_agent_arguments
from netfw.cli.runtime.arguments import file_arguments
from netfw.cli.runtime.output import print_lines
from netfw.cli.runtime.tables import print_table
from netfw.ovs.socket_directory import DEFAULT_DIRECTORY

if TYPE_CHECKING:
    from netfw.cli.diagnosis.host_checks import Check

FAILED = 3
"""Exit status when a check failed."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check whether this host has what netfw needs, and say what to do",
        description="Check kernel, Open vSwitch, programs, privileges, limits, clock and "
        "directories of this host, and have the drivers of its agents check it.  Changes nothing.  "
        "Exit status: 0 nothing failed, 2 wrongly configured, 3 a check failed.",
    )
    add_agent_arguments(parser, "without files, those in /etc/netfw are used")
    parser.add_argument(
        "--ovs-directory",
        metavar="DIRECTORY",
        default=DEFAULT_DIRECTORY,
        help=f"where the sockets of ovs-vswitchd are ({DEFAULT_DIRECTORY})",
    )
    parser.set_defaults(func=examine_host)


def examine_host(arguments: argparse.Namespace) -> int:
    """Print all checks; see ``netfw doctor --help`` for the status."""
    from netfw.cli.diagnosis.host_checks import CheckLevel, check_host
    from netfw.cli.diagnosis.host_facts import found_configurations, read_host
    from netfw.conf.loader import load_config

    files = file_arguments(arguments)
    conf = load_config("netfw", files).conf
    agents = {arguments.agent: files} if files else found_configurations()
    directory = Path(arguments.ovs_directory)
    checks = check_host(read_host(directory, Path(conf.state_path).absolute(), agents))
    if arguments.json:
        print(json.dumps([check.to_dict() for check in checks], indent=2))
    else:
        _print_checks(checks)
    return FAILED if any(check.level is CheckLevel.FAIL for check in checks) else 0


def _print_checks(checks: Sequence[Check]) -> None:
    print_table(
        ("CHECK", "RESULT", "FOUND"), [(each.name, each.level, each.text) for each in checks]
    )
    print_lines(f"{each.name} ({each.level}): {each.todo}" for each in checks if each.todo)
    levels = Counter(check.level for check in checks)
    print(", ".join(f"{count} {level}" for level, count in levels.items()))
